"""What `klamm who` and `klamm what` print: texts for people, and JSON, CSV and Markdown for programs and pages."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from app.client.acl_texts import stored_acl_text
from app.client.console import Page, write_json
from app.client.http.replies import count_of, parse_acls, parse_list, parse_object, parse_text, text_or_none
from app.client.plan.markdown import code
from app.client.words import harmless, host_named
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import WILDCARD
from app.core.readable import readable
from app.formats.csv_cells import csv_line

OUTPUTS = ("text", "json", "csv", "markdown")
EPILOG = "Exit codes: 0 answered; 1 refused or failed; 2 wrong usage; 130 Ctrl-C; 141 the reader closed the pipe."
_NAMES = frozenset({"principal", "host", "resource_name", "actor"})
"""Columns that hold names, exactly as they are stored."""
SUPER_USER_CELLS = (WILDCARD, "ALL", "", "", "SuperUser", "super.users")
DEFAULT_CELLS = (WILDCARD, "ALL", "", "", "DefaultAllow", "allow.everyone.if.no.acl.found")


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
    acls = parse_acls(fields, "acls")
    return Given(
        parse_text(fields, "host"),
        _words(fields, "operations"),
        _words(fields, "denied"),
        text_or_none(fields, "expires_at"),
        acls,
        count_of(fields, "acl_count", acls),
    )


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
    return {} if arguments.host is None else {"host": host_named(arguments.host)}


@dataclass(frozen=True, slots=True)
class Table:
    """The reply as rows. `title` and `note` are Markdown."""

    title: str
    columns: Sequence[str]
    rows: Iterable[Sequence[str]]
    note: str = ""
    """What the rows don't say."""


def write(form: str, reply: Mapping[str, object], table: Table, write_text: Callable[[], None], out: TextIO) -> None:
    """In one of OUTPUTS."""
    if form == "json":
        write_json(reply, out)
    elif form == "csv":
        # CSV has no escapes, so a terminal gets texts without anything that would move its cursor.
        rows = (table.columns, *table.rows)
        out.writelines(csv_line(map(harmless, row) if out.isatty() else row) + "\r\n" for row in rows)
        if table.note:
            # CSV has no place for it.
            sys.stderr.write(f"{table.note}\n")
    elif form == "markdown":
        # Names are in code spans, which they can't end, and in which blanks at their ends could not be seen.
        out.write(f"### {table.title}\n\n| {' | '.join(table.columns)} |\n|{'---|' * len(table.columns)}\n")
        names = [each in _NAMES for each in table.columns]
        cells = (
            [readable(cell) if is_name and cell else cell for cell, is_name in zip(row, names, strict=True)]
            for row in table.rows
        )
        out.writelines(f"| {' | '.join(map(code, row))} |\n" for row in cells)
        if table.note:
            out.write(f"\n{table.note}\n")
    else:
        write_text()


def cells_of(row: Given) -> tuple[str, ...]:
    """Host, operations, denied, expires_at, rule, acls."""
    acls = acls_text(row.acls, row.acl_count)
    return row.host, " ".join(row.operations), " ".join(row.denied), row.expires_at or "", "MatchingAcl", acls


def print_acls(page: Page, acls: Sequence[StandardAcl], count: int) -> None:
    for text in filter(None, [*map(stored_acl_text, acls), _more(acls, count, "")]):
        page.line(text, indent=2)


def acls_text(acls: Sequence[StandardAcl], count: int) -> str:
    return "; ".join(map(stored_acl_text, acls)) + _more(acls, count, "; ")


def _more(acls: Sequence[StandardAcl], count: int, before: str) -> str:
    return f"{before}and {count - len(acls)} more" if count > len(acls) else ""


def _words(fields: Mapping[str, object], name: str) -> list[str]:
    return [each for each in parse_list(fields, name) if isinstance(each, str)]


def rows_in(reply: Mapping[str, object]) -> list[Mapping[str, object]]:
    return [parse_object(each) for each in parse_list(reply, "rows")]
