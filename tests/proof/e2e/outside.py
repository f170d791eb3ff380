"""PostgreSQL seen past the replicas: what is stored, who is connected, and ways to do harm."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg

from app.core.epochs import Epoch, Epochs
from app.core.records import FeedHead, Record
from app.store.rows import acl_of, head_of, record_of
from tests.proof.e2e.history import History, Seven

T = TypeVar("T")

_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND application_name = $2"
_ANY_BACKEND = """SELECT application_name AS purpose, pg_terminate_backend(pid) FROM (
    SELECT pid, application_name FROM pg_stat_activity WHERE datname = $1 AND application_name LIKE 'klamm %'
    ORDER BY random() LIMIT 1
) AS victim"""
_RECORDS = 'SELECT * FROM acl_record WHERE "offset" > $1 ORDER BY "offset" LIMIT 20000'


class Outside:
    """A superuser's connection of its own; belongs to one thread, and each call waits for its answer."""

    def __init__(self, dsn: str) -> None:
        self.database = urlsplit(dsn).path.removeprefix("/")
        self._loop = asyncio.new_event_loop()
        self._connection: asyncpg.Connection[asyncpg.Record] = self._wait(asyncpg.connect(dsn, timeout=30))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._connection.close(timeout=30))
        self._loop.close()

    def rows(self, query: str, *values: object) -> list[asyncpg.Record]:
        return self._wait(self._connection.fetch(query, *values, timeout=60))

    def execute(self, statements: str) -> None:
        """One or more statements; several are one transaction."""
        self._wait(self._connection.execute(statements, timeout=60))

    def head(self) -> FeedHead:
        (row,) = self.rows("SELECT *, hash AS head_hash FROM acl_head")
        rows = self.rows("SELECT epoch, first_offset FROM acl_epoch ORDER BY number")
        epochs = Epochs.of(Epoch(UUID(bytes=each["epoch"].bytes), each["first_offset"]) for each in rows)
        return replace(head_of(row), known_epochs=epochs)

    def records(self) -> list[Record]:
        """All of them, read in pages: one answer with a million would not come in time."""
        found: list[Record] = []
        while page := self.rows(_RECORDS, found[-1].offset if found else -1):
            found += map(record_of, page)
        return found

    def history(self) -> History:
        """Every change there ever was; that the chain holds from the first to the head is checked here."""
        return History(self.records(), self.head())

    def acls(self) -> dict[Seven, str]:
        """What the table holds: the seven fields and the id."""
        found = [acl_of(row) for row in self.rows("SELECT * FROM acl")]
        return {acl.binding.words: str(acl.id) for acl in found}

    def kill(self, purpose: str) -> None:
        """Ends Klamm's backends for this purpose."""
        for pid in self.backends(purpose):
            self.rows("SELECT pg_terminate_backend($1)", pid)

    def kill_any(self) -> str | None:
        """Ends one of Klamm's backends, whichever; returns what it was for."""
        found = self.rows(_ANY_BACKEND, self.database)
        return found[0]["purpose"] if found else None

    def backends(self, purpose: str) -> list[int]:
        """The process ids of Klamm's backends for this purpose: writer, feed, listener."""
        return [row["pid"] for row in self.rows(_BACKENDS, self.database, f"klamm {purpose}")]

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)
