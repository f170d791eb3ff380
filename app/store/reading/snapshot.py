"""All ACLs as of one offset, streamed: COPY in pieces, parsed in slices, flat in memory."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from app.core.kafka.bindings import AclSlice
from app.core.kafka.errors import PoisonedRecordException, UnknownRecordException
from app.core.records import FeedHead
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, StoreTimeouts, close_gently, connect
from app.store.epochs import read_epochs
from app.store.faults import NotMigratedError, translated_faults
from app.store.rows import acl_slice, head_of, select_acl_lines

ROWS_PER_SLICE = 500  # about a millisecond to parse

_PIECES_WAITING = 4  # pieces (up to 256 KiB each) that wait for the reader before COPY is held back

_HEAD = """SELECT cluster_id, epoch, last_offset, hash AS head_hash, log_start_offset,
    CASE digest_offset WHEN last_offset THEN digest END AS digest
FROM acl_head"""
# A snapshot takes as long as its reader; it holds no lock that a writer waits for.
_PATIENCE = """SELECT set_config('statement_timeout', $1, true),
    set_config('idle_in_transaction_session_timeout', $1, true)"""
_CONFIGS = "SELECT name, value FROM config"


_ACLS = select_acl_lines(ordered=True)


class PostgresSnapshot:
    def __init__(
        self,
        connection: Connection,
        timeouts: StoreTimeouts,
        head: FeedHead,
        configs: Mapping[str, str],
    ) -> None:
        self.head = head
        self.configs = configs
        self._connection = connection
        self._timeouts = timeouts
        # INVARIANT: bounded, so a slow reader slows COPY down instead of filling the memory.
        self._pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_PIECES_WAITING)
        self._copying: asyncio.Task[None] | None = None
        self._is_left = False

    async def slices(self) -> AsyncIterator[AclSlice]:
        """Call this once. Raises StoreUnavailableException, PoisonedRecordException."""
        self._copying = asyncio.create_task(self._copy(), name="klamm snapshot")
        rest = b""
        while (piece := await self._next_piece()) is not None:
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
            for start in range(0, len(lines), ROWS_PER_SLICE):
                yield self._slice(lines[start : start + ROWS_PER_SLICE])
                await asyncio.sleep(0)

    async def stop(self) -> None:
        if self._copying is not None and not self._copying.done():
            self._is_left = True
            # In this order: asyncpg stumbles over rows that arrive after a COPY was cancelled.
            self._connection.terminate()
            self._copying.cancel()
            await asyncio.wait([self._copying], timeout=self._timeouts.answer_s)

    def _slice(self, lines: Sequence[bytes]) -> AclSlice:
        try:
            return acl_slice(lines)
        except KeyError as code:
            why = f"the snapshot holds an ACL with a code that this version can't read: {code}"
            raise UnknownRecordException(-1, why) from None
        except ValueError as fault:
            why = "the snapshot holds an ACL that this version can't read"
            raise PoisonedRecordException(-1, why) from fault

    async def _next_piece(self) -> bytes | None:
        with translated_faults():
            async with asyncio.timeout(self._timeouts.slice_s):
                piece = await self._pieces.get()
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def _copy(self) -> None:
        end: Exception | None = None
        try:
            with translated_faults():
                await self._connection.copy_from_query(
                    _ACLS,
                    output=self._pieces.put,
                    format="text",
                    null="",
                    timeout=self._timeouts.snapshot_s,
                )
        except Exception as fault:  # noqa: BLE001 - it is raised where the slices are read
            end = fault
        if not self._is_left:
            await self._pieces.put(end)


@asynccontextmanager
async def open_snapshot(url: DatabaseUrl, timeouts: StoreTimeouts) -> AsyncIterator[PostgresSnapshot]:
    # The reader may hold COPY back while it builds, so a peer that takes nothing is not gone.
    patience = {"tcp_user_timeout": str(round(timeouts.snapshot_s * 1000))}
    connection = await connect(url, timeouts, "snapshot", patience)
    reader: PostgresSnapshot | None = None
    try:
        with translated_faults():
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            await connection.execute(_PATIENCE, str(round(timeouts.snapshot_s * 1000)))
            head = await connection.fetchrow(_HEAD)
            configs = await connection.fetch(_CONFIGS)
            if head is None:
                raise NotMigratedError
            epochs = await read_epochs(connection)
        overrides = {row["name"]: row["value"] for row in configs}
        reader = PostgresSnapshot(connection, timeouts, replace(head_of(head), known_epochs=epochs), overrides)
        yield reader
    finally:
        if reader is not None:
            await reader.stop()
        await close_gently(connection, timeouts)
