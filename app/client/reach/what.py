"""`klamm what`: what a principal has access to, and what DENYs cut out of it."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TextIO

from app.client.acl_texts import from_host, resource_text
from app.client.console import Page
from app.client.groups import add_group_argument, groups_body, groups_given, with_groups
from app.client.http.access import access_of, add_access_arguments
from app.client.http.replies import count_of, parse_acls, parse_list, parse_text
from app.client.http.service import Service
from app.client.moments import add_at_argument, at_body
from app.client.plan.markdown import code
from app.client.reach import output
from app.client.words import principal_named
from app.core.kafka.codes import WILDCARD, PatternType, ResourceType

DESCRIPTION = (
    "Shows what a principal has access to, on which names and from which hosts, by its own ACLs and those of "
    "`User:*`, and which DENYs take part of it away. Needs Describe on the cluster."
)
_EPILOG = f"Example:\n  klamm what User:bob --as User:admin\n\n{output.EPILOG}"
_PATTERN_AND_HOST = ("resource_type", "pattern_type", "resource_name", "host")
_COLUMNS = (*_PATTERN_AND_HOST, "operations", "denied", "expires_at", "rule", "acls", "cut_out")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s PRINCIPAL [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument("principal", metavar="PRINCIPAL", help="the principal, such as User:bob")
    add_group_argument(parser)
    output.add_arguments(parser)
    add_at_argument(parser)
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    principal, host = principal_named(arguments.principal), output.host_given(arguments)
    groups, at = groups_given(arguments), at_body(arguments)
    with Service(access_of(arguments)) as service:
        reply = service.all_rows("/v1/what-can", {"principal": principal, **groups_body(groups), **host, **at})
    reply["rows"] = join_rows(output.rows_in(reply))
    print_holdings(reply, with_groups(principal, groups), arguments.output, out)
    return 0


def join_rows(rows: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """One row for each pattern and host, with the `cut_out` of all that are about them. Raises ServiceError."""
    grouped = groupby(rows, key=lambda row: [row.get(name) for name in _PATTERN_AND_HOST])
    return [_joined(list(some)) for _, some in grouped]


def _joined(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    return {**rows[0], "cut_out": [deny for row in rows for deny in parse_list(row, "cut_out")]}


def print_holdings(reply: Mapping[str, object], principal: str, form: str, out: TextIO) -> None:
    table = output.Table(f"What {code(principal)} can do", _COLUMNS, _cells(reply))
    output.write(form, reply, table, lambda: _print(reply, principal, out), out)


def _cells(reply: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    everything = (ResourceType.ANY.name, PatternType.LITERAL.name, WILDCARD)
    if reply.get("super_user") is True:
        yield *everything, *output.SUPER_USER_CELLS, ""
    elif reply.get("allowed_by_default") is True:
        yield ResourceType.ANY.name, "", "", *output.DEFAULT_CELLS, ""
    for row in output.rows_in(reply):
        names = (parse_text(row, each) for each in _COLUMNS[:3])
        cut_out = parse_acls(row, "cut_out")
        text = output.acls_text(cut_out, count_of(row, "cut_out_count", cut_out))
        yield *names, *output.cells_of(output.given(row)), text


def _print(reply: Mapping[str, object], principal: str, out: TextIO) -> None:
    page = Page(out, wrapped=True)
    page.line(f"What {principal} can do")
    rows = output.rows_in(reply)
    for row in rows:
        held, cut_out = output.given(row), parse_acls(row, "cut_out")
        pattern = resource_text(
            ResourceType.from_string(parse_text(row, "resource_type")),
            parse_text(row, "resource_name"),
            PatternType.from_string(parse_text(row, "pattern_type")),
        )
        page.line("")
        page.line(f"{pattern} {from_host(held.host)}: {held.text}")
        output.print_acls(page, held.acls, held.acl_count)
        if cut_out:
            page.line("except what these deny:", indent=1)
            output.print_acls(page, cut_out, count_of(row, "cut_out_count", cut_out))
    page.heading("Note")
    if reply.get("super_user") is True:
        page.line("it is a super user: it can do everything from everywhere, regardless of ACLs", indent=1)
    elif reply.get("allowed_by_default") is True:
        page.line("it can also do everything on resources without ACLs (allow.everyone.if.no.acl.found)", indent=1)
    else:
        page.line("it can do nothing else" if rows else "no ACL allows it anything", indent=1)
    page.line("")
    page.line(f"As of {reply.get('token')}")
