"""Epochs of a store's history, and what a position is to it, as with Kafka's leader epochs (KIP-101, KIP-279, KIP-320).

A store that has lost records hands out their offsets again, in a later epoch. A position of an older epoch is a part of
the history up to where the next epoch began; beyond that it is lost.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from uuid import UUID

from app.core.token import Token

MAX_EPOCHS = 1_000
"""Images, snapshots, state files and judgements use the same length."""

_AHEAD = timedelta(days=1)
"""An unknown epoch that lies further ahead of the store's clock than this was begun by no store."""
_LAST_MS = (1 << 48) - 1
_RISING = 7
"""The version of UUIDs that begin with their time in milliseconds (RFC 9562)."""
_BEHIND_THE_VERSION = (1 << 76) - 1


@dataclass(frozen=True, slots=True)
class Epoch:
    """`first_offset` is the last offset of the epoch before; records with a greater offset were written in this one."""

    id: UUID
    first_offset: int


class Standing(Enum):
    """What a position is to a history."""

    PART = "it is a part of the history"
    LOST = "it is beyond where the next epoch began, or of an epoch that is not part of the history"
    AHEAD = "it is not a part of the history, and the history's last epoch is not later"
    INVALID = "its epoch lies so far in the future that no store has begun it"


class Cause(Enum):
    """Why a follower asks for a snapshot."""

    NOTHING_HELD = "it holds no position"
    LOST = "its position is not a part of the history"
    TRIMMED = "the records after its position are trimmed"
    FAILED_CHECK = "what it was sent failed a check, or can't be read"
    INVALID_POSITION = "its position is of an epoch that no store has begun"


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epochs of one history, oldest first; the last one is in force. At least one, at most MAX_EPOCHS."""

    rows: tuple[Epoch, ...]

    @staticmethod
    def only(epoch: UUID) -> "Epochs":
        """What is known where only the epoch in force is."""
        return Epochs((Epoch(epoch, 0),))

    @staticmethod
    def of(rows: Iterable[Epoch]) -> "Epochs":
        """The newest of them. Raises ValueError unless there are any and their offsets rise."""
        kept = tuple(rows)[-MAX_EPOCHS:]
        offsets = [row.first_offset for row in kept]
        if not kept or offsets != sorted(offsets) or offsets[0] < 0 or len({row.id for row in kept}) < len(kept):
            raise ValueError("the epochs of a history must be different, with offsets that rise")
        return Epochs(kept)

    @staticmethod
    def noted(last: UUID, newest_first: Iterable[Epoch]) -> "Epochs":
        """The epochs of a history up to the last, as far as they are noted.

        INVARIANT: what does not fit is left out, with all that is older: tokens of an epoch that is not noted are
        refused.
        """
        kept: list[Epoch] = []
        for row in newest_first:
            if not kept and row.id != last:
                continue
            if kept and row.first_offset > kept[-1].first_offset:
                break
            kept.append(row)
        return Epochs.of(reversed(kept)) if kept else Epochs.only(last)

    @property
    def last(self) -> UUID:
        return self.rows[-1].id

    def begun(self, epoch: UUID, first_offset: int) -> "Epochs":
        """Raises ValueError as `of` does."""
        return Epochs.of([*self.rows, Epoch(epoch, first_offset)])

    def upto(self, offset: int) -> "Epochs":
        """Those that had begun at this offset; the oldest in any case."""
        count = sum(row.first_offset <= offset for row in self.rows)
        return self if count == len(self.rows) else Epochs(self.rows[: max(1, count)])

    def at(self, offset: int) -> UUID:
        """The epoch in which the record at the offset was written."""
        return next((row.id for row in reversed(self.rows) if row.first_offset < offset), self.rows[0].id)

    def token_of(self, offset: int) -> Token:
        """The token of the record at the offset."""
        return Token(self.at(offset), offset)

    def after(self, epoch: UUID) -> Epoch | None:
        """The epoch that followed this one; None if it is the last or unknown."""
        for number in range(len(self.rows) - 1):
            if self.rows[number].id == epoch:
                return self.rows[number + 1]
        return None

    def judge(self, position: Token, last_offset: int, store_time: datetime | None = None) -> Standing:
        """What the position is to this history, whose last record is at `last_offset`.

        Without a time of the store no position is INVALID.
        """
        if position.epoch == self.last:
            return Standing.PART if position.offset <= last_offset else Standing.AHEAD
        following = self.after(position.epoch)
        if following is not None:
            return Standing.PART if position.offset <= following.first_offset else Standing.LOST
        if store_time is not None and _is_far_ahead(position.epoch, store_time):
            return Standing.INVALID
        return Standing.LOST if is_later(self.last, position.epoch) else Standing.AHEAD

    def has(self, position: Token, offset: int) -> bool:
        """Whether the position is a part of the history up to the offset."""
        return position.offset <= offset and self.judge(position, offset) is Standing.PART


def may_replace(held: Token | None, offered: Token, epochs: Epochs, cause: Cause) -> bool:
    """Whether a follower that holds a position may take a snapshot, whose history has these epochs.

    INVARIANT: an older state never replaces a newer one: a right that was revoked in between would be back.
    """
    if held is None or cause in (Cause.NOTHING_HELD, Cause.INVALID_POSITION) or is_later(offered.epoch, held.epoch):
        return True
    return cause in (Cause.TRIMMED, Cause.FAILED_CHECK) and epochs.has(held, offered.offset)


def is_later(epoch: UUID, than: UUID) -> bool:
    """Whether it is known to have begun after the other one; a store's first epoch is never later."""
    return epoch.version == _RISING and (than.version != _RISING or epoch.int > than.int)


def next_epoch(
    at: datetime, known: Iterable[UUID], noise: UUID, last: UUID | None = None, last_began_at: datetime | None = None
) -> UUID:
    """An epoch that is later than all that are known, whatever the clock says; `noise` is a fresh random UUID.

    A forged position may have put the last epoch ahead of the clock. Half of the time since it began is added to its
    time, so that what begins after a restore is later than what began before the restore and was lost.
    """
    began_ms = [int(at.timestamp() * 1000), *((each.int >> 80) + 1 for each in known if each.version == _RISING)]
    if last is not None and last_began_at is not None and last.version == _RISING:
        began_ms.append((last.int >> 80) + (at - last_began_at) // timedelta(milliseconds=2))
    ms = min(max(began_ms), _LAST_MS)
    # The variant and the random bits are the noise's.
    return UUID(int=ms << 80 | _RISING << 76 | noise.int & _BEHIND_THE_VERSION)


def _is_far_ahead(epoch: UUID, store_time: datetime) -> bool:
    return epoch.version == _RISING and (epoch.int >> 80) > (store_time + _AHEAD).timestamp() * 1000
