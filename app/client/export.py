"""`klamm export`: writes the ACLs of a running service, all as of one offset, in a format of choice."""

import argparse
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from app.client.acl_files import format_given
from app.client.acl_filters import add_filter_arguments, filter_of
from app.client.http.access import access_of, add_access_arguments
from app.client.http.service import Service
from app.client.moments import add_at_argument, at_body
from app.client.watch.snapshot import write_snapshot
from app.client.whole_files import target_of, write_whole
from app.client.words import counted
from app.core.kafka.bindings import NO_TERMS, NewAcl
from app.core.kafka.filters import AclBindingFilter
from app.core.readable import readable_acl
from app.formats.acl_entries import FormatLimitError
from app.formats.arguments import HELP_COLUMNS
from app.formats.command_errors import UsageError
from app.formats.registry import FEED, FORMATS, AclFormat

DESCRIPTION = (
    "Writes the ACLs of a running service, all as of one offset and in a stable order. Needs Describe on the cluster. "
    "Prints the number of ACLs and the token of that state to standard error. If the format can't express one of the "
    "ACLs, nothing is written."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [OPTIONS]"
    parser.epilog = _epilog()
    parser.add_argument("--format", metavar="NAME", default="jsonl", help="one of the formats below (%(default)s)")
    parser.add_argument("--output", metavar="FILE", help="file to write, all or nothing (standard output)")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    add_at_argument(parser)
    add_filter_arguments(parser)
    add_access_arguments(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    chosen = format_given(arguments.format)
    acl_filter = filter_of(arguments)
    force = arguments.force
    target = None if arguments.output is None else target_of("--output", arguments.output, force=force)
    if force and target is None:
        raise UsageError("--force replaces a file; name the file with --output")
    if chosen is FEED:
        if arguments.at is not None:
            raise UsageError("--format feed is the current state with its proof; leave --at out, or choose jsonl")
        return _export_feed(arguments, acl_filter, target, out)
    at = at_body(arguments).get("at")
    with Service(access_of(arguments)) as service:
        listing = service.acls(acl_filter, at=at)
    acls = [NewAcl(each.binding, *each.terms) for each in listing.acls]
    if target is None and out.isatty() and not chosen.has_escapes:
        _check_for_terminal(chosen, acls)
    try:
        if target is None:
            chosen.write(acls, out)
            out.flush()
        else:
            write_whole("--output", target, lambda file: chosen.write(acls, file), force=force)
    except FormatLimitError as limit:
        raise UsageError(
            f"--format {chosen.name}: {limit}; choose another format, or leave this ACL out (--principal, --topic, ...)"
        ) from None
    sys.stderr.write(f"{counted(len(acls))} as of token {listing.token}\n")
    with_terms = sum(acl.terms != NO_TERMS for acl in listing.acls)
    if with_terms and not chosen.says_terms:
        saying = ", ".join(each.name for each in FORMATS if each.says_terms)
        sys.stderr.write(
            f"left out: the ends and owners of {counted(with_terms)}, which --format {chosen.name} can't express "
            f"({saying} can)\n"
        )
    return 0


def _export_feed(arguments: argparse.Namespace, acl_filter: AclBindingFilter, target: Path | None, out: TextIO) -> int:
    if acl_filter != AclBindingFilter():
        raise UsageError("--format feed can only be verified as a whole; leave --principal, --topic, ... out")
    token = ""

    def write(file: TextIO) -> None:
        nonlocal token
        token = write_snapshot(access_of(arguments), file)

    if target is None:
        write(out)
        out.flush()
    else:
        write_whole("--output", target, write, force=arguments.force)
    sys.stderr.write(f"all ACLs and properties as of token {token}; klamm verify checks them\n")
    return 0


def _check_for_terminal(chosen: AclFormat, acls: Iterable[NewAcl]) -> None:
    for acl in acls:
        each, owner = acl.binding, acl.owner if isinstance(acl.owner, str) else ""
        if not (each.resource_name + each.principal + each.host + owner).isprintable():
            raise UsageError(
                f"--format {chosen.name}: {readable_acl(each)} has control characters that a terminal would act on; "
                "write to a file with --output, or choose jsonl, which escapes them"
            )


def _epilog() -> str:
    formats = (*FORMATS, FEED)
    names = 2 + max(len(each.name) for each in formats)
    lines = [
        textwrap.fill(
            f"  {each.name:<{names}}{each.description}",
            HELP_COLUMNS,
            subsequent_indent=" " * (names + 2),
            break_on_hyphens=False,
        )
        for each in formats
    ]
    codes = (
        "Exit codes: 0 written; 1 refused or failed; 2 wrong flags, or an ACL that the format can't express; 130 "
        "Ctrl-C; 141 the reader closed the pipe."
    )
    return "\n".join(["Formats:", *lines, "", codes])
