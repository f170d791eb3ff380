"""The records of PostgreSQL, asked about the past; runtime's `PastStore`."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.core.past import ChangesPage, ChangesQuestion
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, KeptConnection, StoreTimeouts
from app.store.faults import OutageLog
from app.store.reading.changes import read_changes

_log = logging.getLogger(__name__)


class PostgresPast:
    """One question at a time, each in one snapshot of the database."""

    def __init__(self, url: DatabaseUrl, timeouts: StoreTimeouts | None = None) -> None:
        self._kept = KeptConnection(url, timeouts or StoreTimeouts(), "past")
        self._outages = OutageLog(url, lambda extra: _log.warning("past_in_trouble", extra=extra))

    async def changes(self, question: ChangesQuestion) -> ChangesPage:
        with self._outages.logged():
            async with self._snapshot() as connection:
                return await read_changes(connection, question)

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[Connection]:
        async with (
            self._kept.lease() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection

    async def close(self) -> None:
        await self._kept.close()
