"""`klamm watch`: shows every change of ACLs and properties as it is made."""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import TextIO

from app.client.acl_filters import add_filter_arguments, filter_of
from app.client.console import coloured
from app.client.http.access import access_flags, add_access_arguments, make_access
from app.client.http.replies import ServiceError
from app.client.http.service import Service
from app.client.watch.following import WatchRun
from app.client.watch.snapshot import write_event
from app.client.watch.text import Seen, lines_of
from app.core.kafka.errors import InvalidRequestException
from app.core.token import Token
from app.formats.acl_bodies import filter_body
from app.formats.command_errors import UsageError
from app.formats.feed_events import Bookmark, Event, NoEventError

DESCRIPTION = (
    "Shows every change of ACLs and properties of a running service as it is made, with time and actor, until "
    "Ctrl-C: + an ACL was created; ~ the end or owner of an ACL was changed, with the former ones (+ if the ACL was "
    "not shown before, see --snapshot); - an ACL was removed; = a property was changed. Resumes by itself after a "
    "lost connection. Needs the role follow, or Describe and DescribeConfigs on the "
    "cluster."
)
_EPILOG = (
    "Example:\n  klamm watch --topic orders --resource-pattern-type MATCH\n\n"
    "Exit codes: 1 refused, or there is no service; 2 wrong usage; 130 Ctrl-C, and the last line says how to resume; "
    "141 the reader closed the pipe."
)
_ANYBODY = "User:ANONYMOUS"
"""watch asks for no decisions, so it needs no --as."""

Show = Callable[[bytes, Event], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [OPTIONS]"
    parser.epilog = _EPILOG
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--after", metavar="TOKEN", help="begin after this token (default: changes from now on)")
    begin.add_argument("--snapshot", action="store_true", help="begin with all current ACLs and properties")
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="lines for people, or the events (%(default)s)"
    )
    parser.add_argument("--bookmarks", action="store_true", help="show bookmarks as well: how far the feed has come")
    add_filter_arguments(parser)
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Ends by an exception only."""
    if arguments.after is not None:
        try:
            Token.parse(arguments.after, "--after")
        except InvalidRequestException as refusal:
            raise UsageError(refusal.message) from None
    fields = filter_body(filter_of(arguments))
    query = {name: text for name, text in fields.items() if text not in (None, "ANY")}
    flags = access_flags(arguments)
    access = make_access(replace(flags, principal=flags.principal or _ANYBODY))
    show = (_as_json if arguments.output == "json" else _as_text)(out, bookmarks=arguments.bookmarks)
    with Service(access) as service:
        following = WatchRun(
            service, query, _tell, after=arguments.after, snapshot=arguments.snapshot, patience_s=access.timeout_s
        )
        try:
            for line, event in following.events():
                show(line, event)
        except NoEventError as fault:
            raise ServiceError(f"the stream can't be read ({fault}); use the service's own version of klamm") from None
        except KeyboardInterrupt:
            if following.token is not None:
                _tell(f"stopped; resume from here with --after {following.token}")
            raise
    return 0


def _tell(text: str) -> None:
    sys.stderr.write(f"klamm watch: {text}\n")
    sys.stderr.flush()


def _as_json(out: TextIO, *, bookmarks: bool) -> Show:
    def show(line: bytes, event: Event) -> None:
        if bookmarks or not isinstance(event, Bookmark):
            write_event(line, out)
            out.flush()

    return show


def _as_text(out: TextIO, *, bookmarks: bool) -> Show:
    """On a terminal, long lines break at its width and go on indented."""
    console = coloured(out)
    seen: Seen = {}
    width = shutil.get_terminal_size().columns if out.isatty() else None

    def show(_: bytes, event: Event) -> None:
        for text, style in lines_of(event, seen, bookmarks=bookmarks):
            parts = (
                [text]
                if width is None
                else textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False, drop_whitespace=True)
            )
            console.print("\n".join(parts), style=style)
        out.flush()

    return show
