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
from app.store.faults import translated_faults
from app.store.tls import HUNG_UP, answer_to_tls_fault, tls_of

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# Not for secrets: it only keeps replicas from connecting all at once.


@dataclass(frozen=True, slots=True)
class StoreTimeouts:
    """In seconds."""

    connect_s: float = 2.0
    answer_s: float = 1.5  # for statements without work: BEGIN, a heartbeat
    heartbeat_s: float = 1.5  # between two heartbeats of the listening connection; they find a half-open one
    statement_s: float = 5.0
    lock_s: float = 2.0  # how long a writer waits for another writer
    idle_in_transaction_s: float = 5.0  # after this the server frees the lock of a writer that stopped in the middle
    idle_session_s: float = 60.0
    """After this the server ends an abandoned session of a connection that was opened for one piece of work."""
    unacknowledged_s: float = 30.0  # after this the server drops a peer that does not acknowledge what it was sent
    transaction_s: float = 15.0  # for one group of updates, from its first statement until COMMIT is sent
    snapshot_s: float = 600.0  # for one whole snapshot, however slow its reader is
    slice_s: float = 30.0  # for the next piece of a snapshot; PostgreSQL may have to sort all ACLs before the first

    @property
    def reply_s(self) -> float:
        """The server's own limit should come first, as its error says more."""
        return self.statement_s + self.answer_s

    @property
    def commit_s(self) -> float:
        # At its limit the server reports success for a COMMIT that its synchronous standby still lacks; giving up
        # before that tells the truth, that the outcome is unknown.
        return 0.8 * self.statement_s


def retry_backoff() -> Backoff:
    return Backoff(0.1, 1.0, random.uniform)


# A store that grows fast has no statistics yet: PostgreSQL would take its tables to be tiny, and scan them at each
# poll of the feed and for each group that is written.
_BY_INDEX = {"enable_seqscan": "off"}

# A kept connection may be idle for hours; if it ended just as a write begins, that write would fail. This is set
# explicitly, as the role or the database may have another default.
STAYS = {"idle_session_timeout": "0"}


# The driver has no keepalives, so the server is asked for them: it then frees the session of a machine that is gone,
# and firewalls do not forget an idle connection.
_KEEPALIVES = {"tcp_keepalives_idle": "30", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "3"}


async def connect(
    url: DatabaseUrl, timeouts: StoreTimeouts, purpose: str, settings: Mapping[str, str] = MappingProxyType({})
) -> Connection:
    """`purpose` shows in pg_stat_activity; `settings` override the limits. Raises StoreUnavailableException."""
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
    with translated_faults():
        try:
            return await asyncpg.connect(
                url.dsn, timeout=timeouts.connect_s, command_timeout=timeouts.reply_s, server_settings=session, ssl=tls
            )
        except asyncpg.ConnectionDoesNotExistError as fault:
            if isinstance(tls, str):
                raise
            raise StoreUnavailableException(answer_to_tls_fault(fault) or HUNG_UP) from fault


async def close_gently(connection: Connection, timeouts: StoreTimeouts) -> None:
    """Never raises."""
    try:
        await connection.close(timeout=timeouts.answer_s)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        connection.terminate()


class KeptConnection:
    """One connection: opened when first needed, used by one task at a time, replaced after a fault."""

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
        """The connection, until the block ends. Faults inside the block are translated by `translated_faults`.

        After any exception the connection is never used again: the state of its transaction is unknown.
        """
        with translated_faults():
            async with asyncio.timeout(self._timeouts.transaction_s):
                await self._turn.acquire()
            try:
                yield await self._usable()
            except BaseException:
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                raise
            finally:
                self._turn.release()

    async def close(self) -> None:
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
            raise StoreUnavailableException("this process is stopping; ask another one")
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
                with translated_faults():
                    await self._on_open(connection)
            except BaseException:
                connection.terminate()
                raise
        return connection
