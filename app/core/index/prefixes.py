"""Which prefixes of a name there are: one look-up a length while these are few, a walk along the name beyond that."""

from collections.abc import Callable, MutableMapping

from app.core.index.nested import NestedPrefixes

ROOM = 16
"""So much the lengths may weigh that are looked up one by one, with every name."""

_CHARACTERS = 128
"""So many characters to cut and hash weigh as much as a look-up."""


class PrefixSet:
    """What prefixes there are, by their lengths. Whoever inherits it keeps what belongs to each by its name.

    A length has its place when its first prefix comes, and keeps it until the last one goes: in `lengths` while there
    is room, else in `nested`. So no change ever moves more than one prefix.
    """

    __slots__ = ("length_counts", "lengths", "nested")

    def __init__(self) -> None:
        self.lengths: tuple[int, ...] = ()
        self.length_counts: MutableMapping[int, int] = {}
        self.nested: NestedPrefixes | None = None

    def prefix_came(self, name: str) -> None:
        """A prefix is there that was not."""
        length, counts = len(name), self.length_counts
        if length in counts:
            counts[length] += 1
        elif self._has_place(length):
            counts[length] = 1
            self.lengths = tuple(sorted(counts))
        else:
            if self.nested is None:
                self.nested = self._new_nested()
            self.nested.add(name)

    def prefix_gone(self, name: str) -> None:
        """A prefix is not there any more."""
        length, counts = len(name), self.length_counts
        if length not in counts:
            if self.nested is not None:
                self.nested.remove(name)
                self.nested = self.nested if self.nested.counts else None
        elif counts[length] > 1:
            counts[length] -= 1
        else:
            del counts[length]
            self.lengths = tuple(sorted(counts))

    def prefix_changed(self, name: str) -> None:
        """Something else belongs to a prefix that stays."""
        if self.nested is not None and len(name) not in self.length_counts:
            self.nested.touch(name)

    def covering(self, name: str, is_there: Callable[[str], bool]) -> list[str]:
        """The prefixes of this name, longest first."""
        pieces = (name[:length] for length in reversed(self.lengths) if length <= len(name))
        found = list(filter(is_there, pieces))
        if self.nested is not None:
            found += self.nested.covering(name)
            found.sort(key=len, reverse=True)
        return found

    def _has_place(self, length: int) -> bool:
        if self.nested is not None and length in self.nested.counts:
            return False
        return sum(map(_weight, self.lengths)) + _weight(length) <= ROOM

    def _new_nested(self) -> NestedPrefixes:
        return NestedPrefixes()


def _weight(length: int) -> int:
    return 1 + length // _CHARACTERS
