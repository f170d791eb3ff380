"""Whether a store continues what a process has seen of it, or has lost records: a restored backup, a stale standby.

A store that has lost records hands out their offsets again. So a new epoch begins then, and tokens of what was lost are
refused instead of being taken for the new records'.
"""

from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from app.core.epochs import Epochs, Standing, is_later
from app.core.token import Token


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """A record's position in a history. Hashes are chained: the same hash means the same records up to it."""

    epoch: UUID
    offset: int
    hash: bytes

    @property
    def token(self) -> Token:
        return Token(self.epoch, self.offset)


class Continuity(Enum):
    """What a store's head proves about a position that was seen before."""

    PROVED = "the store continues from there, or is in a later epoch"
    UNPROVED = "the record was trimmed, so nothing can be compared"
    LOST = "the store has not come so far, and its epoch is not a later one"
    DIVERGED = "the store has a different record there"


def continuity(known: FeedPosition, epochs: Epochs, last_offset: int, hash_at: bytes | None) -> Continuity:
    """`epochs` are the store's, `hash_at` is the hash of its record at the known offset, None if it has none."""
    standing = epochs.judge(known.token, last_offset)
    if standing is not Standing.PART:
        return Continuity.PROVED if is_later(epochs.last, known.epoch) else Continuity.LOST
    if hash_at is None:
        # A later epoch that began behind the position has been told apart from what was lost already.
        return Continuity.UNPROVED if epochs.last == known.epoch else Continuity.PROVED
    return Continuity.PROVED if hash_at == known.hash else Continuity.DIVERGED


class KnownHistory:
    """The furthest position in a store's history that this process has seen, in its image or by its own update.

    INVARIANT: it is replaced only by a later epoch, or by a position that follows it.
    """

    def __init__(self, position: FeedPosition | None = None) -> None:
        self.position = position
        self.is_lost = False
        """Whether the store has been found not to continue from there; then only a later epoch counts."""

    def saw(self, position: FeedPosition) -> None:
        known = self.position
        if known is None or is_later(position.epoch, known.epoch):
            self.position, self.is_lost = position, False
        elif position.epoch == known.epoch and position.offset > known.offset and not self.is_lost:
            self.position = position

    def proved(self, position: FeedPosition) -> None:
        """Record a head that was proved, under its lock, to continue from the known position."""
        if self.is_lost and self.position is not None and position.epoch == self.position.epoch:
            self.position, self.is_lost = position, False
        else:
            self.saw(position)

    def lose(self) -> None:
        self.is_lost = True
