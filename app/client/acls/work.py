"""Lists, adds and removes ACLs as kafka-acls does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol, TextIO

from app.client.acls import text as acls_text
from app.client.acls.meaning import Entry, Meant, Pattern
from app.client.acls.options import ExecutionError
from app.client.http.replies import Refusal
from app.client.http.service import Service
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding
from app.core.kafka.filters import AclBindingFilter


class Console:
    """Prints and asks. Without `text` it only asks: programs read the output."""

    def __init__(self, text: TextIO | None, questions: TextIO, answers: TextIO) -> None:
        self._text = text
        self._questions = questions
        self._answers = answers
        self.show: acls_text.Show = acls_text.harmless if questions.isatty() else acls_text.on_one_line

    def say(self, text: str) -> None:
        if self._text is not None:
            self._text.write(text)

    def confirmed(self, question: str) -> bool:
        """Raises ExecutionError if there is nobody to answer."""
        self._questions.write(question)
        self._questions.flush()
        answer = self._answers.readline()
        if not answer:
            raise ExecutionError("nobody has answered on standard input; --force removes without asking")
        return answer.rstrip("\r\n").lower() == "y"


class Work(Protocol):
    def carry_out(self, service: Service, console: Console) -> Iterable[AclBinding]:
        """Returns the ACLs that were listed, added or removed. Raises ServiceError or ExecutionError."""


@dataclass(frozen=True, slots=True)
class List:
    """No patterns, or no principals, mean all."""

    patterns: Sequence[Pattern]
    principals: Sequence[str]

    def carry_out(self, service: Service, console: Console) -> Iterable[AclBinding]:
        """Reads everything before it prints anything, as kafka-acls does."""
        listings = [(principal, self._listed(service, principal)) for principal in self.principals or (None,)]
        for principal, listed in listings:
            if principal is not None:
                console.say(acls_text.acls_for_principal(principal, console.show))
            for pattern, bindings in groupby(listed, _pattern):
                console.say(acls_text.current_acls(pattern, map(_entry, bindings), console.show))
        return [binding for _, listed in listings for binding in listed]

    def _listed(self, service: Service, principal: str | None) -> list[AclBinding]:
        filters = [pattern.filter(principal=principal) for pattern in self.patterns]
        found = {
            acl.binding
            for each in filters or [AclBindingFilter(principal=principal)]
            for acl in service.acls(each).acls
        }
        return sorted(found, key=sort_key)


@dataclass(frozen=True, slots=True)
class Add:
    meant: Meant

    def carry_out(self, service: Service, console: Console) -> Iterable[AclBinding]:
        added: list[AclBinding] = []
        for pattern, entries in self.meant.items():
            existing = {_entry(acl.binding) for acl in service.acls(pattern.filter()).acls}
            for entry in sorted(entries & existing):
                console.say(acls_text.already_exists(pattern, entry, console.show))
            wanted = sorted(entries - existing)
            if wanted:
                console.say(acls_text.adding(pattern, wanted, console.show))
                added += _create(service, [pattern.with_entry(entry) for entry in wanted])
        return added


@dataclass(frozen=True, slots=True)
class Remove:
    """No entries means all that are there."""

    meant: Meant
    force: bool

    def carry_out(self, service: Service, console: Console) -> Iterable[AclBinding]:
        removed: dict[AclBinding, None] = {}
        for pattern, entries in self.meant.items():
            if self.force or console.confirmed(_question(pattern, entries, console.show)):
                filters = [pattern.filter(entry) for entry in sorted(entries)] or [pattern.filter()]
                removed |= dict.fromkeys(_delete(service, filters))
        return removed


def _question(pattern: Pattern, entries: Iterable[Entry], show: acls_text.Show) -> str:
    return acls_text.removing(pattern, entries, show) if entries else acls_text.removing_all(pattern, show)


def _create(service: Service, bindings: Sequence[AclBinding]) -> list[AclBinding]:
    """Returns those that were not there before."""
    results, _ = service.create_acls(bindings)
    _raise_refusal(result.refusal for result in results)
    return [binding for binding, result in zip(bindings, results, strict=True) if result.created]


def _delete(service: Service, filters: Sequence[AclBindingFilter]) -> list[AclBinding]:
    results, _ = service.delete_acls(filters)
    _raise_refusal(result.refusal for result in results)
    return [acl.binding for result in results for acl in result.matches]


def _raise_refusal(refusals: Iterable[Refusal | None]) -> None:
    """The other entries of the call are carried out nevertheless, as by Kafka."""
    for refusal in refusals:
        if refusal is not None:
            raise ExecutionError(str(refusal))


def _pattern(binding: AclBinding) -> Pattern:
    return Pattern(binding.resource_type, binding.resource_name, binding.pattern_type)


def _entry(binding: AclBinding) -> Entry:
    return Entry(binding.principal, binding.host, binding.operation, binding.permission_type)
