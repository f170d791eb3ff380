"""`klamm acls`: kafka-acls' options, rules, texts and exit codes over a running Klamm.

It has its own parser: kafka-acls reads options by other rules than argparse, and refuses in its own words.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Literal, NamedTuple, TextIO
from uuid import UUID

from app import __version__
from app.client.acls import text as acls_text
from app.client.acls.meaning import (
    Entry,
    Meant,
    Pattern,
    acls_to_add,
    acls_to_remove,
    check_options,
    patterns_to_list,
    principals_to_list,
)
from app.client.acls.options import ExecutionError, Given, help_text, parse_options
from app.client.acls.text import writer_named
from app.client.console import warn_of
from app.client.ends import end_of
from app.client.http import access
from app.client.http.access import AccessFlags
from app.client.http.replies import CreateResult, DeleteResult, ServiceError
from app.client.http.service import Service
from app.client.moments import moment_given
from app.client.words import comment_of, harmless, utf_8
from app.core.index.table import sort_key
from app.core.kafka.bindings import KEEP, NO_TERMS, Keep, NewAcl, StandardAcl
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.validation import refusal_of_owner
from app.formats.acl_entries import FormatLimitError
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError


class Console:
    """Prints and asks. Without `text` it only asks: programs read the output."""

    def __init__(self, text: TextIO | None, questions: TextIO, answers: TextIO) -> None:
        self._text = text
        self._questions = questions
        self._answers = answers
        self.show: acls_text.Show = harmless if questions.isatty() else acls_text.on_one_line

    def say(self, text: str) -> None:
        if self._text is not None:
            self._text.write(text)

    def confirmed(self, question: str) -> bool:
        """Raises ExecutionError if there is nobody to answer."""
        self._questions.write(question)
        self._questions.flush()
        answer = self._answers.readline()
        if not answer:
            raise ExecutionError("no answer on standard input; use --force to remove without asking")
        return answer.rstrip("\r\n").lower() == "y"


Work = Callable[[Service, Console], list[NewAcl]]
"""Returns the ACLs that were listed, added or removed, with all their terms. Raises ServiceError or ExecutionError."""


def _list(
    service: Service, console: Console, *, patterns: Sequence[Pattern], principals: Sequence[str], at: str | None
) -> list[NewAcl]:
    """No patterns, or no principals, mean all."""

    def listed(principal: str | None) -> list[NewAcl]:
        filters = [AclBindingFilter(*pattern, principal) for pattern in patterns]
        found = {
            acl.binding: _shown(acl)
            for each in filters or [AclBindingFilter(principal=principal)]
            for acl in service.acls(each, at=at).acls
        }
        return _sorted(found.values())

    # As kafka-acls, it reads everything before it prints anything.
    listings = [(principal, listed(principal)) for principal in principals or (None,)]
    for principal, found in listings:
        if principal is not None:
            console.say(acls_text.acls_for_principal(principal, console.show))
        for pattern, acls in groupby(found, lambda acl: Pattern.of(acl.binding)):
            console.say(acls_text.current_acls(pattern, acls, console.show))
    return [acl for _, found in listings for acl in found]


class _Terms(NamedTuple):
    """The end and the owner given for the ACLs to add."""

    expires_at: datetime | Literal[Keep.KEEP] | None
    owner: str | Literal[Keep.KEEP] | None


def _add(service: Service, console: Console, *, meant: Meant, comment: str | None, terms: _Terms) -> list[NewAcl]:
    """Existing ACLs are left as they are, or get the end and the owner that are given."""
    added: list[NewAcl] = []
    for pattern, entries in meant.items():
        there = {Entry.of(acl.binding): acl for acl in service.acls(AclBindingFilter(*pattern)).acls}
        existing = {
            entry for entry, acl in there.items() if NewAcl(acl.binding, *terms).terms_over(acl.terms) == acl.terms
        }
        for entry in sorted(entries & existing):
            console.say(acls_text.already_exists(pattern, entry, console.show))
        wanted = sorted(entries - existing)
        if wanted:
            console.say(acls_text.adding(pattern, wanted, console.show))
            acls = [NewAcl(pattern.with_entry(entry), *terms) for entry in wanted]
            results, _ = service.create_acls(acls, comment=comment)
            _raise_refusal(results)
            for entry, acl, result in zip(wanted, acls, results, strict=True):
                before = there[entry].terms if entry in there else NO_TERMS
                if result.created or acl.says_terms:
                    added.append(NewAcl(acl.binding, *acl.terms_over(before)))
    return added


def _remove(service: Service, console: Console, *, meant: Meant, force: bool, comment: str | None) -> list[NewAcl]:
    removed: dict[UUID, NewAcl] = {}
    for pattern, entries in meant.items():
        if force or console.confirmed(acls_text.removing(pattern, entries, console.show)):
            filters = [AclBindingFilter(*(*pattern, *entry)) for entry in sorted(entries)]
            results, _ = service.delete_acls(filters or [AclBindingFilter(*pattern)], comment=comment)
            _raise_refusal(results)
            removed |= {acl.id: _shown(acl) for result in results for acl in result.matches}
    return list(removed.values())


def _raise_refusal(results: Iterable[CreateResult | DeleteResult]) -> None:
    """The other entries of the call are still carried out, as by Kafka."""
    for result in results:
        if result.refusal is not None:
            raise ExecutionError(str(result.refusal))


def _shown(acl: StandardAcl) -> NewAcl:
    return NewAcl(acl.binding, *acl.terms)


def _sorted(acls: Iterable[NewAcl]) -> list[NewAcl]:
    return sorted(acls, key=lambda acl: sort_key(acl.binding))


_NAME = "klamm acls"
_FAILED = 1


def main(words: Sequence[str], out: TextIO, err: TextIO | None = None, answers: TextIO | None = None) -> int:
    """Returns 0 if it is done or the answer was no, 1 if it was refused or failed, as kafka-acls does."""
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
        write = writer_named(given.value("output") or "", lists=given.has("list")) if for_programs else None
        found = _carry_out(given, Console(None if for_programs else out, messages, answers), err)
    except (ServiceError, ExecutionError) as error:
        messages.write(f"Error while executing ACL command: {error}\n")
        if isinstance(error, ExecutionError):
            err.write(_hint(error.hint))
        return _FAILED
    try:
        if write is not None:
            write(_sorted(found), out)
    except FormatLimitError as limit:
        err.write(f"{_NAME}: --output text: {limit}; choose json, yaml or csv\n")
        return _FAILED
    return 0


def _carry_out(given: Given, console: Console, err: TextIO) -> list[NewAcl]:
    work, to_add = _work(given)
    err.writelines(
        f"{_NAME}: `{one_line(stray)}` is not an option and is ignored, as by kafka-acls\n" for stray in given.strays
    )
    acls = [NewAcl(pattern.with_entry(entry)) for pattern, entries in to_add.items() for entry in sorted(entries)]
    warn_of(acls, _NAME, err, with_acl=False)
    flags = AccessFlags(**{field: given.value(option) for field, option, *_ in access.OPTIONS})
    with Service(access.make_access(flags)) as service:
        return work(service, console)


def _work(given: Given) -> tuple[Work, Meant]:
    """What to do, and the ACLs that it would add. Refuses what can be refused before the service is called."""
    action, text = check_options(given), given.value("comment")
    comment = None if text is None else comment_of(text)
    match action:
        case "list":
            moment = given.value("at")
            at = None if moment is None else moment_given(moment, "at")
            return partial(_list, patterns=patterns_to_list(given), principals=principals_to_list(given), at=at), {}
        case "add":
            meant, ends, owner = acls_to_add(given), given.value("expires"), given.value("owner")
            expires_at = KEEP if ends is None else end_of(utf_8(ends), "expires")
            terms = _Terms(expires_at, KEEP if owner is None else _owner_of(owner))
            return partial(_add, meant=meant, comment=comment, terms=terms), meant
        case _:
            return partial(_remove, meant=acls_to_remove(given), force=given.has("force"), comment=comment), {}


def _owner_of(text: str) -> str | None:
    """Empty for nobody. Raises UsageError."""
    refusal = refusal_of_owner(text) if text else None
    if refusal is not None:
        raise UsageError(f"--{refusal.replace('owner ', 'owner: it ', 1)}")
    return text or None


def _hint(text: str | None) -> str:
    """Kafka's texts stay as they are; a further line says what they leave out."""
    return "" if text is None else f"{_NAME}: {text}\n"
