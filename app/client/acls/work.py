"""Lists, adds and removes ACLs as kafka-acls does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TextIO

from app.client.acls import text as acls_text
from app.client.acls.meaning import Entry, Meant, Pattern
from app.client.acls.options import ExecutionError
from app.client.http.replies import CreateResult, DeleteResult
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


@dataclass(frozen=True, slots=True)
class List:
    """No patterns, or no principals, mean all."""

    patterns: Sequence[Pattern]
    principals: Sequence[str]

    def carry_out(self, service: Service, console: Console) -> list[AclBinding]:
        # As kafka-acls, it reads everything before it prints anything.
        listings = [(principal, self._listed(service, principal)) for principal in self.principals or (None,)]
        for principal, listed in listings:
            if principal is not None:
                console.say(acls_text.acls_for_principal(principal, console.show))
            for words, bindings in groupby(listed, attrgetter("resource_type", "resource_name", "pattern_type")):
                console.say(acls_text.current_acls(Pattern(*words), map(_entry, bindings), console.show))
        return [binding for _, listed in listings for binding in listed]

    def _listed(self, service: Service, principal: str | None) -> list[AclBinding]:
        filters = [AclBindingFilter(*pattern, principal) for pattern in self.patterns]
        found = {
            acl.binding
            for each in filters or [AclBindingFilter(principal=principal)]
            for acl in service.acls(each).acls
        }
        return sorted(found, key=sort_key)


@dataclass(frozen=True, slots=True)
class Add:
    meant: Meant

    def carry_out(self, service: Service, console: Console) -> list[AclBinding]:
        added: list[AclBinding] = []
        for pattern, entries in self.meant.items():
            existing = {_entry(acl.binding) for acl in service.acls(AclBindingFilter(*pattern)).acls}
            for entry in sorted(entries & existing):
                console.say(acls_text.already_exists(pattern, entry, console.show))
            wanted = sorted(entries - existing)
            if wanted:
                console.say(acls_text.adding(pattern, wanted, console.show))
                bindings = [pattern.with_entry(entry) for entry in wanted]
                results, _ = service.create_acls(bindings)
                _raise_refusal(results)
                added += [binding for binding, result in zip(bindings, results, strict=True) if result.created]
        return added


@dataclass(frozen=True, slots=True)
class Remove:
    meant: Meant
    force: bool

    def carry_out(self, service: Service, console: Console) -> list[AclBinding]:
        removed: dict[AclBinding, None] = {}
        for pattern, entries in self.meant.items():
            if self.force or console.confirmed(acls_text.removing(pattern, entries, console.show)):
                filters = [AclBindingFilter(*(*pattern, *entry)) for entry in sorted(entries)]
                results, _ = service.delete_acls(filters or [AclBindingFilter(*pattern)])
                _raise_refusal(results)
                removed |= dict.fromkeys(acl.binding for result in results for acl in result.matches)
        return list(removed)


Work = List | Add | Remove
"""`carry_out` returns the ACLs that were listed, added or removed. Raises ServiceError or ExecutionError."""


def _raise_refusal(results: Iterable[CreateResult | DeleteResult]) -> None:
    """The other entries of the call are carried out nevertheless, as by Kafka."""
    for result in results:
        if result.refusal is not None:
            raise ExecutionError(str(result.refusal))


def _entry(binding: AclBinding) -> Entry:
    return Entry(binding.principal, binding.host, binding.operation, binding.permission_type)
