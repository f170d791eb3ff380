"""A hot standby serves decisions and takes no updates; once promoted it goes on in an epoch of its own (F11 to F13)."""

import logging
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.clocks import HOUR_S, Clocks, inherited
from tests.klamm import Process, acl, action, context, replica, wait_until
from tests.postgres import Postgres, sql
from tests.proof.e2e.clusters import promote, standby_of
from tests.proof.e2e.crowd import question_of
from tests.proof.e2e.history import seven_of
from tests.proof.e2e.outside import Outside
from tests.proof.e2e.relay import relay_to
from tests.proxy import Proxy

_log = logging.getLogger(__name__)

ALLOWED, DENIED = ["ALLOWED"], ["DENIED"]


_BEHIND_S = 5.0
"""More than the time between two polls."""
PATIENT = {"KLAMM_REQUEST_TIMEOUT_MS": "30000"}


@dataclass
class Pair:
    """A primary and its standby; `reader` always asks the standby, `writer` whoever has the service's address."""

    primary: Postgres
    wire: Proxy
    """What the standby streams through."""
    address: Proxy
    standby_dsn: str
    reader: Process
    writer: Process

    def fail_over(self) -> None:
        """The primary is gone at once, the standby takes its place with what has reached it."""
        for process in self.primary.processes():
            # Backends end by themselves once the postmaster is gone.
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        promote(self.standby_dsn)
        self.address.lead_to(self.standby_dsn)


@contextmanager
def pair(folder: Path, primary_variables: Mapping[str, str] = MappingProxyType({})) -> Iterator[Pair]:
    server = Postgres(folder / "primary")
    with inherited(primary_variables):
        server.start()
    with server as primary, relay_to(primary.new_store()) as address:
        name = address.dsn.rpartition("/")[2]
        with (
            relay_to(primary.dsn) as wire,
            standby_of(wire.dsn, folder / "standby", primary.folder / "postgres") as standby_server,
        ):
            standby_dsn = f"{standby_server.rpartition('/')[0]}/{name}"
            with replica(standby_dsn, **PATIENT) as reader, replica(address.dsn, **PATIENT) as writer:
                yield Pair(primary, wire, address, standby_dsn, reader.ready(), writer.ready())


def test_a_standby_serves_and_once_promoted_without_its_tail_it_goes_on_in_another_epoch(tmp_path: Path) -> None:
    with pair(tmp_path) as both:
        reader, writer = both.reader, both.writer
        kept = writer.create(acl("kept"))["token"]
        assert reader.authorize("User:alice", action("kept"), at_least=kept) == ALLOWED
        wait_until(lambda: reader.http.get("/readyz").text == "ok", "it is current")
        _takes_no_update(reader)
        # What the standby never gets is acknowledged all the same: replication is asynchronous here.
        both.wire.freeze()
        lost = writer.create(acl("lost"))["token"]
        assert writer.authorize("User:alice", action("lost"), at_least=lost) == ALLOWED
        wait_until(lambda: reader.metric("klamm_feed_age_seconds") > _BEHIND_S, "the reader says that it is behind")

        both.fail_over()
        began_at = time.monotonic()
        found = writer.create(acl("found"), timeout_ms=60_000)["token"]
        _log.info("promoted -> the first update is acknowledged: %.2f s", time.monotonic() - began_at)
        # At once, though nobody has told this replica of the epoch yet.
        assert reader.authorize("User:alice", action("found"), action("lost"), at_least=found) == ALLOWED + DENIED

        next_one = reader.create(acl("next"), timeout_ms=60_000)["token"]
        assert writer.authorize("User:alice", action("next"), action("lost"), at_least=next_one) == ALLOWED + DENIED
        with Outside(both.standby_dsn) as outside:
            assert outside.history().acls == outside.acls()
            for replica in (reader, writer):
                assert {seven_of(acl): acl["id"] for acl in replica.acls()} == outside.acls()
                assert replica.authorize("User:alice", action("kept"), at_least=kept) == ALLOWED
                refused = replica.post("/v1/authorize", {**question_of(["kept"]), "at_least": lost}, status=409)
                assert refused["code"] == "TOKEN_EPOCH_MISMATCH"


def test_a_standby_that_has_connected_anew_and_hears_nothing_is_as_old_as_before(tmp_path: Path) -> None:
    with pair(tmp_path) as both:
        both.writer.create(acl("kept"))
        both.wire.freeze()
        both.writer.create(acl("lost"))
        wait_until(
            lambda: both.reader.metric("klamm_feed_age_seconds") > _BEHIND_S, "the reader says that it is behind"
        )
        both.wire.trip, both.wire.then = b"START_REPLICATION", "silence"
        both.wire.cut_and_thaw()
        began = "SELECT count(*) FROM pg_stat_wal_receiver WHERE last_msg_send_time = last_msg_receipt_time"
        wait_until(lambda: both.wire.trip is None and sql(both.standby_dsn, began) == [(1,)], "it has connected anew")
        polls = both.reader.metric("klamm_feed_polls_total")
        wait_until(lambda: both.reader.metric("klamm_feed_polls_total") > polls + 1, "the reader has polled")

        assert both.reader.metric("klamm_feed_age_seconds") > _BEHIND_S


def _hears_nothing(both: Pair) -> None:
    both.wire.freeze()


def _has_no_receiver(both: Pair) -> None:
    both.wire.trip, both.wire.then = b"START_REPLICATION", "drop"
    both.wire.cut()
    wait_until(lambda: both.wire.trip is None, "it has tried to connect anew")
    both.wire.freeze()


@pytest.mark.parametrize("cut_off", [_hears_nothing, _has_no_receiver])
def test_a_standby_of_a_primary_an_hour_ahead_knows_that_it_is_behind(
    cut_off: Callable[[Pair], None], tmp_path: Path
) -> None:
    with readable_folder() as folder, pair(tmp_path, _an_hour_ahead(folder)) as both:
        kept = both.writer.create(acl("kept"))["token"]
        assert both.reader.authorize("User:alice", action("kept"), at_least=kept) == ALLOWED
        cut_off(both)
        both.writer.create(acl("lost"))

        wait_until(lambda: both.reader.metric("klamm_feed_age_seconds") > _BEHIND_S, "it says that it is behind")

        with replica(both.standby_dsn, **PATIENT) as late:
            assert late.ready().metric("klamm_feed_age_seconds") > _BEHIND_S


@contextmanager
def readable_folder() -> Iterator[Path]:
    """For PostgreSQL's user as well, whom pytest's folders keep out."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def _an_hour_ahead(folder: Path) -> Mapping[str, str]:
    clocks = Clocks(folder)
    if not clocks.can_be_off:
        pytest.skip("no C compiler: no clock can be off")
    return clocks.off(HOUR_S)


def _takes_no_update(replica: Process) -> None:
    # Whether this try has knocked at PostgreSQL or an earlier one, the reason is the same.
    for timeout_ms in (15_000, 16_000):
        body = {"context": context(), "bindings": [acl("refused")], "timeout_ms": timeout_ms}
        refused = replica.post("/v1/acls", body, status=503)
        assert refused["code"] == "STORE_UNAVAILABLE"
        assert "hot standby" in refused["detail"], refused
    assert replica.authorize("User:alice", action("refused")) == DENIED
