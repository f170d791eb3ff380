"""PostgreSQL stops, or stands still: decisions go on from memory, updates are refused in time and truthfully."""

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import httpx
import pytest

from tests.bodies import problem_in
from tests.klamm import LIMIT_S, SUPER_USER, Json, Process, acl, action, context, replica, wait_until
from tests.postgres import Frozen, Store, sql
from tests.proof.e2e.asking import Asking

LOG = logging.getLogger(__name__)

OUTAGE_S = 20.0
FREEZE_S = 8.0
TIMEOUT_MS = 1_000
IN_TIME_S = 15.0
"""Far more than a caller's timeout and a slow machine's delay, far less than not looking at the timeout at all."""

QUESTION: Json = {
    "context": context("User:alice"),
    "actions": [action("orders"), action("orders", "WRITE"), action("payments"), action("eu.sales")],
}
ANSWER = ["ALLOWED", "DENIED", "DENIED", "ALLOWED"]
_names = count()


@dataclass
class Updates:
    """What became of the creates that were tried, by the name of the topic."""

    kept: list[str] = field(default_factory=list)
    not_kept: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def create(self, service: Process, timeout_ms: int = TIMEOUT_MS) -> bool:
        """Try to create one ACL; whether it was acknowledged."""
        name = f"try-{next(_names)}"
        body = {"context": context(), "bindings": [acl(name, "User:carol")], "timeout_ms": timeout_ms}
        began_at = time.monotonic()
        reply = service.http.post("/v1/acls", json=body)
        self.slowest_s = max(self.slowest_s, time.monotonic() - began_at)
        self._names(reply).append(name)
        return reply.is_success

    def check(self, service: Process) -> None:
        """What was acknowledged is there, what was refused is not; each answer came in time."""
        found = {acl["resource_name"] for acl in service.acls(principal="User:carol")}
        assert set(self.kept) <= found
        assert not found & set(self.not_kept)
        assert found <= {*self.kept, *self.unknown}
        assert self.slowest_s < IN_TIME_S

    def _names(self, reply: httpx.Response) -> list[str]:
        if reply.is_success:
            return self.kept
        refused = problem_in(reply)
        assert refused["retriable"]
        if (reply.status_code, refused["code"]) == (503, "STORE_UNAVAILABLE"):
            return self.not_kept
        assert (reply.status_code, refused["code"]) == (504, "REQUEST_TIMED_OUT"), refused
        return self.unknown


@pytest.fixture
def service(store: Store) -> Iterator[Process]:
    """A replica that gives ANSWER to QUESTION."""
    with replica(store.dsn) as service:
        service.ready().create(
            acl("orders"),
            acl("eu.", pattern_type="PREFIXED", operation="ALL"),
            acl("*", operation="ALL"),
            acl("orders", operation="WRITE", permission_type="DENY"),
            acl("payments", principal="User:*", operation="ALL", permission_type="DENY"),
        )
        yield service


def age_told(service: Process) -> str:
    """The body of /readyz, which must be a 200."""
    reply = service.http.get("/readyz")
    assert reply.status_code == 200, reply.text
    return reply.text


def check_reads_from_memory(service: Process, token: str) -> None:
    """Everything that needs no database is answered while there is none."""
    assert service.authorize("User:alice", *QUESTION["actions"], at_least=token) == ANSWER
    assert len(service.acls()) == service.http.get("/v1/acls/count").json()["acl_count"]
    assert service.http.get(f"/v1/acls/{service.acls()[0]['id']}").status_code == 200
    assert service.http.get("/v1/configs").status_code == 200
    assert service.http.get("/livez").status_code == 200
    assert service.http.get("/startupz").status_code == 200
    assert service.http.get("/metrics").status_code == 200


def check_every_update_is_refused(service: Process) -> None:
    changes: dict[str, Json] = {
        "/v1/acls": {"bindings": [acl("refused", "User:dave")]},
        "/v1/acls/delete": {"filters": [{"principal": "User:alice"}]},
        "/v1/configs": {"configs": [{"name": "super.users", "value": "User:mallory"}]},
    }
    for path, change in changes.items():
        reply = service.http.post(path, json={"context": context(), "timeout_ms": 200, **change})
        assert reply.status_code in (503, 504), reply.text
        assert problem_in(reply)["code"] in ("STORE_UNAVAILABLE", "REQUEST_TIMED_OUT")


def flows_again(service: Process, other: Process, updates: Updates) -> float:
    """Wait until an update is acknowledged and another replica shows it. Returns how long that took, in seconds."""
    back_at = time.monotonic()
    wait_until(lambda: updates.create(service), "updates are acknowledged again")
    asked = action(updates.kept[-1])
    wait_until(lambda: other.authorize("User:carol", asked) == ["ALLOWED"], "the other replica shows it")
    took_s = time.monotonic() - back_at
    wait_until(lambda: age_told(service) == "ok" and age_told(other) == "ok", "both are current")
    return took_s


def test_postgresql_is_stopped_for_20_s(store: Store, service: Process) -> None:
    updates = Updates()
    with replica(store.dsn) as other, Asking(service, QUESTION, ANSWER) as asking:
        other.ready()
        token = service.create(acl("last", "User:carol"))["token"]
        updates.kept.append("last")
        store.server.stop()
        stopped_at = time.monotonic()
        wait_until(lambda: "[+]change-feed ok: lagging; last known to equal" in age_told(service), "the age is named")
        check_reads_from_memory(service, token)
        check_every_update_is_refused(service)
        while time.monotonic() < stopped_at + OUTAGE_S:
            assert not updates.create(service)
            assert "trouble: nothing listens on the host and port of `database.url`" in age_told(service)
        answers = asking.answers
        store.server.start()
        took_s = flows_again(service, other, updates)
    assert asking.wrong == []
    assert asking.answers > answers > 100
    updates.check(service)
    assert service.acls(principal="User:dave") == []
    LOG.warning("all flows %.2f s after the return of PostgreSQL", took_s)
    LOG.warning(
        "%d answers, slowest %.2f s; updates slowest %.2f s", asking.answers, asking.slowest_s, updates.slowest_s
    )


def frozen_for_a_while(service: Process, processes: list[int], updates: Updates) -> None:
    with Frozen(processes):
        began_at = time.monotonic()
        check_every_update_is_refused(service)
        while time.monotonic() < began_at + FREEZE_S:
            updates.create(service)
            age_told(service)


def test_postgresql_stands_still(store: Store, service: Process) -> None:
    """Every connection is half-open: nothing is closed, nothing is answered, and new ones are not accepted."""
    updates = Updates()
    with replica(store.dsn) as other, Asking(service, QUESTION, ANSWER) as asking:
        other.ready()
        assert updates.create(service, timeout_ms=60_000)
        frozen_for_a_while(service, store.server.processes(), updates)
        took_s = flows_again(service, other, updates)
    assert asking.wrong == []
    updates.check(service)
    assert service.acls(principal="User:dave") == []
    assert len(updates.not_kept) + len(updates.unknown) > 1
    LOG.warning("all flows %.2f s after PostgreSQL goes on; updates slowest %.2f s", took_s, updates.slowest_s)


def backends(dsn: str, purpose: str = "%") -> list[int]:
    found = sql(dsn, "SELECT pid FROM pg_stat_activity WHERE application_name LIKE $1", f"klamm {purpose}")
    return [pid for (pid,) in found]


def test_a_backend_that_stands_still_is_left_for_a_new_connection(store: Store, service: Process) -> None:
    updates = Updates()
    with Asking(service, QUESTION, ANSWER) as asking:
        assert updates.create(service, timeout_ms=60_000)
        standing = backends(store.dsn)
        assert len(standing) >= 3
        with Frozen(standing):
            assert updates.create(service, timeout_ms=60_000)
            assert service.authorize("User:carol", action(updates.kept[-1])) == ["ALLOWED"]
            wait_until(lambda: age_told(service) == "ok", "current by new connections")
        assert updates.create(service, timeout_ms=60_000)
    assert asking.wrong == []
    updates.check(service)


def test_writers_that_stand_still_in_the_middle_lose_nothing(store: Store, service: Process) -> None:
    """The writer's backend is frozen wherever it is, with or without the lock on the head, again and again."""
    updates = Updates()
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            updates.create(service, timeout_ms=2_000)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(4):
            before = len(updates.kept)
            wait_until(lambda before=before: len(updates.kept) > before + 20, "updates flow")  # type: ignore[misc]  # bound
            with Frozen(backends(store.dsn, "writer")):
                time.sleep(2.5)
    finally:
        done.set()
        for writer in writers:
            writer.join(LIMIT_S)
    wait_until(lambda: updates.create(service), "updates flow again")
    updates.check(service)
    rows = sql(store.dsn, "SELECT count(*) FROM acl")[0][0]
    assert service.http.get("/v1/acls/count").json() == {"acl_count": rows}


def test_a_postmaster_that_stands_still_hinders_nobody_who_is_connected(store: Store, service: Process) -> None:
    updates = Updates()
    assert updates.create(service, timeout_ms=60_000)
    postmaster = int((store.server.folder / "postgres" / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
    with Frozen([postmaster]), replica(store.dsn) as late:
        assert updates.create(service, timeout_ms=60_000)
        assert service.post("/v1/authorize", QUESTION)["results"] == ANSWER
        wait_until(lambda: age_told(service) == "ok", "the image is current")
        wait_until(lambda: late.metric("klamm_image_load_failures_total") >= 2, "it tries and fails")
        assert late.http.get("/readyz").status_code == 503
        assert late.authorize(SUPER_USER, action("orders")) == ["ALLOWED"]
    with replica(store.dsn) as late:
        late.ready()
    updates.check(service)
