"""Connections to PostgreSQL: how they are opened, bounded in time, and kept."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import asyncpg

from app.core.backoff import Backoff
from app.core.kafka.errors import StoreUnavailableException
from app.formats.database_url import DatabaseUrl
from app.store.faults import faults_told
from app.store.tls import HUNG_UP, answer_to_tls_fault, tls_of

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# Not for secrets: it only keeps replicas from knocking all at once.
_jitter = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class StoreTimeouts:
    """How long the store waits for PostgreSQL, in seconds."""

    connect_s: float = 2.0
    answer_s: float = 1.5
    """For a statement that has nothing to do: BEGIN, a heartbeat."""
    heartbeat_s: float = 1.5
    """Between two heartbeats of the listening connection, which find a half-open one."""
    statement_s: float = 5.0
    """The server's statement_timeout."""
    lock_s: float = 2.0
    """The server's lock_timeout: how long a writer stands behind another writer."""
    idle_in_transaction_s: float = 5.0
    """After this the server frees the lock of a writer that stopped in the middle."""
    idle_session_s: float = 60.0
    """After this the server ends the session of a connection for one piece of work that nobody goes on with."""
    unacknowledged_s: float = 30.0
    """After this the server gives up a peer that does not take what it was sent."""
    transaction_s: float = 15.0
    """For one group of updates, from its first statement until COMMIT is sent."""
    snapshot_s: float = 600.0
    """For one snapshot from head to end, however slowly its reader takes it."""
    slice_s: float = 30.0
    """For the next piece of a snapshot; PostgreSQL may have to sort all ACLs before the first."""

    @property
    def reply_s(self) -> float:
        """For the reply to a statement: the server's own limit should speak first, as it says more."""
        return self.statement_s + self.answer_s

    @property
    def commit_s(self) -> float:
        """For the reply to COMMIT: shorter than the server's limit.

        A COMMIT that waits for a synchronous standby ends at the server's limit with success although the standby
        lacks it; giving up before that tells the truth, that the outcome is unknown.
        """
        return 0.8 * self.statement_s


def retry_backoff() -> Backoff:
    return Backoff(0.1, 1.0, _jitter.uniform)


# A store that grows fast has no statistics yet: PostgreSQL would take its tables for tiny ones, and read all of them at
# each look at the feed and for each group that is written.
_BY_INDEX = {"enable_seqscan": "off"}

# A kept connection may have nothing to do for hours; were it ended just as a write begins, that write would fail. It is
# said aloud, as the role or the database may have another default.
STAYS = {"idle_session_timeout": "0"}


# The driver has no keepalives of its own, so the server's are asked for: it frees the session of a machine that is
# gone, and firewalls on the way do not forget a connection that has nothing to say.
_KEEPALIVES = {"tcp_keepalives_idle": "30", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "3"}


async def connect(
    url: DatabaseUrl, timeouts: StoreTimeouts, purpose: str, settings: Mapping[str, str] = MappingProxyType({})
) -> Connection:
    """A new connection with the session's limits set; `purpose` shows in pg_stat_activity. `settings` stand over them.

    Raises StoreUnavailableException.
    """
    limits = {
        "statement_timeout": timeouts.statement_s,
        "lock_timeout": timeouts.lock_s,
        "idle_in_transaction_session_timeout": timeouts.idle_in_transaction_s,
        "idle_session_timeout": timeouts.idle_session_s,
        "tcp_user_timeout": timeouts.unacknowledged_s,
    }
    in_ms = {name: str(round(seconds * 1000)) for name, seconds in limits.items()}
    session = {"application_name": f"klamm {purpose}", "jit": "off", **_KEEPALIVES, **in_ms, **settings}
    tls = await tls_of(url)
    with faults_told():
        try:
            return await asyncpg.connect(
                url.dsn, timeout=timeouts.connect_s, command_timeout=timeouts.reply_s, server_settings=session, ssl=tls
            )
        except asyncpg.ConnectionDoesNotExistError as fault:
            if isinstance(tls, str):
                raise
            raise StoreUnavailableException(answer_to_tls_fault(fault) or HUNG_UP) from fault


async def close_gently(connection: Connection, timeouts: StoreTimeouts) -> None:
    """Says goodbye, so that PostgreSQL does not log a broken connection; never raises for a fault of the connection."""
    try:
        await connection.close(timeout=timeouts.answer_s)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        connection.terminate()


class KeptConnection:
    """One connection for one purpose: opened when first needed, used by one task at a time, made anew after a fault."""

    def __init__(
        self,
        url: DatabaseUrl,
        timeouts: StoreTimeouts,
        purpose: str,
        on_open: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> None:
        self._url = url
        self._timeouts = timeouts
        self._purpose = purpose
        self._on_open = on_open
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._backoff = retry_backoff()
        self._retry_at = 0.0
        self._why = ""
        self._closed = False

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Connection]:
        """The connection, until the block ends. Faults inside the block come out as `faults_told` says.

        A connection that saw any exception is never used again: its transaction's state is not worth guessing.
        """
        with faults_told():
            async with asyncio.timeout(self._timeouts.transaction_s):
                await self._turn.acquire()
            try:
                yield await self._usable()
            except BaseException:
                self._drop()
                raise
            finally:
                self._turn.release()

    async def close(self) -> None:
        """Ends the connection for good; a lease that is still out sees it break."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._turn.locked():
            connection.terminate()
        else:
            await close_gently(connection, self._timeouts)

    async def _usable(self) -> Connection:
        if self._closed:
            raise StoreUnavailableException("this process is stopping; ask another")
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._open()
        return self._connection

    async def _open(self) -> Connection:
        loop = asyncio.get_running_loop()
        if loop.time() < self._retry_at:
            raise StoreUnavailableException(f"{self._why} (found a moment ago)")
        try:
            connection = await self._connect_and_prepare()
        except StoreUnavailableException as fault:
            self._why = fault.message
            self._retry_at = loop.time() + self._backoff.next_s()
            raise
        self._backoff.reset()
        return connection

    async def _connect_and_prepare(self) -> Connection:
        connection = await connect(self._url, self._timeouts, self._purpose, {**_BY_INDEX, **STAYS})
        if self._on_open is not None:
            try:
                with faults_told():
                    await self._on_open(connection)
            except BaseException:
                connection.terminate()
                raise
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
