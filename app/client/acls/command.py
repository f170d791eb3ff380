"""`klamm acls`: kafka-acls' options, rules, texts and exit codes over a running Klamm.

It has a parser of its own: kafka-acls reads its options by other rules than argparse, and refuses in its own words.
"""

import sys
from collections.abc import Sequence
from typing import TextIO

from app import __version__
from app.client.acls.meaning import acls_to_add, acls_to_remove, check_options, patterns_to_list, principals_to_list
from app.client.acls.options import ExecutionError, Given, help_text, parse_options
from app.client.acls.text import writer_named
from app.client.acls.work import Add, Console, List, Remove, Work
from app.client.console import warn_of
from app.client.http import access
from app.client.http.access import AccessFlags
from app.client.http.replies import ServiceError
from app.client.http.service import Service
from app.client.words import utf_8
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError

_NAME = "klamm acls"
_FAILED = 1


def main(words: Sequence[str], out: TextIO, err: TextIO | None = None, answers: TextIO | None = None) -> int:
    """Returns 0 if it is done, or the answer was no; 1 if it was refused or failed, as kafka-acls does."""
    err = sys.stderr if err is None else err
    try:
        given = parse_options([utf_8(word) for word in words])
        if given.has("help") or not words:
            out.write(help_text())
            return 0 if words else _FAILED
        if given.has("version"):
            out.write(f"klamm {__version__}\n")
            return 0
        return _run(given, out, err, sys.stdin if answers is None else answers)
    except UsageError as error:
        question = "" if error.did_you_mean is None else f"Did you mean {error.did_you_mean}? "
        err.write(f"{error}\n{_hint(error.hint)}{question}klamm acls --help lists the options.\n")
        return _FAILED


def _run(given: Given, out: TextIO, err: TextIO, answers: TextIO) -> int:
    """Prints what kafka-acls prints, failures too. With --output only the ACLs, and all else to `err`."""
    for_programs = given.has("output")
    messages = err if for_programs else out
    try:
        write = writer_named(given.value("output") or "") if for_programs else None
        found = _carry_out(given, Console(None if for_programs else out, messages, answers), err)
    except (ServiceError, ExecutionError) as error:
        messages.write(f"Error while executing ACL command: {error}\n")
        if isinstance(error, ExecutionError):
            err.write(_hint(error.hint))
        return _FAILED
    if write is not None:
        write(sorted(found, key=sort_key), out)
    return 0


def _carry_out(given: Given, console: Console, err: TextIO) -> list[AclBinding]:
    work = _work(given)
    err.writelines(
        f"{_NAME}: `{one_line(stray)}` is no option and is passed over, as by kafka-acls\n" for stray in given.strays
    )
    if isinstance(work, Add):
        acls = [pattern.with_entry(entry) for pattern, entries in work.meant.items() for entry in sorted(entries)]
        warn_of(acls, _NAME, err, with_acl=False)
    flags = AccessFlags(**{field: given.value(option) for field, option, *_ in access.OPTIONS})
    with Service(access.make_access(flags)) as service:
        return work.carry_out(service, console)


def _work(given: Given) -> Work:
    """Refuses everything that can be refused before the service is called."""
    match check_options(given):
        case "list":
            return List(patterns_to_list(given), principals_to_list(given))
        case "add":
            return Add(acls_to_add(given))
        case _:
            return Remove(acls_to_remove(given), force=given.has("force"))


def _hint(text: str | None) -> str:
    """Kafka's texts stay as they are; what they leave out is on a line beside them."""
    return "" if text is None else f"{_NAME}: {text}\n"
