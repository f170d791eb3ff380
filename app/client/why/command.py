"""`klamm why`: why something is allowed or denied, and what would change it."""

import argparse
import json
from collections.abc import Mapping
from typing import TextIO

from app.client.http.access import OPTIONS, AccessFlags, access_flags, access_of, add_access_arguments
from app.client.http.replies import ServiceError, parse_list, parse_object, strange_reply
from app.client.http.service import Service
from app.client.why.explanation import Asked, explained, print_explanation
from app.client.words import operation_named, principal_named, resource_named
from app.core.kafka.errors import Errors, InvalidRequestException
from app.core.kafka.hosts import parse_address
from app.formats.command_errors import UsageError

DESCRIPTION = (
    "Says what authorize answers, and the rule and the ACL that decided. If it is denied, says which ACLs nearly "
    "match, and what to type so that it is allowed. To ask about another principal than one's own (--as) takes "
    "Describe on the cluster."
)
_EPILOG = (
    "Example:\n  klamm why User:bob READ topic:orders --host 10.1.2.3 --as User:admin\n\n"
    "Exit codes: 0 answered; 1 refused or failed; 2 asked for wrongly; 4 denied (--exit-code only); "
    "130 Ctrl-C; 141 the reader of a pipe has gone."
)

_DENIED = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s PRINCIPAL OPERATION RESOURCE --host ADDRESS [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument("principal", metavar="PRINCIPAL", help="who would do it, such as User:bob")
    parser.add_argument("operation", metavar="OPERATION", help="what, such as READ or DescribeConfigs")
    parser.add_argument(
        "resource",
        metavar="RESOURCE",
        help="on which resource: topic:NAME, group:NAME, transactional-id:NAME, delegation-token:ID, user:PRINCIPAL "
        "or cluster",
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        required=True,
        help="the client's IP address, such as 10.1.2.3; ACLs may be for some hosts only",
    )
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="text to read, or JSON, which is all that the service answers (text)",
    )
    parser.add_argument(
        "--exit-code", action="store_true", help=f"exit with {_DENIED} if it is denied, 0 if it is allowed"
    )
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Returns 0, or 4 with --exit-code if it is denied."""
    asked = _asked(arguments)
    with Service(access_of(arguments)) as service:
        reply = _reply(service, asked)
    results = parse_list(reply, "results")
    if len(results) != 1:
        raise strange_reply(f"{len(results)} results for 1 action")
    explanation = explained(results[0], reply.get("token"))
    if arguments.output == "json":
        # ASCII, so that no name in it moves a terminal's cursor.
        out.write(
            json.dumps({**asked.fields, **parse_object(results[0]), "token": reply.get("token")}, indent=2) + "\n"
        )
    else:
        print_explanation(asked, explanation, _access_options(access_flags(arguments)), out)
    return _DENIED if arguments.exit_code and not explanation.is_allowed else 0


def _reply(service: Service, asked: Asked) -> Mapping[str, object]:
    body = {
        "about": {"principal": asked.principal, "client_address": asked.host},
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
        hint = f"to ask about others, `{service.principal}` needs Describe on the cluster"
        raise ServiceError(f"{refusal}; {hint}", code=refusal.code, status=refusal.status) from None


def _asked(arguments: argparse.Namespace) -> Asked:
    resource_type, resource_name = resource_named(arguments.resource)
    try:
        host = parse_address(arguments.host).text
    except InvalidRequestException:
        raise UsageError(
            f"--host: `{arguments.host[:100]}` is no IP address; write one such as 10.1.2.3 or 2001:db8::1"
        ) from None
    operation = operation_named(arguments.operation)
    return Asked(principal_named(arguments.principal), operation, resource_type, resource_name, host)


def _access_options(flags: AccessFlags) -> list[str]:
    given = ((f"--{option}", getattr(flags, field)) for field, option, *_ in OPTIONS if field != "timeout")
    return [word for option, value in given if value is not None for word in (option, value)]
