"""The records of PostgreSQL, asked about the past; runtime's `PastStore`."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from app.core.index.table import SortKey
from app.core.kafka.errors import ApiException
from app.core.past import ChangesPage, ChangesQuestion, Moment, PastScope, PastState
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, KeptConnection, StoreTimeouts
from app.store.faults import OutageLog
from app.store.reading.changes import read_changes
from app.store.reading.state import read_state, read_stretch

T = TypeVar("T")

_log = logging.getLogger(__name__)


class PostgresPast:
    """One question at a time, each in one snapshot of the database."""

    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts | None = None) -> None:
        self._kept = KeptConnection(url, timeouts or StoreTimeouts(), "past")
        self._outages = OutageLog(url, lambda extra: _log.warning("past_in_trouble", extra=extra))

    async def changes(self, question: ChangesQuestion) -> ChangesPage:
        return await self._asked(lambda connection: read_changes(connection, question))

    async def state(self, at: Moment, scope: PastScope) -> PastState:
        return await self._asked(lambda connection: read_state(connection, at, scope))

    async def stretch(self, at: Moment, after: SortKey | None, rows: int) -> PastState:
        return await self._asked(lambda connection: read_stretch(connection, at, after, rows))

    async def _asked(self, read: Callable[[Connection], Awaitable[T]]) -> T:
        answer: T | ApiException
        with self._outages.logged():
            async with (
                self._kept.lease() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                try:
                    answer = await read(connection)
                except ApiException as refusal:
                    # Not a fault of the connection, which is kept.
                    answer = refusal
        if isinstance(answer, ApiException):
            raise answer
        return answer

    async def close(self) -> None:
        await self._kept.close()
