"""Warnings of ACLs that are probably meant otherwise (`app.core.doubts`), for standard error. They change nothing."""

from collections.abc import Iterable, Iterator
from typing import TextIO

from app.client.words import counted
from app.core.doubts import doubts_of_acl
from app.core.kafka.bindings import AclBinding
from app.formats.acl_entries import shown
from app.formats.arguments import one_line

MAX_LINES = 10
_MAX_KEPT = 1_000


class Warnings:
    """Collects what is to be said of many ACLs, each thing once."""

    def __init__(self) -> None:
        self._first: dict[str, AclBinding] = {}
        self._counts: dict[str, int] = {}
        self._more = 0

    def note(self, acl: AclBinding) -> None:
        """See whether there is anything to say of this one."""
        for doubt in doubts_of_acl(acl):
            if doubt in self._first:
                self._counts[doubt] += 1
            elif len(self._first) < _MAX_KEPT:
                self._first[doubt] = acl
                self._counts[doubt] = 1
            else:
                self._more += 1

    def watch(self, acls: Iterable[AclBinding]) -> Iterator[AclBinding]:
        """The same ACLs, each noted as it passes."""
        for acl in acls:
            self.note(acl)
            yield acl

    def tell(self, command: str, err: TextIO, *, with_acl: bool = True) -> None:
        """Say it, a line for each thing, with the first ACL that it is about unless that goes without saying."""
        for doubt in list(self._first)[:MAX_LINES]:
            others = self._counts[doubt] - 1
            more = f" and {counted(others)} more" if others else ""
            about = f" ({shown(self._first[doubt])}{more})" if with_acl else ""
            err.write(f"{command}: warning: {one_line(doubt)}{about}\n")
        left = len(self._first) - MAX_LINES + self._more
        if left > 0:
            err.write(f"{command}: warning: and {left} more of this kind\n")


def warn_of(acls: Iterable[AclBinding], command: str, err: TextIO, *, with_acl: bool = True) -> None:
    """All of it in one go."""
    warnings = Warnings()
    for acl in acls:
        warnings.note(acl)
    warnings.tell(command, err, with_acl=with_acl)
