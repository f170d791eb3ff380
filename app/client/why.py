"""`klamm why`: why something is allowed or denied, and what would change it."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TextIO

from app.client.acl_texts import command_for, resource_text, stored_acl_text
from app.client.console import Page, write_json
from app.client.ends import end_of
from app.client.explanations import Asked, Explained, explained
from app.client.groups import add_group_argument, groups_body, groups_given, with_groups
from app.client.http.access import OPTIONS, AccessFlags, access_flags, access_of, add_access_arguments
from app.client.http.replies import ServiceError, parse_list, parse_object, strange_reply
from app.client.http.service import Service
from app.client.moments import add_at_argument, at_body
from app.client.words import host_named, operation_named, principal_named, resource_named, utf_8
from app.core.kafka.bindings import AclBinding, rfc3339
from app.core.kafka.errors import Errors
from app.core.readable import backticked
from app.formats.acl_bodies import binding_body
from app.formats.command_errors import UsageError

_RULES = {
    "SuperUser": "ACLs are not checked (SuperUser)",
    "MatchingAcl": "this ACL decides (MatchingAcl):",
    "DefaultAllow": "this resource has no ACL (DefaultAllow)",
    "DefaultDeny": "no ACL allows it (DefaultDeny)",
}


def print_explanation(
    asked: Asked, found: Explained, access: Sequence[str], out: TextIO, allow_for: str | None = None
) -> None:
    """`access` are the flags for commands to reach the same service; `allow_for` is when what they add ends."""
    page = Page(out)
    word, style = ("ALLOWED", "bold green") if found.is_allowed else ("DENIED", "bold red")
    resource = resource_text(asked.resource_type, asked.resource_name)
    who = with_groups(asked.principal, asked.groups)
    page.line(f"{who} {asked.operation.name} {resource} from {asked.host}", before=word, style=style)
    page.line(_RULES.get(found.rule, found.rule), indent=1)
    if found.acl is not None:
        page.line(stored_acl_text(found.acl), indent=2)
    if found.matching_count > (found.acl is not None):
        page.heading(_counted("Every ACL that matches", found.matching_count, len(found.matching)))
        page.lines(map(stored_acl_text, found.matching))
    # If it is allowed it works; DENYs that don't match it are left to programs (--output json).
    near_misses = () if found.is_allowed else found.near_misses
    if near_misses:
        page.heading("ACLs that nearly match")
    for acl, detail in near_misses:
        page.line(stored_acl_text(acl), indent=1)
        page.line(detail, indent=2)
    _print_way_out(page, found, access, allow_for)
    if found.note is not None:
        page.heading("Note")
        page.lines(found.note.split("; "))
    page.line("")
    page.line(f"As of {found.token}" if found.token is not None else "The service has not loaded its ACLs yet")


def _print_way_out(page: Page, found: Explained, access: Sequence[str], allow_for: str | None) -> None:
    if found.denying:
        page.heading(_counted("To allow it, remove every ACL that denies it", found.denying_count, len(found.denying)))
        page.lines(_command("remove", each, access) for each in found.denying)
    if found.needed_besides is not None:
        page.heading("and then add the smallest ACL that allows it")
        page.line(_command("add", found.needed_besides, access, allow_for), indent=1)
    if found.smallest is not None:
        page.heading("To allow it, add the smallest ACL that does")
        page.line(_command("add", found.smallest, access, allow_for), indent=1)


def _command(action: str, binding: AclBinding, access: Sequence[str], allow_for: str | None = None) -> str:
    # ASCII, so that it can be copied as it is.
    call = "createAcls" if action == "add" else "deleteAcls"
    end = None if allow_for is None else end_of(allow_for, _ALLOW_FOR)
    body = binding_body(binding) | ({} if end is None else {"expires_at": rfc3339(end)})
    return command_for(action, binding, access, allow_for) or (
        f"no command line can express it; send it to {call}: {json.dumps(body)}"
    )


def _counted(text: str, count: int, listed: int) -> str:
    return f"{text} ({count})" if count == listed else f"{text} (the first {listed} of {count})"


DESCRIPTION = (
    "Shows what authorize answers, and the rule and the ACL that decided. If the answer is DENIED, shows which ACLs "
    "nearly match, and the command that would allow it. Asking about another principal than your own (--as) needs "
    "Describe on the cluster."
)
_EPILOG = (
    "Example:\n  klamm why User:bob READ topic:orders --host 10.1.2.3 --as User:admin\n\n"
    "Exit codes: 0 answered; 1 refused or failed; 2 wrong usage; 4 denied (--exit-code only); 130 Ctrl-C; 141 the "
    "reader closed the pipe."
)

_DENIED = 4
_ALLOW_FOR = "allow-for"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s PRINCIPAL OPERATION RESOURCE --host ADDRESS [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument("principal", metavar="PRINCIPAL", help="the principal, such as User:bob")
    parser.add_argument("operation", metavar="OPERATION", help="the operation, such as READ or DescribeConfigs")
    parser.add_argument(
        "resource",
        metavar="RESOURCE",
        help="the resource: topic:NAME, group:NAME, transactional-id:NAME, delegation-token:ID, user:PRINCIPAL or "
        "cluster",
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        required=True,
        help="the client's IP address, such as 10.1.2.3; ACLs may be limited to some hosts",
    )
    add_group_argument(parser)
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="text to read, or JSON, the service's whole answer (text)",
    )
    parser.add_argument(
        f"--{_ALLOW_FOR}",
        metavar="TIME",
        help="print the command that allows it for this long, such as 8h from when it is run by that machine's clock, "
        "or until 2026-12-01T18:00:00Z",
    )
    parser.add_argument(
        "--exit-code", action="store_true", help=f"exit with {_DENIED} if it is denied, 0 if it is allowed"
    )
    add_at_argument(parser)
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Returns 0, or 4 with --exit-code if it is denied."""
    asked, allow_for = _asked(arguments), arguments.allow_for
    if allow_for is not None:
        end_of(utf_8(allow_for), _ALLOW_FOR)
        if arguments.output == "json":
            raise UsageError(f"--{_ALLOW_FOR} prints a command, not JSON; leave out --{_ALLOW_FOR} or --output")
        if arguments.at is not None:
            raise UsageError(f"--{_ALLOW_FOR} is about the current ACLs; leave out --{_ALLOW_FOR} or --at")
    at = at_body(arguments)
    with Service(access_of(arguments)) as service:
        reply = _reply(service, asked, at)
    results = parse_list(reply, "results")
    if len(results) != 1:
        raise strange_reply(f"{len(results)} results for 1 action")
    explanation = explained(results[0], reply.get("token"))
    if arguments.output == "json":
        write_json({**asked.fields, **parse_object(results[0]), "token": reply.get("token")}, out)
    else:
        print_explanation(asked, explanation, _access_options(access_flags(arguments)), out, allow_for)
    return _DENIED if arguments.exit_code and not explanation.is_allowed else 0


def _reply(service: Service, asked: Asked, at: Mapping[str, str]) -> Mapping[str, object]:
    body: dict[str, object] = {
        **at,
        "about": {"principal": asked.principal, "client_address": asked.host, **groups_body(asked.groups)},
        "actions": [
            {
                "operation": asked.operation.name,
                "resource_type": asked.resource_type.name,
                "resource_name": asked.resource_name,
            }
        ],
    }
    try:
        return service.post("/v1/explain", body, idempotent=True)
    except ServiceError as refusal:
        if refusal.code != Errors.CLUSTER_AUTHORIZATION_FAILED.value or asked.principal == service.principal:
            raise
        hint = f"to ask about others, {backticked(service.principal)} needs Describe on the cluster"
        raise ServiceError(f"{refusal}; {hint}", code=refusal.code, status=refusal.status) from None


def _asked(arguments: argparse.Namespace) -> Asked:
    resource_type, resource_name = resource_named(arguments.resource)
    host = host_named(arguments.host)
    operation = operation_named(arguments.operation)
    principal, groups = principal_named(arguments.principal), groups_given(arguments)
    return Asked(principal, operation, resource_type, resource_name, host, groups)


def _access_options(flags: AccessFlags) -> list[str]:
    given = ((f"--{option}", getattr(flags, field)) for field, option, *_ in OPTIONS if field != "timeout")
    return [word for option, value in given if value is not None for word in (option, value)]
