"""The reading side of the change feed: snapshots, the records after an offset, hints when to poll, and trimming.

Why no change is lost, doubled or reordered: DESIGN, store and change feed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import asyncpg

from app.core.continuity import FeedPosition
from app.core.epochs import Epochs, Standing
from app.core.kafka.errors import StoreUnavailableException
from app.core.records import GENESIS_HASH, FeedPoll, Record
from app.core.token import Token
from app.formats.clock import SYSTEM_CLOCK, Clock
from app.formats.database_url import DatabaseUrl
from app.store.engine import STAYS, Connection, KeptConnection, StoreTimeouts, close_gently, connect, retry_backoff
from app.store.epochs import KnownEpochs
from app.store.faults import NotMigratedError, OutageLog, answer_to, translated_faults
from app.store.reading.snapshot import PostgresSnapshot, open_snapshot
from app.store.reading.standby import StandbyAge
from app.store.rows import OrderCheck, head_of, in_slices, record_of
from app.store.writing.head import CHANNEL, begin_epoch_if_lost
from app.store.writing.positions import Positions

_log = logging.getLogger(__name__)


class FeedListener:
    """Wakes its waiter on NOTIFY, on loss of the connection, and when LISTEN takes effect (again).

    The last one closes the gap: the poll that follows finds what was committed before.
    """

    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts) -> None:
        self._url = url
        self._timeouts = timeouts
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._backoff = retry_backoff()
        self._is_lost = False
        self._closed = False

    async def wait(self, timeout_s: float) -> None:
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._keep_listening(), name="klamm feed listener")
        await _is_set_within(self._wake, timeout_s)
        self._wake.clear()

    async def close(self) -> None:
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._wake.set()

    async def _keep_listening(self) -> None:
        while True:
            try:
                await self._listen()
            except StoreUnavailableException as fault:
                if not self._is_lost:
                    _log.warning("feed_listener_lost", extra={"where": self._url.shown, "why": fault.message})
            self._wake.set()
            self._is_lost = True
            await asyncio.sleep(self._backoff.next_s())

    async def _listen(self) -> None:
        connection = await connect(self._url, self._timeouts, "listener", STAYS)
        lost = asyncio.Event()
        try:
            with translated_faults():
                connection.add_termination_listener(lambda *_: lost.set())
                await connection.add_listener(CHANNEL, lambda *_: self._wake.set())
                self._wake.set()
                while not await _is_set_within(lost, self._timeouts.heartbeat_s):
                    await connection.fetchval("SELECT 1", timeout=self._timeouts.answer_s)
                    self._is_lost = False
                    self._backoff.reset()
            raise StoreUnavailableException(answer_to("08006"))
        except asyncio.CancelledError:
            await close_gently(connection, self._timeouts)
            raise
        finally:
            connection.terminate()


async def _is_set_within(event: asyncio.Event, timeout_s: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
    return event.is_set()


_ROWS_AT_ONCE = 1_000  # what a driver decodes in one step of the event loop: a few milliseconds

# One statement is one snapshot of the database. Offsets are dense, so the range to read is known beforehand: what fits
# the limit, or the whole first transaction. A WAL receiver that has just begun shows one time for both messages, that
# of its own start. A standby that has replayed more than its primary has is of another history.
_POLL = """SELECT h.cluster_id, h.epoch, h.last_offset, h.hash AS head_hash, h.log_start_offset,
    CASE h.digest_offset WHEN h.last_offset THEN h.digest END AS digest,
    CASE $1::bigint WHEN h.last_offset THEN h.hash WHEN 0 THEN $3::bytea
        ELSE (SELECT hash FROM acl_record WHERE "offset" = $1) END AS hash_at,
    clock_timestamp() AS store_time,
    coalesce((SELECT min(expires_at) FROM acl) <= clock_timestamp(), false) AS holds_ended,
    CASE WHEN pg_is_in_recovery() THEN coalesce(
        pg_last_xact_replay_timestamp(), (SELECT checkpoint_time FROM pg_control_checkpoint())
    ) END AS replayed_to,
    (SELECT least(last_msg_send_time, last_msg_receipt_time) FROM pg_stat_wal_receiver
        WHERE last_msg_send_time <> last_msg_receipt_time
        AND pg_last_wal_replay_lsn() = latest_end_lsn) AS heard_at,
    pg_postmaster_start_time() AS server_start,
    r.*
FROM acl_head AS h
LEFT JOIN LATERAL (
    SELECT greatest($1 + $2::bigint, (SELECT tx_last FROM acl_record WHERE "offset" = $1 + 1)) AS stretch
) AS upto ON true
LEFT JOIN acl_record AS r
    ON r."offset" > $1 AND r."offset" <= least(upto.stretch, $1 + $4) AND r.tx_last <= upto.stretch
ORDER BY r."offset" ASC"""

# Records never change, so the rest of a long transaction may be read in other snapshots of the database.
_REST = (
    """SELECT * FROM acl_record WHERE "offset" > $1 AND "offset" <= least($2::bigint, $1 + $3) ORDER BY "offset" ASC"""
)

_MOST_TRIMMED = 10_000
"""The most records that one trim removes, so that writers never wait long; `trim_acl_record` enforces it."""

_LOCK_HEAD = "SELECT last_offset, log_start_offset FROM acl_head FOR UPDATE"

_FIRST_YOUNG = """SELECT "offset" FROM acl_record
WHERE "offset" >= $1 AND recorded_at >= clock_timestamp() - $2::interval ORDER BY "offset" LIMIT 1"""

# The last end of a transaction within the stretch; if one is longer than the stretch, its end.
_TRANSACTION_END = """SELECT coalesce(
    (SELECT max("offset") FROM acl_record
        WHERE "offset" >= $1 AND "offset" <= least($2::bigint, $3::bigint) AND "offset" = tx_last),
    (SELECT tx_last FROM acl_record WHERE "offset" = $1 AND tx_last <= $2)
)"""

_END_BEFORE_LAST = """SELECT "offset" FROM acl_record
WHERE "offset" < $1 AND "offset" = tx_last ORDER BY "offset" DESC LIMIT 1"""

# An exporter beyond where the next epoch began has lost its position, and starts again.
_EXPORTED = """SELECT min(exporter.last_offset) FROM exporter CROSS JOIN acl_head AS head
WHERE told_at >= clock_timestamp() - $1::interval AND (exporter.epoch = head.epoch OR exporter.last_offset <= (
    SELECT min(later.first_offset) FROM acl_epoch AS own JOIN acl_epoch AS later ON later.number > own.number
    WHERE own.epoch = exporter.epoch
))"""

# It has the rights of the function's owner (the role that serves may delete no record), and checks its argument.
_TRIM = "SELECT trim_acl_record($1)"


class PostgresChangeFeed:
    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._url = url
        self._timeouts = timeouts or StoreTimeouts()
        self._standby = StandbyAge(clock)
        self._polls = KeptConnection(url, self._timeouts, "feed")
        self._history = KeptConnection(url, self._timeouts, "watch")
        self._listener = FeedListener(url, self._timeouts)
        self._positions = Positions(url, self._timeouts)
        self._epochs = KnownEpochs()
        self._outages = OutageLog(url, lambda extra: _log.warning("database_in_trouble", extra=extra))

    @property
    def chain(self) -> Sequence[str]:
        return ()

    def rewind(self, applied_offset: int) -> None:
        """Nothing to do, as in `resume`."""

    def resume(self, position: FeedPosition, epochs: Epochs | None, age_s: float) -> bool:  # noqa: ARG002 - for other feeds
        """Nothing to do: every poll queries the tables for the offset that it is given."""
        return False

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[PostgresSnapshot]:
        with self._outages.logged():
            async with open_snapshot(self._url, self._timeouts) as snapshot:
                yield snapshot

    async def poll(self, applied_offset: int, limit: int) -> FeedPoll:
        """Without records if this offset was never written here, or what follows it is trimmed."""
        poll = await self._read(self._polls, applied_offset, limit)
        return poll if poll.hash_at is not None else replace(poll, records=())

    async def history(self, offset: int, limit: int) -> FeedPoll:
        return await self._read(self._history, offset, limit)

    async def _read(self, kept: KeptConnection, applied_offset: int, limit: int) -> FeedPoll:
        with self._outages.logged():
            async with kept.lease() as connection:
                found = await connection.fetch(_POLL, applied_offset, limit, GENESIS_HASH, _ROWS_AT_ONCE)
                if not found:
                    raise NotMigratedError
                rows: list[asyncpg.Record] = [*found, *await _rest_of_transaction(connection, found[-1])]
                first = rows[0]
                head = head_of(first)
                head = replace(head, known_epochs=await self._epochs.upto(connection, head.epoch))
            asked = first["store_time"], first["holds_ended"]
            age_s = self._standby.age_s(first)
            is_of_primary = first["replayed_to"] is None
            poll = FeedPoll(head, first["hash_at"], (), *asked, age_s, is_of_primary=is_of_primary)
            if applied_offset + 1 < head.log_start_offset:
                return poll
            # If nothing follows the offset, the head comes with an empty record.
            records = [] if rows[0]["offset"] is None else rows
            return replace(poll, records=await _records(records, OrderCheck(applied_offset, head.last_offset)))

    async def begin_epoch_if_lost(self, lost: FeedPosition) -> None:
        async with self._connected("epoch") as connection:
            await begin_epoch_if_lost(connection, lost)

    async def standing_of(self, position: Token, asked_by: Sequence[str] = ()) -> Standing:  # noqa: ARG002 - here the question ends
        return await self._positions.standing_of(position)

    async def wait(self, timeout_s: float) -> None:
        await self._listener.wait(timeout_s)

    async def trim(
        self,
        *,
        keep_age: timedelta | None,
        keep_count: int | None,
        exporters_known_for: timedelta = timedelta(0),
    ) -> int:
        """Removes records that are older than `keep_age` or further back than `keep_count`, up to a transaction's end.

        Records that a recently seen exporter has not taken stay, as does the last transaction, by which followers
        prove their position. None switches a rule off. Returns the number of records removed: as a call removes about
        10,000 at most, call it again until that is 0.
        """
        async with self._connected("retention") as connection, connection.transaction(isolation="read_committed"):
            head = await connection.fetchrow(_LOCK_HEAD)
            if head is None:
                raise NotMigratedError
            start, last = head["log_start_offset"], head["last_offset"]
            old = start - 1
            if keep_age is not None:
                young = await connection.fetchval(_FIRST_YOUNG, start, keep_age)
                old = last if young is None else young - 1
            if keep_count is not None:
                old = max(old, last - keep_count)
            exported = await connection.fetchval(_EXPORTED, exporters_known_for)
            if exported is not None:
                old = min(old, exported)
            # A follower proves its position by the record there: without the last transaction all would reload.
            old = min(old, await connection.fetchval(_END_BEFORE_LAST, last) or 0)
            end = await connection.fetchval(_TRANSACTION_END, start, old, start + _MOST_TRIMMED - 1)
            return 0 if end is None else int(await connection.fetchval(_TRIM, end))

    async def close(self) -> None:
        await self._listener.close()
        await self._polls.close()
        await self._history.close()
        await self._positions.close()

    @asynccontextmanager
    async def _connected(self, purpose: str) -> AsyncIterator[Connection]:
        connection = await connect(self._url, self._timeouts, purpose)
        try:
            with translated_faults():
                yield connection
        finally:
            await close_gently(connection, self._timeouts)


async def _rest_of_transaction(connection: Connection, last: asyncpg.Record) -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = []
    while last["offset"] is not None and last["offset"] < last["tx_last"]:
        more = await connection.fetch(_REST, last["offset"], last["tx_last"], _ROWS_AT_ONCE)
        if not more:
            break
        rows += more
        if more[-1]["tx_last"] != last["tx_last"]:
            break  # damage, which must not make us read the whole feed
        last = more[-1]
    return rows


async def _records(rows: Sequence[asyncpg.Record], order: OrderCheck) -> list[Record]:
    records: list[Record] = []
    async for some in in_slices(rows):
        order.check(some)
        records.extend(record_of(row) for row in some)
    order.check_end()
    return records
