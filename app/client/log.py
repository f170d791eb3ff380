"""`klamm log`: who changed what, and when."""

import argparse
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TextIO

from app.client.acl_filters import add_filter_arguments, filter_of
from app.client.console import Page
from app.client.history import NO_CONFIGS, pages, sign_of, what_changed
from app.client.http.access import access_of, add_access_arguments
from app.client.http.replies import parse_list, parse_object, parse_text, strange_reply, text_or_none
from app.client.http.service import Service
from app.client.moments import moment_given
from app.client.reach import output
from app.client.words import utf_8
from app.core.kafka.bindings import rfc3339
from app.core.kafka.filters import AclBindingFilter
from app.core.readable import quoted_text, readable
from app.formats.acl_bodies import filter_body
from app.formats.arguments import whole_number

DESCRIPTION = (
    "Shows what changed, newest first, with time and actor: + an ACL was created, ~ its end or owner was changed, - "
    "it was deleted; = a property was changed. Needs Describe on the cluster, and DescribeConfigs for properties."
)
_EPILOG = f"Example:\n  klamm log --since 7d --topic orders --as User:admin\n\n{output.EPILOG}"
_COLUMNS = ("token", "recorded_at", "change", "actor", "comment", "what", "before")
_DEFAULT_LIMIT = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [OPTIONS]"
    parser.epilog = _EPILOG
    parser.add_argument("--since", metavar="TIME", help="from this time on: 7d (ago), 2026-11-30T18:00:00Z, or a token")
    parser.add_argument("--until", metavar="TIME", help="up to this time, in the same forms")
    parser.add_argument(
        "--actor", metavar="PRINCIPAL", help="changes by this principal; klamm:expiry removes ACLs that have ended"
    )
    parser.add_argument("--comment", metavar="TEXT", help="changes whose comment contains this text, such as a ticket")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=whole_number(1, 1_000_000),
        default=_DEFAULT_LIMIT,
        help="show the newest N changes (%(default)s)",
    )
    parser.add_argument(
        "--output",
        choices=output.OUTPUTS,
        default="text",
        help="text to read, or json, csv or markdown for programs and pages (text)",
    )
    add_filter_arguments(parser)
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    body: dict[str, object] = {
        name: moment_given(given, name)
        for name in ("since", "until")
        if (given := getattr(arguments, name)) is not None
    }
    body |= {name: utf_8(given) for name in ("actor", "comment") if (given := getattr(arguments, name)) is not None}
    wanted = filter_of(arguments)
    if wanted != AclBindingFilter():
        body["filter"] = filter_body(wanted)
    with Service(access_of(arguments)) as service:
        reply = _all(service, body, arguments.limit)
    changes = [parse_object(each) for each in parse_list(reply, "changes")]
    table = output.Table("What changed", _COLUMNS, map(_cells, changes))
    output.write(arguments.output, reply, table, lambda: _print(reply, changes, out), out)
    return 0


def _all(service: Service, body: Mapping[str, object], limit: int) -> Mapping[str, object]:
    """The newest changes, and whether there are more."""
    every = list(pages(service, body, limit))
    changes = [each for page in every for each in parse_list(page, "changes")]
    return {**every[0], "changes": changes, "next_cursor": every[-1].get("next_cursor")}


def _print(reply: Mapping[str, object], changes: list[Mapping[str, object]], out: TextIO) -> None:
    page, heading = Page(out, wrapped=True), ""
    for each in changes:
        token, _, what, before = (_cells(each)[at] for at in (0, 1, 5, 6))
        comment = text_or_none(each, "comment")
        title = f"{rfc3339(_time(each))} {readable(parse_text(each, 'actor'))}"
        title += "" if comment is None else f" {quoted_text(comment)}"
        if title != heading:
            page.line(title)
            heading = title
        page.line(f"{sign_of(each)} {what}{before and f', before: {before}'}", indent=1)
        page.line(token, indent=2)
    notes = list(_notes(reply, changes))
    if notes:
        page.heading("Note")
        page.lines(notes)
    page.line("")
    page.line(f"As of {reply.get('token')}")


def _notes(reply: Mapping[str, object], changes: list[Mapping[str, object]]) -> Iterator[str]:
    if not changes:
        yield "no change matches"
    if reply.get("next_cursor") is not None:
        yield "there are older changes; --limit shows more"
    if reply.get("shows_configs") is False:
        yield NO_CONFIGS
    known = parse_object(reply.get("known_since"))
    if known.get("recorded_at") is not None:
        yield f"older records are not kept: the history begins at {known['recorded_at']}"


def _cells(change: Mapping[str, object]) -> tuple[str, ...]:
    return (
        parse_text(change, "token"),
        parse_text(change, "recorded_at"),
        parse_text(change, "change"),
        parse_text(change, "actor"),
        text_or_none(change, "comment") or "",
        *what_changed(change),
    )


def _time(change: Mapping[str, object]) -> datetime:
    text = parse_text(change, "recorded_at")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise strange_reply(f"`{text[:100]}` is not a time") from None
