"""A hot standby serves decisions and takes no updates; once promoted it goes on in an epoch of its own (F11 to F13)."""

import logging
import os
import signal
from pathlib import Path

from tests.e2e.crowd import Crowd, question_of, seconds_until
from tests.e2e.outside import Outside
from tests.e2e.postgres import OwnPostgres
from tests.e2e.relay import relay_to
from tests.e2e.service import Service, action, binding, context, eventually
from tests.e2e.standby import promote, standby_of

_log = logging.getLogger(__name__)


def replica_on(database_url: str, **more: str) -> Service:
    return Service([], {"KLAMM_DATABASE_URL": database_url, **more})


def test_a_standby_serves_and_once_promoted_without_its_tail_it_goes_on_in_another_epoch(tmp_path: Path) -> None:
    with (
        OwnPostgres(tmp_path / "primary") as server,
        relay_to(server.dsn) as wire,
        relay_to(server.dsn) as address,
    ):
        dsn = server.new_store()
        name = dsn.rpartition("/")[2]
        with (
            standby_of(wire.dsn, tmp_path / "standby", tmp_path / "primary" / "postgres") as standby_server,
            # One replica always asks the standby, the other whichever server has the service's address.
            replica_on(f"{standby_server.rpartition('/')[0]}/{name}", KLAMM_REQUEST_TIMEOUT_MS="1000") as reader,
            replica_on(f"{address.dsn.rpartition('/')[0]}/{name}") as writer,
        ):
            kept = writer.ready().create(binding("kept"))["token"]
            assert reader.ready().authorize("User:alice", action("kept"), at_least=kept) == ["ALLOWED"]
            assert reader.http.get("/readyz").text == "ok"
            refused = reader.post("/v1/acls", {"context": context(), "bindings": [binding("refused")]}, status=503)
            assert refused["code"] == "STORE_UNAVAILABLE"
            assert "hot standby" in refused["detail"]

            wire.freeze()
            lost = writer.create(binding("lost"))["token"]
            assert writer.authorize("User:alice", action("lost")) == ["ALLOWED"]
            for process in server.processes():
                os.kill(process, signal.SIGKILL)
            promote(standby_server)
            address.lead_to(standby_server)

            found = writer.create(binding("found"))["token"]
            stale = [reader.http.post("/v1/authorize", json={**question_of(["found"]), "at_least": found}) for _ in range(3)]
            print([(s.status_code, s.text) for s in stale])
            print(kept, lost, found)
