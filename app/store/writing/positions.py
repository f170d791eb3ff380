"""What a follower's position is to the store's history, and the epoch that begins where it is ahead of it.

Whoever shows a position may have made it up. So at most one epoch in ten minutes begins for that reason in the whole
store; besides, each process may begin one after its start, or on another start of the database server.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from app.core.continuity import KnownHistory
from app.core.epochs import Epochs, Standing, is_later
from app.core.kafka.errors import StoreUnavailableException
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, KeptConnection, StoreTimeouts
from app.store.epochs import read_epochs
from app.store.faults import NotMigratedError
from app.store.writing.head import UNKNOWN_SERVER, EpochReason, LockedHead, ServerStart, lock_head, move_head

EVERY = timedelta(minutes=10)
_MINUTE_MS = 60_000

_HEAD = (
    """SELECT epoch, last_offset, clock_timestamp() AS store_time, pg_is_in_recovery() AS in_recovery FROM acl_head"""
)

# One that began in the future, by a clock that was wrong then, doesn't count.
_LAST_SHOWN = "SELECT max(began_at) FROM acl_epoch WHERE why = $1 AND began_at <= $2"
_REFUSE = "UPDATE acl_head SET refused_epoch = $1"

_STANDBY = "this service is on a standby, which can't tell whether the position is a part of the history"
_NOT_YET = (
    "the position is ahead of the store, and an epoch began for such a position less than ten minutes ago; retry later"
)


@dataclass(frozen=True, slots=True)
class _Head:
    epochs: Epochs
    last_offset: int
    store_time: datetime
    in_recovery: bool


class Positions:
    """One read of the head serves all who ask before it begins."""

    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts) -> None:
        self._kept = KeptConnection(url, timeouts, "positions")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[_Head] | None = None
        self._begun_on: ServerStart | None = None
        """On which start of the server this process has begun the epoch that it may begin besides."""
        self._not_before: datetime | None = None
        self._noted: UUID | None = None

    async def standing_of(self, position: Token) -> Standing:
        """PART, LOST or INVALID. Raises StoreUnavailableException."""
        head = await self._read()
        standing = head.epochs.judge(position, head.last_offset, head.store_time)
        if standing is Standing.PART:
            return standing
        if head.in_recovery:
            # INVARIANT: only a primary proves that something is lost.
            raise StoreUnavailableException(_STANDBY)
        if standing is not Standing.AHEAD:
            return standing
        if self._is_refused(position, head.store_time):
            raise StoreUnavailableException(_NOT_YET)
        return await self._begin(position)

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
        await self._kept.close()

    async def _read(self) -> _Head:
        """The head as of a read that begins after this call."""
        if self._next is None:
            self._next = asyncio.create_task(self._read_in_turn(), name="klamm-positions")
            self._next.add_done_callback(_retrieve)
        # One who leaves doesn't take the answer from the others.
        return await asyncio.shield(self._next)

    async def _read_in_turn(self) -> _Head:
        async with self._turn:
            self._next = None
            async with (
                self._kept.lease() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                row = await connection.fetchrow(_HEAD)
                if row is None:
                    raise NotMigratedError
                epochs = await read_epochs(connection)
        return _Head(epochs, row["last_offset"], row["store_time"], row["in_recovery"])

    async def _begin(self, position: Token) -> Standing:
        """Judges again under the lock of the head, and begins an epoch if one may begin."""
        try:
            async with self._kept.lease() as connection, connection.transaction(isolation="read_committed"):
                head = await lock_head(connection, KnownHistory(), UNKNOWN_SERVER)
                epochs = await read_epochs(connection)
                if head.begins is not None:
                    await move_head(connection, head)
                    epochs = head.within(epochs)
                standing = epochs.judge(position, head.last_offset, head.recorded_at)
                if standing is not Standing.AHEAD:
                    return standing
                is_begun = await self._begin_if_due(connection, head, position)
        except (asyncpg.ReadOnlySQLTransactionError, asyncpg.InsufficientPrivilegeError):
            raise StoreUnavailableException(_STANDBY) from None
        if not is_begun:
            raise StoreUnavailableException(_NOT_YET)
        return Standing.LOST

    async def _begin_if_due(self, connection: Connection, head: LockedHead, position: Token) -> bool:
        last = await connection.fetchval(_LAST_SHOWN, EpochReason.SHOWN.value, head.recorded_at)
        is_due = last is None or head.recorded_at - last >= EVERY
        if is_due or self._begun_on != head.start:
            later_than = [position.epoch, *([] if head.refused_epoch is None else [head.refused_epoch])]
            await move_head(connection, head.beginning(EpochReason.SHOWN, later_than))
            if not is_due:
                self._begun_on = head.start
            return True
        self._not_before, self._noted = last + EVERY, _to_the_minute(position.epoch)
        if head.refused_epoch is None or is_later(self._noted, head.refused_epoch):
            await connection.execute(_REFUSE, self._noted)
        return False

    def _is_refused(self, position: Token, store_time: datetime) -> bool:
        """Whether the answer is known without the lock, which writers need: a follower may ask in a loop."""
        if self._not_before is None or self._noted is None or store_time >= self._not_before:
            return False
        return not is_later(_to_the_minute(position.epoch), self._noted)


def _retrieve(read: asyncio.Task[_Head]) -> None:
    """All who asked may have left; asyncio logs an error if nobody retrieves an exception."""
    if not read.cancelled():
        read.exception()


def _to_the_minute(epoch: UUID) -> UUID:
    """A later one, the same for all of a minute: so the head is not written for each one that is shown."""
    if not is_later(epoch, UUID(int=0)):
        return epoch
    minute_ms = ((epoch.int >> 80) // _MINUTE_MS + 1) * _MINUTE_MS
    return UUID(int=minute_ms << 80 | 7 << 76 | 2 << 62)
