"""What was acknowledged, and so what an answer may be: each name is one ACL, created once and deleted once at most.

Every change of a name has two times: before the first it can't be in any answer, from the second on it is in all that
are current. An older copy of the store, put back, is one more change of the names that it brings back or takes away.
"""

import math
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

_LIVE = 120
_RECENT = 40


@dataclass
class _Change:
    since: float
    by: float
    present: bool


@dataclass
class Operation:
    """An acknowledged change. `is_lost`: the history that it belongs to was given up."""

    name: str
    present: bool
    token: str
    number: int
    sent_at: float
    acknowledged_at: float
    is_lost: bool = False


@dataclass
class _Name:
    changes: list[_Change] = field(default_factory=list)
    is_doubtful: bool = False
    """Nobody knows whether a change of it was made."""


@dataclass(frozen=True)
class Copy:
    """The store as it was, with what it held."""

    operations: int
    present: frozenset[str]


class Ledger:
    """From any thread; who copies the store or puts it back lets no change be made meanwhile."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._draw = random.Random(seed)
        self._names: dict[str, _Name] = {}
        self._operations: list[Operation] = []
        self._live: set[str] = set()
        self._held: set[str] = set()
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._count = 0

    # who changes

    def creating(self, prefix: str = "t") -> str:
        """A new name, whose creation is about to be asked for."""
        with self._lock:
            self._count += 1
            name = f"{prefix}-{self._count}"
            self._names[name] = _Name([_Change(time.monotonic(), math.inf, present=True)])
            if prefix != "t":
                self._held.add(name)
            return name

    def name_to_delete(self) -> str | None:
        """None if there are few."""
        with self._lock:
            able = sorted(self._live - self._held)
            if len(able) < _LIVE and (len(able) < 2 or self._draw.random() < 0.6):
                return None
            return self._draw.choice(able[-20:] if self._draw.random() < 0.5 else able)

    def deleting(self, name: str) -> None:
        """Its deletion is about to be asked for."""
        with self._lock:
            self._live.discard(name)
            self._names[name].changes.append(_Change(time.monotonic(), math.inf, present=False))

    def acknowledged(self, name: str, token: str, *, present: bool) -> Operation:
        now = time.monotonic()
        with self._lock:
            change = self._names[name].changes[-1]
            change.by = now
            operation = Operation(name, present, token, len(self._operations), change.since, now)
            self._operations.append(operation)
            self._recent.append(name)
            if present:
                self._live.add(name)
            return operation

    def doubtful(self, name: str) -> None:
        """The outcome of its change is not known; nothing is said of it any more."""
        with self._lock:
            self._names[name].is_doubtful = True
            self._live.discard(name)

    def let_go(self, name: str) -> None:
        """From now on it may be deleted."""
        with self._lock:
            self._held.discard(name)

    # who puts the store back

    def copy(self) -> Copy:
        with self._lock:
            return Copy(len(self._operations), frozenset(filter(self._is_present, self._names)))

    def give_up(self, copy: Copy) -> int:
        """All operations since the copy will be lost; how many."""
        with self._lock:
            lost = [each for each in self._operations[copy.operations :] if not each.is_lost]
            for each in lost:
                each.is_lost = True
            return len(lost)

    def put_back(self, copy: Copy, since: float) -> list[_Change]:
        """The names are as in the copy, from some time on that is not over yet; see `is_back`."""
        with self._lock:
            changes = []
            for name, each in self._names.items():
                present = name in copy.present
                if not each.is_doubtful and self._is_present(name) != present:
                    changes.append(_Change(since, math.inf, present))
                    each.changes.append(changes[-1])
                    (self._live.add if present else self._live.discard)(name)
            return changes

    def is_back(self, changes: Sequence[_Change], by: float) -> None:
        """From this time on what is current is as in the copy."""
        with self._lock:
            for each in changes:
                each.by = by

    # who asks

    def names_to_ask(self, count: int) -> list[str]:
        """Mostly such as were changed lately."""
        with self._lock:
            names = list(self._recent)[-count // 2 :]
            if self._operations:
                names += [self._draw.choice(self._operations).name for _ in range(count - len(names))]
            return list(dict.fromkeys(names))

    def operation_to_ask(self) -> Operation | None:
        """Mostly one of the last, and mostly a deletion."""
        with self._lock:
            if not self._operations:
                return None
            some = self._operations[-30:] if self._draw.random() < 0.6 else self._operations
            drawn = [self._draw.choice(some) for _ in range(3)]
            return next((each for each in drawn if not each.present), drawn[0])

    def all_names(self) -> dict[str, bool]:
        """Every name of which something can be said, and whether it is there."""
        with self._lock:
            return {name: self._is_present(name) for name, each in self._names.items() if not each.is_doubtful}

    def possible(self, name: str, since: float, by: float) -> set[bool]:
        """What an answer may be that stands on a state which was current at some time in between."""
        with self._lock:
            known = self._names[name]
            if known.is_doubtful:
                return {True, False}
            answers = {False}
            for change in known.changes:
                if change.since > by:
                    break
                if change.by < since:
                    answers = {change.present}
                else:
                    answers.add(change.present)
            return answers

    def deleted_at(self, name: str) -> float | None:
        """When its deletion was acknowledged, if that was the last that happened to it."""
        with self._lock:
            known = self._names[name]
            last = known.changes[-1]
            return None if known.is_doubtful or last.present or math.isinf(last.by) else last.by

    def may_be_allowed_with(self, operation: Operation) -> set[bool]:
        """What may be answered about the name to whom asks with the operation's token."""
        with self._lock:
            known = self._names[operation.name]
            if not operation.present:
                return {False}
            is_changed = known.is_doubtful or operation.is_lost or len(known.changes) > 1
            return {True, False} if is_changed else {True}

    def _is_present(self, name: str) -> bool:
        known = self._names[name]
        return not known.is_doubtful and known.changes[-1].present
