"""The PostgreSQL of a campaign: stopped, frozen, put back to a copy of its files; and its hot standby."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.core.continuity import KnownHistory
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.store.writing.acl_store import PostgresAclStore
from tests.campaign.links import Link
from tests.clocks import Clocks, inherited
from tests.postgres import Frozen, Postgres, run, sql
from tests.proof.e2e.clusters import copy, standby_of
from tests.updates import create, topic


class CampaignStore:
    """Its methods are the main thread's: PostgreSQL ends with the thread that has begun it."""

    def __init__(self, stack: ExitStack, folder: Path, clocks: Clocks) -> None:
        self._folder, self._clocks = folder, clocks
        self._server = stack.enter_context(Postgres(folder / "primary"))
        self.dsn = self._server.new_store()
        self.stream = Link(stack, "stream", "standby", self._server.dsn)
        """What the standby hears of the primary."""
        self._standby_stack = stack.enter_context(ExitStack())
        self.is_reachable = True
        self.standby_follows = True
        """It can't once the primary was put back."""
        self.standby_dsn = ""
        self.begin_standby()

    def begin_standby(self) -> None:
        """A new one, in the place of the one before."""
        self._standby_stack.close()
        folder = self._folder / "standby"
        shutil.rmtree(folder, ignore_errors=True)
        self.standby_follows = True
        server = self._standby_stack.enter_context(
            standby_of(self.stream.url, folder, self._server.folder / "postgres", self._standby_port)
        )
        self.standby_dsn = f"{server.rpartition('/')[0]}/{self.dsn.rpartition('/')[2]}"

    @property
    def _standby_port(self) -> int | None:
        address = self.standby_dsn.rpartition("@")[2].partition("/")[0]
        return int(address.rpartition(":")[2]) if address else None

    @contextmanager
    def away(self, clock_s: int = 0) -> Iterator[None]:
        """Stopped for as long as the block lasts; begun again with this clock."""
        self.is_reachable = False
        self._server.stop()
        try:
            yield
        finally:
            with inherited(self._clocks.off(clock_s)):
                self._server.start()
            self.is_reachable = True

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.is_reachable = False
        with Frozen(self._server.processes()):
            yield
        self.is_reachable = True

    def copy(self) -> None:
        """Keep its files as they are; it is stopped meanwhile."""
        shutil.rmtree(self._copy, ignore_errors=True)
        with self.away():
            copy(self._cluster, self._copy)

    def put_back(self, clock_s: int = 0) -> None:
        """Its files are those of the copy."""
        with self.away(clock_s):
            shutil.rmtree(self._cluster)
            copy(self._copy, self._cluster)
        self.standby_follows = False

    def write(self, names: list[str]) -> list[str]:
        """Create these ACLs past all services, by a process that has seen nothing; the tokens."""

        async def write_all() -> list[str]:
            store = PostgresAclStore(DatabaseUrl.parse(self.dsn))
            try:
                written = [await store.write([create(topic(name))], KnownHistory()) for name in names]
                return [str(Token(each.epoch, each.last_offset)) for each in written]
            finally:
                await store.close()

        return run(write_all())

    def epochs(self) -> int:
        """How many have begun."""
        ((count,),) = sql(self.dsn, "SELECT count(*) FROM acl_epoch")
        return int(count)

    @property
    def _cluster(self) -> Path:
        return self._server.folder / "postgres"

    @property
    def _copy(self) -> Path:
        return self._folder / "copy"
