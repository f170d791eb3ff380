"""`acl_head` under its lock, and when a new epoch begins.

INVARIANT: a new epoch begins only here, whenever the store may hand out offsets a second time: no token stands for two
states. Each writing process begins one with its first write as well, as it can't know what others have seen.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from app.core.continuity import Continuity, FeedPosition, KnownHistory, continuity
from app.core.digest import DIGEST_BYTES, MODULUS
from app.core.epochs import Epochs, next_epoch
from app.core.records import GENESIS_HASH
from app.store.engine import Connection
from app.store.epochs import read_epochs
from app.store.faults import NotMigratedError
from app.store.rows import ACL_COLUMNS, RECORD_COLUMNS, digest_in, insert_statement, json_rows

Values = tuple[Any, ...]

CHANNEL = "klamm_feed"  # NOTIFY carries `<epoch>:<offset>` here; a hint only

# The clock is read after the lock was granted, so that a writer that had to wait has the time at which its turn came.
# The digest is null if a writer of an older version, which knows nothing of it, has moved the head since.
# The trigger on `acl_head` notes the transaction that writes the row; a row that was put back has another xmin.
_LOCK_HEAD = """WITH head AS MATERIALIZED (
    SELECT epoch, last_offset, hash, system_identifier, timeline, refused_epoch,
        CASE digest_offset WHEN last_offset THEN digest END AS digest,
        coalesce(xmin::text::bigint = written_by, true) AS is_as_written
    FROM acl_head FOR UPDATE
)
SELECT *, (SELECT began_at FROM acl_epoch WHERE acl_epoch.epoch = head.epoch) AS epoch_began_at,
    clock_timestamp() AS recorded_at, pg_postmaster_start_time() AS started_at,
    (SELECT oid FROM pg_database WHERE datname = current_database()) AS database
FROM head"""

# A separate statement: one that waited for the lock has not seen what was committed meanwhile.
_HASH_AT = """SELECT hash FROM acl_record WHERE "offset" = $1"""

_SAY_WHY = "SELECT set_config('klamm.epoch_why', $1, true), set_config('klamm.epoch_diverged', $2, true)"


class EpochReason(Enum):
    """Why an epoch begins, as `acl_epoch` says it."""

    FIRST_WRITE = "the first write of a process"
    OTHER_START = "the first write of a process since the database server was started"
    OTHER_SERVER = "the head was last written on another server or timeline"
    PUT_BACK = "the row of the head was put back"
    LOST = "the head does not continue what a process has seen"
    SHOWN = "a follower has shown a position that is not a part of the history"
    COMMAND = "klamm restore"


def _move_head_statement() -> str:
    # One statement for three tables, as each costs every update a round trip.
    return f"""WITH added AS ({insert_statement("acl", ACL_COLUMNS, 8)}),
appended AS ({insert_statement("acl_record", RECORD_COLUMNS, 9)}),
moved AS (
    UPDATE acl_head SET epoch = $1, last_offset = $2, hash = $3, system_identifier = $4, timeline = $5,
        digest = $6::bytea, digest_offset = CASE WHEN $6::bytea IS NOT NULL THEN $2::bigint END
    RETURNING epoch, last_offset
)
SELECT pg_notify($7, epoch || ':' || last_offset) FROM moved"""  # noqa: S608 - names of columns, declared in rows


_MOVE_HEAD = _move_head_statement()


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Which PostgreSQL this is; a promotion changes the timeline, a restore into another cluster the identifier."""

    system_identifier: int | None = None
    timeline: int | None = None


UNKNOWN_SERVER = ServerIdentity()


@dataclass(frozen=True, slots=True)
class ServerStart:
    """One start of one server, and a database of it: nothing was put back under it but row by row."""

    identity: ServerIdentity
    started_at: datetime
    database: int


@dataclass(frozen=True, slots=True)
class LockedHead:
    """`acl_head` under its lock, and the database's time when the lock was granted.

    INVARIANT: only `lock_head` makes one, which proves that none of its tokens stands for two states.
    """

    epoch: UUID
    epoch_began_at: datetime | None  # None if that was while this waited for the lock
    last_offset: int
    hash: bytes
    identity: ServerIdentity
    start: ServerStart
    recorded_at: datetime
    digest: int | None  # None if it was not kept up to here; it then stays unknown until `klamm migrate`
    refused_epoch: UUID | None  # the latest epoch that was shown while none could begin for that reason
    begins: EpochReason | None = None  # why the epoch is new, and not in the store yet
    is_diverged: bool = False  # whether records of the epoch before are not those that somebody has seen

    @property
    def position(self) -> FeedPosition:
        return FeedPosition(self.epoch, self.last_offset, self.hash)

    def within(self, noted: Epochs) -> Epochs:
        """The epochs of the history, of which these are in the store."""
        if self.begins is None:
            return noted
        # INVARIANT: where records differ, no token of the epoch before stands for two states: none is part any more.
        return noted.begun(self.epoch, noted.rows[-1].first_offset if self.is_diverged else self.last_offset)

    def beginning(self, why: EpochReason, later_than: Iterable[UUID] = ()) -> "LockedHead":
        """The same with a new epoch, which is written with the next `move_head`."""
        known = [self.epoch, *later_than]
        epoch = next_epoch(self.recorded_at, known, uuid4(), self.epoch, self.epoch_began_at)
        return replace(self, epoch=epoch, epoch_began_at=self.recorded_at, begins=why)


async def lock_head(
    connection: Connection,
    known: KnownHistory,
    identity: ServerIdentity,
    begins_on: Collection[Continuity] = (Continuity.LOST, Continuity.DIVERGED, Continuity.UNPROVED),
) -> LockedHead:
    """Locks the head until the transaction ends.

    It gets a new epoch if its row was put back, does not continue what is known, or was last written on another server
    or timeline.
    """
    row = await connection.fetchrow(_LOCK_HEAD)
    if row is None:
        raise NotMigratedError
    written_on = ServerIdentity(row["system_identifier"], row["timeline"])
    head = LockedHead(
        epoch=UUID(bytes=row["epoch"].bytes),
        epoch_began_at=row["epoch_began_at"],
        last_offset=row["last_offset"],
        hash=row["hash"],
        identity=written_on if identity == UNKNOWN_SERVER else identity,
        start=ServerStart(identity, row["started_at"], row["database"]),
        recorded_at=row["recorded_at"],
        digest=digest_in(row),
        refused_epoch=None if row["refused_epoch"] is None else UUID(bytes=row["refused_epoch"].bytes),
    )
    # INVARIANT: read under the lock: all that this process knows was committed before, or is not from this store.
    position = known.position
    found = Continuity.PROVED if position is None else await _continuity(connection, head, position)
    why: EpochReason | None = None
    if found in begins_on:
        why = EpochReason.LOST
        head = replace(head, is_diverged=found is not Continuity.LOST)
    elif not row["is_as_written"]:
        why = EpochReason.PUT_BACK
    elif identity not in (written_on, UNKNOWN_SERVER) and written_on != UNKNOWN_SERVER:
        why = EpochReason.OTHER_SERVER
    return head if why is None else head.beginning(why, () if position is None else [position.epoch])


async def begin_epoch_if_lost(connection: Connection, lost: FeedPosition) -> None:
    # After a promotion the first writer sees by itself that it is on another timeline.
    with suppress(asyncpg.ReadOnlySQLTransactionError, asyncpg.InsufficientPrivilegeError):
        async with connection.transaction(isolation="read_committed"):
            # A record that was trimmed proves nothing.
            begins_on = (Continuity.LOST, Continuity.DIVERGED)
            head = await lock_head(connection, KnownHistory(lost), UNKNOWN_SERVER, begins_on)
            if head.begins is not None:
                await move_head(connection, head)


async def move_head(
    connection: Connection, head: LockedHead, acls: Sequence[Values] = (), records: Sequence[Values] = ()
) -> None:
    """Also inserts what is new in `acl` and `acl_record`."""
    server = head.identity
    digest = None if head.digest is None else (head.digest % MODULUS).to_bytes(DIGEST_BYTES)
    position = (head.epoch, head.last_offset, head.hash)
    rows = json_rows(ACL_COLUMNS, acls), json_rows(RECORD_COLUMNS, records)
    if head.begins is not None:
        await connection.execute(_SAY_WHY, head.begins.value, str(head.is_diverged).lower())
    await connection.execute(_MOVE_HEAD, *position, server.system_identifier, server.timeline, digest, CHANNEL, *rows)


async def _continuity(connection: Connection, head: LockedHead, known: FeedPosition) -> Continuity:
    epochs = Epochs.only(head.epoch) if known.epoch == head.epoch else await read_epochs(connection)
    if known.offset == head.last_offset:
        hash_at = head.hash
    elif known.offset > head.last_offset:
        hash_at = None  # there is nothing to compare
    else:
        hash_at = await connection.fetchval(_HASH_AT, known.offset) if known.offset else GENESIS_HASH
    return continuity(known, epochs, head.last_offset, hash_at)
