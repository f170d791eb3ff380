"""kill -9 while the state file is written, again and again: what is there is a state that the store has had."""

import asyncio
import random
import signal
import threading
import time
from pathlib import Path
from uuid import UUID

import httpx

from app.cli.state_file import state_of
from app.core.index.search import search
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.filters import AclBindingFilter
from app.metrics.declared import Metrics
from app.runtime.options import RuntimeOptions
from app.runtime.state.reading import Restored, restore
from app.settings.model import Settings
from tests.klamm import Process, acl, action, context, replica, wait_until
from tests.postgres import Store, sql

ROUNDS = 12


def acls_at(store: Store, offset: int) -> set[UUID]:
    """The ACLs that the store had at this offset."""
    there: set[UUID] = set()
    records = sql(store.dsn, 'SELECT kind, acl_id FROM acl_record WHERE "offset" <= $1 ORDER BY "offset"', offset)
    for kind, acl_id in records:
        (there.add if kind == "AccessControlEntryRecord" else there.discard)(acl_id)
    return there


class Changes:
    """ACLs that come and go as fast as the service takes them, until it is gone."""

    def __init__(self, service: Process, number: int) -> None:
        self._url = service.url
        self._number = number
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=5) as http:
            for count in range(100_000):
                name = f"round-{self._number}-{count}"
                body = {"context": context(), "bindings": [acl(f"{name}-{each}") for each in range(20)]}
                gone = {"context": context(), "filters": [{"resource_name": f"{name}-0"}]}
                try:
                    http.post("/v1/acls", json=body)
                    http.post("/v1/acls/delete", json=gone)
                except httpx.HTTPError:
                    return

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


def restored(folder: Path, store: Store) -> Restored | None:
    state = state_of(Settings.model_validate({"database_url": store.dsn, "state_path": folder}))
    return asyncio.run(restore(RuntimeOptions(state=state), AuthorizerConfig(), Metrics()))


def test_killed_again_and_again_while_it_is_written(store: Store, tmp_path: Path) -> None:
    folder, newest = tmp_path / "state", -1
    for number in range(ROUNDS):
        service = replica(store.dsn, KLAMM_STATE_PATH=str(folder)).ready()
        changes = Changes(service, number)
        # The first snapshot is written right after the load; bookmarks come each 10 s.
        wait_until((folder / "image.ndjson").exists, "the first state file")
        time.sleep(random.uniform(0.0, 1.5))
        service.stop(signal.SIGKILL)
        changes.join()
        found = restored(folder, store)
        assert found is not None
        image = found.image
        assert {each.id for some in search(image.index, AclBindingFilter()) for each in some} == acls_at(
            store, image.offset
        )
        assert image.offset >= newest
        newest = image.offset
        assert not (folder / "image.ndjson.refused").exists()
    store.server.stop()
    try:
        with replica(store.dsn, KLAMM_STATE_PATH=str(folder)) as service:
            assert service.ready().authorize("User:alice", action("no-such")) == ["DENIED"]
    finally:
        store.server.start()
