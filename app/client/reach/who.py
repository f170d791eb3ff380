"""`klamm who`: who has access to a resource, from where and by which ACLs."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from app.client.acl_texts import from_host, resource_text
from app.client.console import Page
from app.client.http.access import access_of, add_access_arguments
from app.client.http.replies import parse_list, parse_text
from app.client.http.service import Service
from app.client.moments import add_at_argument, at_body
from app.client.plan.markdown import code
from app.client.reach import output
from app.client.words import operation_named, resource_named
from app.core.groups import is_group
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, ResourceType
from app.core.readable import readable
from app.formats.command_errors import UsageError

DESCRIPTION = (
    "Shows which principals have access to a resource and from which hosts, with DENYs taken into account, and the "
    "ACLs behind it. `User:*` stands for everybody who is not listed. Super users are listed separately, with "
    "DescribeConfigs on the cluster. Needs Describe on the cluster."
)
_EPILOG = f"Example:\n  klamm who topic:orders --operation READ --as User:admin\n\n{output.EPILOG}"
_NOT_SHOWN = (
    "super users can do everything from everywhere; who they are is not shown, as that needs DescribeConfigs on the "
    "cluster"
)
_COLUMNS = ("principal", "host", "operations", "denied", "expires_at", "rule", "acls")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s RESOURCE [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument(
        "resource",
        metavar="RESOURCE",
        help="topic:NAME, group:NAME, transactional-id:NAME, delegation-token:ID, user:PRINCIPAL or cluster",
    )
    parser.add_argument(
        "--operation",
        metavar="OPERATION",
        action="append",
        default=[],
        help="only this operation, such as READ; may be repeated (all that the resource has)",
    )
    output.add_arguments(parser)
    add_at_argument(parser)
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    resource_type, name = resource_named(arguments.resource)
    operations = [_operation(each) for each in arguments.operation]
    host, at = output.host_given(arguments), at_body(arguments)
    resource = {"resource_type": resource_type.name, "resource_name": name}
    with Service(access_of(arguments)) as service:
        reply = service.all_rows("/v1/who-can", {"resource": resource, "operations": operations, **host, **at})
    print_holders(reply, (resource_type, name), operations, arguments.output, out)
    return 0


def print_holders(
    reply: Mapping[str, object], resource: tuple[ResourceType, str], operations: Sequence[str], form: str, out: TextIO
) -> None:
    title = f"Who can {' or '.join(operations) or 'do what'} on"
    note = "" if _shows_super_users(reply) else _NOT_SHOWN
    table = output.Table(f"{title} {code(resource_text(*resource))}", _COLUMNS, _cells(reply), note)
    output.write(form, reply, table, lambda: _print(reply, f"{title} {resource_text(*resource)}", out), out)


def _operation(text: str) -> str:
    operation = operation_named(text)
    if operation is AclOperation.ALL:
        raise UsageError("--operation: ALL is not a single operation; leave --operation out to ask about all of them")
    return operation.name


def _cells(reply: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    for principal in _super_users(reply):
        yield principal, *output.SUPER_USER_CELLS
    if reply.get("allowed_by_default") is True:
        yield WILDCARD_PRINCIPAL, *output.DEFAULT_CELLS
    for row in output.rows_in(reply):
        yield parse_text(row, "principal"), *output.cells_of(output.given(row))


def _print(reply: Mapping[str, object], title: str, out: TextIO) -> None:
    page = Page(out, wrapped=True)
    page.line(title)
    rows = output.rows_in(reply)
    for row in rows:
        held = output.given(row)
        page.line("")
        page.line(f"{readable(parse_text(row, 'principal'))} {from_host(held.host)}: {held.text}")
        output.print_acls(page, held.acls, held.acl_count)
    page.heading("Note")
    if reply.get("allowed_by_default") is True:
        page.line("it has no ACL, so everybody can do everything (allow.everyone.if.no.acl.found)", indent=1)
    elif any(row.get("principal") == WILDCARD_PRINCIPAL for row in rows):
        page.line(f"everybody who is not listed has the access of {WILDCARD_PRINCIPAL}", indent=1)
    else:
        page.line("nobody else can" if rows else "no ACL allows anybody access", indent=1)
    if any(output.given(row).host != "*" for row in rows):
        page.line("if a principal has several lines, the narrowest matching host applies", indent=1)
    supers = _super_users(reply)
    if not _shows_super_users(reply):
        page.line(_NOT_SHOWN, indent=1)
    if supers:
        page.line(f"super users can do everything from everywhere: {', '.join(map(readable, supers))}", indent=1)
    if any(map(is_group, supers)):
        page.line("a super user `Group:NAME` is a principal of that name, not a member of the group", indent=1)
    page.line("")
    page.line(f"As of {reply.get('token')}")


def _super_users(reply: Mapping[str, object]) -> list[str]:
    return [each for each in parse_list(reply, "super_users") if isinstance(each, str)]


def _shows_super_users(reply: Mapping[str, object]) -> bool:
    # A service of an earlier version shows them always, and does not say so.
    return reply.get("super_users_shown") is not False
