"""What the runtime needs of a store. Tests hand in fakes; the command line hands in PostgreSQL.

Faults are StoreUnavailableException (for a write: certainly nothing was committed) and, for writes,
RequestTimedOutException (the outcome is unknown). Any other exception of a write is a fault of what was to be written,
and nothing of it was committed.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from app.core.continuity import FeedPosition, KnownHistory
from app.core.epochs import Epochs, Standing
from app.core.image import AuthorizerImage
from app.core.index.table import SortKey
from app.core.kafka.bindings import AclSlice
from app.core.mutations import BatchOutcome, BulkAcl, GroupOutcome, Mutation
from app.core.past import ChangesPage, ChangesQuestion, Moment, PastScope, PastState
from app.core.records import FeedHead, FeedPoll
from app.core.token import Token


class Images(Protocol):
    """Where an answer gets its image: the one in use, or that of a past moment."""

    @property
    def image(self) -> AuthorizerImage: ...


class SnapshotReader(Protocol):
    @property
    def head(self) -> FeedHead: ...

    @property
    def configs(self) -> Mapping[str, str]:
        """Complete once the slices have been read."""

    def slices(self) -> AsyncIterator[AclSlice]: ...


class SnapshotSource(Protocol):
    def snapshot(self) -> AbstractAsyncContextManager[SnapshotReader]: ...


class ChangeFeed(SnapshotSource, Protocol):
    """The ordered record of every change. A row that can't be read, or a hole, is a PoisonedRecordException."""

    @property
    def chain(self) -> Sequence[str]:
        """Ids of the followers from this replica on towards the store; none if it is on the store itself."""

    def rewind(self, applied_offset: int) -> None:
        """Before a snapshot: what was handed over behind this offset is not used; -1: nothing is, or all was lost."""

    def resume(self, position: FeedPosition, epochs: Epochs | None, age_s: float) -> bool:
        """The next polls go on from this position, which did not come with this feed's last snapshot.

        `epochs` are those of the history up to there, None if only its own is known; `age_s` says how long ago it was
        the store's head. Returns whether that is all: whatever a snapshot was needed for before, the polls say so if
        one is needed still.
        """

    async def poll(self, applied_offset: int, limit: int) -> FeedPoll:
        """The head, the hash at the offset, and whole transactions behind it: `limit` records or one transaction."""

    async def history(self, offset: int, limit: int) -> FeedPoll:
        """As `poll`, for readers that are behind this replica's memory; it keeps no `poll` waiting.

        The record at the offset itself may be trimmed already.
        """

    async def begin_epoch_if_lost(self, lost: FeedPosition) -> None:
        """Begins a new epoch unless the store continues this position, or is of a later epoch already.

        Where the store can't be written, nothing happens.
        """

    async def standing_of(self, position: Token, asked_by: Sequence[str] = ()) -> Standing:
        """What a follower's position is to the store's history, by a read of the head that begins after this call.

        PART, LOST or INVALID. One that is ahead of the head makes the store begin a new epoch, and is lost then.
        Raises StoreUnavailableException where nobody can tell, as on a standby. `asked_by` are the ids of the followers
        that ask on behalf of one another.
        """

    async def wait(self, timeout_s: float) -> None:
        """Returns on a hint that there may be news, on loss of the hints' connection, or after the timeout."""

    async def close(self) -> None: ...


class AclStore(Protocol):
    async def write(self, mutations: Iterable[Mutation], known: KnownHistory) -> GroupOutcome:
        """Writes all of them in one transaction, in order; a later one sees the earlier.

        Where the store does not provably continue what is known, the transaction begins a new epoch, also if it
        writes nothing else: an outcome never carries a token that two histories share. Afterwards its head is known.
        (Another service as the store does this by itself, and writes each mutation in a transaction of its own.)

        The mutations are read once, when the transaction has its turn: until then nobody's update is under way, however
        long the store can't be reached, and the update of a caller that has left is not written.

        A mutation over its bound, or whose guard does not hold when its turn comes, is an ApiException among the
        outcomes and does not affect its neighbours. If all of them together would be more than one transaction holds
        (`core.records.MAX_TRANSACTION_BYTES`), only the first ones that fit are written, and only they have outcomes.
        """

    async def close(self) -> None: ...


class BulkStore(Protocol):
    async def add(
        self, acls: Mapping[bytes, BulkAcl], actor: str, known: KnownHistory, comment: str | None = None
    ) -> BatchOutcome:
        """Writes the batch in one transaction. The keys of `acls` are the natural ones.

        Raises PolicyViolationException, with nothing written, for more than one transaction holds.

        ACLs that exist get the terms given here, which must lie ahead, as by createAcls. `known` is as in
        `AclStore.write`. A batch whose outcome is unknown may be given again, with the same ids.
        """

    async def close(self) -> None: ...


class PastStore(Protocol):
    """The records of every change, asked about the past."""

    async def changes(self, question: ChangesQuestion) -> ChangesPage:
        """Raises what `StoreHead.check` raises for a token that is not part of the store's history."""

    async def state(self, at: Moment, scope: PastScope) -> PastState:
        """Raises OffsetOutOfRangeException, which names the oldest state that is known, what `StoreHead.check` raises
        for a token that is not part of the store's history, InvalidRequestException for a time that lies ahead and for
        a scope that holds too much.
        """

    async def stretch(self, at: Moment, after: SortKey | None, rows: int) -> PastState:
        """The first ACLs in the order of lists, from about this place on: all, up to that of the next stretch.

        About `rows` ACLs, or changes of them, are read.
        """

    async def close(self) -> None: ...


AskElsewhere = Callable[[str, bytes], Awaitable[bytes]]
"""Asks another service that has the records: the reply to a request of this path and body there.

Raises ApiException, as that service has refused it.
"""
