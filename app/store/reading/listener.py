"""LISTEN on a connection of its own: a hint that the change feed may have moved."""

import asyncio
import logging
from contextlib import suppress

from app.core.kafka.errors import StoreUnavailableException
from app.formats.database_url import DatabaseUrl
from app.store.engine import STAYS, StoreTimeouts, close_gently, connect, retry_backoff
from app.store.faults import answer_to, translated_faults
from app.store.writing.journal import CHANNEL

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
