"""One mutation of a file of ACLs, and what may come of it: a DENY is never lost in silence.

The judge knows which ACLs were written, and where each name stands; it shares nothing with the readers.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.kafka.bindings import NewAcl
from app.formats.acl_entries import Entry
from app.formats.reading import FileSet
from tests.acl_files.file import LETTERS, NAMES, AclFile, Span
from tests.acl_files.trees import Map, Tree, at_place, maps_in, rebuilt

SIGNS = ",\"'{}[]:-()`=\t \\."
_OWN_NAMES = ("labels", "annotations")
"""Mappings of the user's own names: what is moved there has become such a name."""


@dataclass(frozen=True)
class Mutation:
    """The text between `start` and `end` has become `new`; `text` is the whole file then."""

    text: str
    kind: str
    start: int = -1
    end: int = -1
    new: str = ""

    def within(self, file: AclFile) -> list[Span]:
        """The names that it is within, or of which it changes a quote, or another sign at either end."""
        most = 0 if "letter" in self.kind else 1
        found = []
        for each in file.spans():
            start, end = each.start, each.end
            # In YAML's flow style, what comes before the quotes makes a text without quotes of all.
            while most and file.trees and start and file.text[start - 1] in "'\" ":
                start -= 1
            if start - most <= self.start and self.end <= end + most:
                found.append(each)
        return found

    def name_then(self, span: Span, text: str) -> str:
        return text[span.start : self.start] + self.new + text[self.end : span.end]


def mutated(file: AclFile, draw: random.Random) -> Mutation:
    """One of a drawn kind; if the file has no place for it, of the next one."""
    kinds = draw.sample(list(_KINDS), len(_KINDS))
    found = (_KINDS[each](file, each, draw) for each in kinds * 3)
    return next(each for each in found if each is not None)


def _replaced(file: AclFile, kind: str, start: int, end: int, new: str) -> Mutation | None:
    text = file.text[:start] + new + file.text[end:]
    return None if text == file.text else Mutation(text, kind, start, end, new)


def _places(pattern: str) -> Callable[[AclFile, random.Random], int | None]:
    compiled = re.compile(pattern)

    def place(file: AclFile, draw: random.Random) -> int | None:
        found = [each.start() for each in compiled.finditer(file.text)]
        return draw.choice(found) if found else None

    return place


_letter = _places("[A-Za-z0-9_]")
_sign = _places(r"[^\w\s]")
_line_end = _places(r"\r?\n(?!\Z)")
_line = _places(r"(?m)^")


def _letter_changed(file: AclFile, kind: str, draw: random.Random) -> Mutation | None:
    at = _letter(file, draw)
    if at is None:
        return None
    old = file.text[at]
    return _replaced(file, kind, at, at + 1, old.swapcase() if draw.random() < 0.3 else draw.choice(LETTERS))


def _letter_dropped(file: AclFile, kind: str, draw: random.Random) -> Mutation | None:
    at = _letter(file, draw)
    return None if at is None else _replaced(file, kind, at, at + 1, "")


def _letter_doubled(file: AclFile, kind: str, draw: random.Random) -> Mutation | None:
    at = _letter(file, draw)
    return None if at is None else _replaced(file, kind, at, at + 1, file.text[at] * 2)


def _sign_changed(file: AclFile, kind: str, draw: random.Random) -> Mutation | None:
    at = _sign(file, draw)
    if at is None:
        return None
    new = draw.choice(("", file.text[at] * 2, draw.choice(SIGNS)))
    return _replaced(file, kind, at, at + 1, new)


def _sign_added(file: AclFile, kind: str, draw: random.Random) -> Mutation | None:
    at = draw.randrange(len(file.text) + 1)
    return _replaced(file, kind, at, at, draw.choice(SIGNS))


def _line_end_lost(file: AclFile, kind: str, draw: random.Random) -> Mutation | None:
    at = _line_end(file, draw)
    return None if at is None else _replaced(file, kind, at, file.text.index("\n", at) + 1, draw.choice(("", "", " ")))


def _line_end_added(file: AclFile, kind: str, draw: random.Random) -> Mutation | None:
    at = draw.randrange(len(file.text) + 1)
    return _replaced(file, kind, at, at, draw.choice(("\n", "\n", "\r\n", "\n\n")))


def _indentation(file: AclFile, kind: str, draw: random.Random) -> Mutation | None:
    at = _line(file, draw)
    if at is None:
        return None
    end = at + len(file.text[at:]) - len(file.text[at:].lstrip(" \t"))
    width = max(0, end - at + draw.choice((-4, -2, -1, 1, 2, 4)))
    return _replaced(file, kind, at, end, draw.choice((" " * width, " " * width, " " * width, "\t")))


def _separator_lost(file: AclFile, kind: str, draw: random.Random) -> Mutation | None:
    found = [each.span() for each in re.finditer(r"(?m)^---\r?\n|\n(?=\r?\n)", file.text)]
    return _replaced(file, kind, *draw.choice(found), "") if found else None


def _key_moved(file: AclFile, kind: str, draw: random.Random) -> Mutation | None:
    """A key with its value stands in another mapping of the document."""
    if file.text_of is None:
        return None
    number = draw.randrange(len(file.trees))
    tree = file.trees[number]
    maps = [each for each in maps_in(tree) if each[1]]
    at, source = draw.choice(maps)
    from_place = draw.randrange(len(source))
    moved = source[from_place]
    targets = [
        there
        for there, _ in maps
        if there != at and not _has_own_names(tree, there) and there[: len(at) + 1] != (*at, from_place)
    ]
    if not targets:
        return None
    there = draw.choice(targets)
    to_place = draw.randrange(5)
    changed = rebuilt(
        tree,
        {
            at: lambda each: Map((*each[:from_place], *each[from_place + 1 :])),
            there: lambda each: Map((*each[:to_place], moved, *each[to_place:])),
        },
    )
    return Mutation(file.text_of([changed if i == number else each for i, each in enumerate(file.trees)]), kind)


def _has_own_names(tree: Tree, at: tuple[int, ...]) -> bool:
    holder = at_place(tree, at[:-1]) if at else None
    return isinstance(holder, Map) and holder[at[-1]][0] in _OWN_NAMES


_KINDS: Mapping[str, Callable[[AclFile, str, random.Random], Mutation | None]] = {
    "a letter changed": _letter_changed,
    "a letter dropped": _letter_dropped,
    "a letter doubled": _letter_doubled,
    "a sign changed": _sign_changed,
    "a sign added": _sign_added,
    "a line end lost": _line_end_lost,
    "a line end added": _line_end_added,
    "an indentation": _indentation,
    "a separator lost": _separator_lost,
    "a key moved": _key_moved,
}


@dataclass(frozen=True)
class Outcome:
    """What a reader made of the file."""

    entries: Sequence[Entry]
    files: FileSet

    @property
    def is_refused(self) -> bool:
        return any(not isinstance(each, NewAcl) for _, each in self.entries)

    @property
    def left_out(self) -> Counter[str]:
        """By name, as the output says it."""
        return self.files.passed_over() + self.files.other_clusters()

    @property
    def acls(self) -> Counter[NewAcl]:
        return Counter(each for _, each in self.entries if isinstance(each, NewAcl))


def violation(
    file: AclFile, mutation: Mutation, before: Outcome, after: Outcome, *, is_plain: bool = True
) -> str | None:
    """What must not have come of it, or None. `is_plain`: all names stand in the text as they are, and once only."""
    meant, found = Counter(file.acls), after.acls
    if after.is_refused or found == meant:
        return None
    lost, new = meant - found, found - meant
    if not new and after.left_out - before.left_out:
        return None
    change = _change(list(lost), list(new))
    if change is None:
        return f"{mutation.kind}: more than one name: lost {list(lost)}, new {list(new)}"
    if not is_plain or _was_empty(change, mutation):
        return None
    faults = [_misplaced(file, mutation, span, change, sum(lost.values())) for span in mutation.within(file)]
    if None in faults:
        return None
    return f"{mutation.kind}: {faults[0] if faults else 'in no name'}: lost {list(lost)}, new {list(new)}"


_Change = tuple[str, object, object]


def _was_empty(change: _Change, mutation: Mutation) -> bool:
    """What came into the file stands where no name stood."""
    _, old, then = change
    return old is None and then == mutation.new


def _misplaced(file: AclFile, mutation: Mutation, span: Span, change: _Change, changed: int) -> str | None:
    """Why the change is not that of the name at this place."""
    field, old, then = change
    if field != span.field:
        return f"in {span}, but changed {field}"
    if not then:
        return f"in {span}, but nothing is left"
    if "letter" in mutation.kind and not str(then).endswith(mutation.name_then(span, file.text)):
        return f"in {span}, but became {then!r}"
    if field == "host" and file.has_bare_hosts and "," in str(then):
        return f"in {span}, and a host with a comma came of it"
    places = sum(each.word == span.word for each in file.spans())
    having = sum(_name(each, field) == old for each in file.acls)
    if changed > having - places + 1 or (places == 1 and changed != having):
        return f"in {span}: {changed} ACLs changed of {having}, in {places} places"
    return None


def _change(lost: Sequence[NewAcl], new: Sequence[NewAcl]) -> _Change | None:
    """The one name that is another in all of them, before and after."""
    if len(lost) != len(new) or not lost:
        return None
    for field in NAMES:
        old, then = {_name(each, field) for each in lost}, {_name(each, field) for each in new}
        if len(old) == len(then) == 1 and old != then:
            (was,), (now,) = old, then
            if Counter(_renamed(each, field, now) for each in lost) == Counter(new):
                return field, was, now
    return None


def _name(acl: NewAcl, field: str) -> object:
    return getattr(acl, field) if field in ("owner", "expires_at") else getattr(acl.binding, field)


def _renamed(acl: NewAcl, field: str, name: object) -> NewAcl:
    changes: dict[str, Any] = {field: name}
    if field in ("owner", "expires_at"):
        return acl._replace(**changes)
    return acl._replace(binding=acl.binding._replace(**changes))
