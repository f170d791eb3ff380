"""What `klamm who` and `klamm what` print: texts for people, and JSON, CSV and Markdown for programs and pages."""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from app.client.acl_texts import stored_acl_text
from app.client.console import Page
from app.client.http.replies import parse_acl, parse_list, parse_object, parse_text
from app.client.plan.markdown import code
from app.client.words import harmless
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import WILDCARD
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import parse_address
from app.formats.command_errors import UsageError
from app.formats.csv_cells import csv_line

OUTPUTS = ("text", "json", "csv", "markdown")
EPILOG = "Exit codes: 0 answered; 1 refused or failed; 2 wrong usage; 130 Ctrl-C; 141 the reader closed the pipe."
_BY_ACL, _SUPER_USER, _BY_DEFAULT = "MatchingAcl", "SuperUser", "DefaultAllow"


@dataclass(frozen=True, slots=True)
class Given:
    """What a row allows and denies, and by which ACLs; those that are not listed are only counted."""

    host: str
    operations: Sequence[str]
    denied: Sequence[str]
    expires_at: str | None
    acls: Sequence[StandardAcl]
    acl_count: int

    @property
    def text(self) -> str:
        """`READ, DESCRIBE until 2026-11-30T18:00:00Z; denied WRITE`."""
        given = ", ".join(self.operations) or "nothing"
        until = "" if self.expires_at is None else f" until {self.expires_at}"
        return f"{given}{until}{'; denied ' if self.denied else ''}{', '.join(self.denied)}"


def given(fields: Mapping[str, object]) -> Given:
    """The part that rows of whoCan and whatCan have in common. Raises ServiceError."""
    acls, ends = acls_in(fields, "acls"), fields.get("expires_at")
    return Given(
        parse_text(fields, "host"),
        _words(fields, "operations"),
        _words(fields, "denied"),
        ends if isinstance(ends, str) else None,
        acls,
        count_in(fields, "acl_count", acls),
    )


def acls_in(fields: Mapping[str, object], name: str) -> list[StandardAcl]:
    return [parse_acl(each) for each in parse_list(fields, name)]


def count_in(fields: Mapping[str, object], name: str, listed: Sequence[StandardAcl]) -> int:
    count = fields.get(name)
    return count if isinstance(count, int) else len(listed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", metavar="ADDRESS", help="only for a client at this IP address, such as 10.1.2.3 (any)"
    )
    parser.add_argument(
        "--output",
        choices=OUTPUTS,
        default="text",
        help="text to read, JSON (the service's whole answer), CSV, or a Markdown table (text)",
    )


def host_given(arguments: argparse.Namespace) -> dict[str, str]:
    """The field of the body. Raises UsageError."""
    if arguments.host is None:
        return {}
    try:
        return {"host": parse_address(arguments.host).text}
    except InvalidRequestException:
        raise UsageError(
            f"--host: `{arguments.host[:100]}` is not an IP address; use one such as 10.1.2.3 or 2001:db8::1"
        ) from None


@dataclass(frozen=True, slots=True)
class Table:
    """The reply as rows. `title` is Markdown."""

    title: str
    columns: Sequence[str]
    rows: Iterable[Sequence[str]]


def write(form: str, reply: Mapping[str, object], table: Table, write_text: Callable[[], None], out: TextIO) -> None:
    """In one of OUTPUTS."""
    if form == "json":
        # ASCII, so that no name in it moves a terminal's cursor.
        out.write(json.dumps(reply, indent=2) + "\n")
    elif form == "csv":
        # CSV has no escapes, so a terminal gets texts without anything that would move its cursor.
        rows = (table.columns, *table.rows)
        out.writelines(csv_line(map(harmless, row) if out.isatty() else row) + "\r\n" for row in rows)
    elif form == "markdown":
        # Names are in code spans, which they can't end.
        out.write(f"### {table.title}\n\n| {' | '.join(table.columns)} |\n|{'---|' * len(table.columns)}\n")
        out.writelines(f"| {' | '.join(map(code, row))} |\n" for row in table.rows)
    else:
        write_text()


def cells_of(row: Given) -> tuple[str, ...]:
    """Host, operations, denied, expires_at, rule, acls."""
    acls = acls_text(row.acls, row.acl_count)
    return row.host, " ".join(row.operations), " ".join(row.denied), row.expires_at or "", _BY_ACL, acls


def super_user_cells() -> tuple[str, ...]:
    return WILDCARD, "ALL", "", "", _SUPER_USER, "super.users"


def default_cells() -> tuple[str, ...]:
    return WILDCARD, "ALL", "", "", _BY_DEFAULT, "allow.everyone.if.no.acl.found"


def print_acls(page: Page, acls: Sequence[StandardAcl], count: int) -> None:
    for each in acls:
        page.line(stored_acl_text(each), indent=2)
    more = _more(acls, count, "")
    if more:
        page.line(more, indent=2)


def from_host(host: str) -> str:
    return "from any host" if host == WILDCARD else f"from {host}"


def acls_text(acls: Sequence[StandardAcl], count: int) -> str:
    return "; ".join(map(stored_acl_text, acls)) + _more(acls, count, "; ")


def _more(acls: Sequence[StandardAcl], count: int, before: str) -> str:
    return f"{before}and {count - len(acls)} more" if count > len(acls) else ""


def _words(fields: Mapping[str, object], name: str) -> list[str]:
    return [each for each in parse_list(fields, name) if isinstance(each, str)]


def rows_in(reply: Mapping[str, object]) -> list[Mapping[str, object]]:
    return [parse_object(each) for each in parse_list(reply, "rows")]
