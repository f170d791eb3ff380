"""Who is answered before the first load, and when a replica is ready (DESIGN: readiness)."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from tests.e2e.bodies import BODIES, ENDPOINT, refusal
from tests.e2e.postgres import OwnPostgres, migrated, sql
from tests.e2e.probes import metric, status, verbose
from tests.e2e.service import ADMIN, Json, Service, action, binding, context, eventually

NO_TOKEN_YET = f"{uuid.uuid4()}:0"
ALICE = context("User:alice")
ROOT = context(ADMIN)
ORDERS = action("orders")
DECISIONS: dict[str, Json] = {
    "/v1/authorize": {"actions": [ORDERS]},
    "/v1/authorized-operations": {"resources": [{"resource_type": "TOPIC", "resource_name": "orders"}]},
    "/v1/list-groups": {"groups": ["group"]},
    "/v1/authorize-by-resource-type": {"operation": "READ", "resource_type": "TOPIC"},
}
NEEDS_THE_IMAGE = ("/v1/acls", "/v1/acls/delete", "/v1/acls/search", "/v1/configs")


@dataclass(frozen=True)
class Store:
    """A store of a test's own on a server that it may stop and start."""

    server: OwnPostgres
    dsn: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPostgres]:
    with OwnPostgres(tmp_path_factory.mktemp("postgres") / "data") as server:
        yield server


@pytest.fixture
def store(server: OwnPostgres) -> Store:
    """A newborn store on a server that runs."""
    server.start()
    return Store(server, server.new_store())


@pytest.fixture
def closed(store: Store) -> Store:
    """The same, but nobody listens on its port."""
    store.server.stop()
    return store


def replica(dsn: str, **settings: str) -> Service:
    return Service(
        [], {"KLAMM_DATABASE_URL": dsn, **{f"KLAMM_{name.upper()}": value for name, value in settings.items()}}
    )


def failed_loads(service: Service, more: int) -> None:
    """Wait until the replica has tried, and failed, to load so many times more."""
    before = metric(service, "image_load_failures_total")
    eventually(lambda: metric(service, "image_load_failures_total") >= before + more, "tried to load again")


def check_only_super_users_pass(service: Service) -> None:
    for path, asked in DECISIONS.items():
        problem = refusal(service.http.post(path, json={"context": ALICE, **asked}), 503, "AUTHORIZER_NOT_READY")
        assert (problem["error_code"], problem["retriable"]) == (-1, True)
    answers = {path: service.post(path, {"context": ROOT, **asked}) for path, asked in DECISIONS.items()}
    assert answers["/v1/authorize"] == {"results": ["ALLOWED"], "token": None}
    assert answers["/v1/authorized-operations"]["results"][0]["authorized_operations"] == 3576
    assert answers["/v1/list-groups"] == {"groups": ["group"], "token": None}
    assert answers["/v1/authorize-by-resource-type"] == {"result": "ALLOWED", "token": None}


@pytest.mark.parametrize("allow_everyone", ["false", "true"])
def test_without_a_database_only_super_users_are_answered_until_it_comes_up(closed: Store, allow_everyone: str) -> None:
    with replica(closed.dsn, allow_everyone_if_no_acl_found=allow_everyone) as service:
        assert [status(service, path) for path in ("/livez", "/readyz", "/startupz")] == [200, 503, 503]
        check_only_super_users_pass(service)
        failed_loads(service, more=3)
        assert [status(service, path) for path in ("/livez", "/readyz", "/startupz")] == [200, 503, 503]
        check_only_super_users_pass(service)

        closed.server.start()
        service.ready()
        assert [status(service, path) for path in ("/livez", "/readyz", "/startupz")] == [200, 200, 200]
        assert service.authorize("User:alice", ORDERS) == ["ALLOWED" if allow_everyone == "true" else "DENIED"]
        service.create(binding("orders", "User:bob"))
        assert service.authorize("User:alice", ORDERS) == ["DENIED"]


def test_what_needs_the_image_is_refused_to_super_users_too_until_it_is_there(closed: Store) -> None:
    with replica(closed.dsn) as service:
        for path in NEEDS_THE_IMAGE:
            refusal(service.http.post(path, json=BODIES[path]), 503, "AUTHORIZER_NOT_READY")
        refusal(service.http.get(f"/v1/acls/{uuid.uuid4()}"), 503, "AUTHORIZER_NOT_READY")
        later = {"context": ROOT, "actions": [ORDERS], "at_least": NO_TOKEN_YET}
        refusal(service.http.post("/v1/authorize", json=later), 503, "AUTHORIZER_NOT_READY")
        assert service.http.get("/v1/acls/count").json() == {"acl_count": -1}
        assert metric(service, "acl_count") == -1
        assert {entry["source"] for entry in service.http.get("/v1/configs").json()["configs"]} == {"STARTUP"}


def test_no_answer_is_given_from_before_the_load(store: Store) -> None:
    """The store denies alice, the start-up settings would allow everyone: she may never be allowed."""
    with replica(store.dsn) as first:
        first.ready().create(binding("orders", permission_type="DENY"))
    store.server.stop()
    answers: list[tuple[int, str]] = []
    with replica(store.dsn, allow_everyone_if_no_acl_found="true") as service:
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                reply = service.http.post("/v1/authorize", json={"context": ALICE, "actions": [ORDERS]})
                answers.append((reply.status_code, reply.json().get("results", ["none"])[0]))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            store.server.start()
            service.ready()
            eventually(lambda: answers[-1] == (200, "DENIED"), "alice is answered")
        finally:
            done.set()
            asking.join(60)
    assert set(answers) == {(503, "none"), (200, "DENIED")}


def test_an_unmigrated_database_is_never_ready_says_so_and_is_waited_for(database_url: str) -> None:
    with replica(database_url) as service:
        eventually(lambda: "run `klamm migrate`" in verbose(service), "the way out is named")
        failed_loads(service, more=3)
        assert status(service, "/readyz") == 503
        assert status(service, "/startupz") == 503
        assert "[-]initial-load failed" in verbose(service)
        check_only_super_users_pass(service)

        migrated(database_url)
        service.ready()
        assert service.create(binding("orders"))["results"][0]["created"]
        assert service.authorize("User:alice", ORDERS) == ["ALLOWED"]


def test_a_database_that_does_not_exist_is_waited_for(store: Store) -> None:
    dsn = f"{store.dsn}_later"
    with replica(dsn) as service:
        eventually(lambda: "does not exist; create it" in verbose(service), "the way out is named")
        sql(store.dsn, f'CREATE DATABASE "{dsn.rpartition("/")[2]}"')
        migrated(dsn)
        service.ready()


def test_a_wrong_password_is_told_without_telling_it(store: Store) -> None:
    login = urlsplit(store.dsn)
    wrong = store.dsn.replace(str(login.password), "canary-in-a-coal-mine")
    with replica(wrong) as service:
        eventually(lambda: "refused the credentials" in verbose(service), "the reason is named")
        told = [verbose(service), service.http.get("/metrics").text, service.http.get("/v1/configs").text]
        assert status(service, "/readyz") == 503
    assert "canary" not in "\n".join([*told, *service.lines])


DAMAGES = {
    "an ACL with an operation from the future": (
        "UPDATE acl SET operation = 99 WHERE resource_name = 'topic-1199'",
        "UPDATE acl SET operation = 3 WHERE resource_name = 'topic-1199'",
    ),
    "an ACL with a word of filters": (
        "UPDATE acl SET resource_type = 1 WHERE resource_name = 'topic-600'",
        "UPDATE acl SET resource_type = 2 WHERE resource_name = 'topic-600'",
    ),
    "a property that is none": (
        "INSERT INTO config VALUES ('no.such.property', 'x', 0)",
        "DELETE FROM config WHERE name = 'no.such.property'",
    ),
    "a property with a value that is none": (
        "INSERT INTO config VALUES ('super.users', 'no colon', 0)",
        "DELETE FROM config WHERE name = 'super.users'",
    ),
    "no table of the head": (
        "ALTER TABLE acl_head RENAME TO acl_head_away",
        "ALTER TABLE acl_head_away RENAME TO acl_head",
    ),
    "no row in the head": (
        "WITH gone AS (DELETE FROM acl_head RETURNING *) INSERT INTO kept SELECT * FROM gone",
        "WITH back AS (DELETE FROM kept RETURNING *) INSERT INTO acl_head SELECT * FROM back",
    ),
}


@pytest.fixture(scope="module")
def filled(server: OwnPostgres) -> str:
    """The DSN of a store with 1,200 ACLs, for each test to damage and to mend."""
    server.start()
    dsn = server.new_store()
    sql(dsn, "CREATE TABLE kept AS TABLE acl_head WITH NO DATA")
    with replica(dsn) as service:
        service.ready().create(*[binding(f"topic-{n}") for n in range(1200)])
    return dsn


@contextmanager
def damaged(dsn: str, damage: str) -> Iterator[Callable[[], None]]:
    """The store is broken until what comes of this is called, or the block ends."""
    broken, mended = DAMAGES[damage]
    sql(dsn, broken)
    with ExitStack() as mending:
        mending.callback(sql, dsn, mended)
        yield mending.close


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_load_that_fails_half_way_is_never_ready_until_the_store_is_mended(
    server: OwnPostgres, filled: str, damage: str
) -> None:
    server.start()
    with damaged(filled, damage) as mend, replica(filled, allow_everyone_if_no_acl_found="true") as service:
        failed_loads(service, more=2)
        assert [status(service, path) for path in ("/livez", "/readyz", "/startupz")] == [200, 503, 503]
        assert "[-]initial-load failed: not loaded; trouble: " in verbose(service)
        assert service.http.get("/v1/acls/count").json() == {"acl_count": -1}
        check_only_super_users_pass(service)

        mend()
        service.ready()
        assert service.http.get("/v1/acls/count").json() == {"acl_count": 1200}
        assert service.authorize("User:alice", action("topic-0"), action("topic-1199")) == ["ALLOWED", "ALLOWED"]
        assert service.authorize("User:bob", action("topic-0"), action("topic-1199")) == ["DENIED", "DENIED"]


def endpoints(*names: str) -> list[Json]:
    return [{**ENDPOINT, "listener_name": name} for name in names]


def start(service: Service, *names: str, **more: object) -> list[tuple[str, bool]]:
    reply = service.post("/v1/start", {"broker_id": 1, "endpoints": endpoints(*names), **more})
    return [(each["listener_name"], each["ready"]) for each in reply["listeners"]]


def test_early_start_listeners_are_ready_before_the_load_and_all_others_wait(closed: Store) -> None:
    with replica(closed.dsn, early_start_listeners="CONTROLLER, BROKER") as service:
        paths = [f"/readyz/{name}" for name in ("CONTROLLER", "BROKER", "PLAINTEXT", "controller")]
        assert [status(service, path) for path in paths] == [200, 200, 503, 503]
        assert start(service, "PLAINTEXT", "CONTROLLER", wait_ms=0) == [("PLAINTEXT", False), ("CONTROLLER", True)]
        # The longest wait there is, and none: all that is asked for is ready.
        assert start(service, "BROKER", "CONTROLLER", wait_ms=300_000) == [("BROKER", True), ("CONTROLLER", True)]
        assert start(service, wait_ms=300_000) == []
        assert "[+]listener/CONTROLLER ok" in verbose(service)
        assert "[-]listener/PLAINTEXT failed" in verbose(service)
        check_only_super_users_pass(service)
        # The wait ends, ready or not.
        assert start(service, "PLAINTEXT", wait_ms=200) == [("PLAINTEXT", False)]

        answers: list[Json] = []
        body = {"broker_id": 1, "endpoints": endpoints("PLAINTEXT", "BROKER"), "wait_ms": 60_000}
        waiting = threading.Thread(target=lambda: answers.append(service.post("/v1/start", body)))
        waiting.start()
        closed.server.start()
        waiting.join(60)
        assert [each["ready"] for each in answers[0]["listeners"]] == [True, True]
        assert answers[0]["cluster_id"] == sql(closed.dsn, "SELECT cluster_id FROM acl_head")[0][0]
        assert [status(service, path) for path in paths] == [200, 200, 200, 200]


def test_a_broker_of_another_cluster_is_told_so_as_soon_as_that_is_known(closed: Store) -> None:
    body = {"cluster_id": "another", "broker_id": 1, "endpoints": endpoints("PLAINTEXT"), "wait_ms": 0}
    with replica(closed.dsn) as service:
        assert service.post("/v1/start", body) == {
            "cluster_id": None,
            "listeners": [{"listener_name": "PLAINTEXT", "ready": False}],
        }
        statuses: list[int] = []
        waiting = threading.Thread(
            target=lambda: statuses.append(
                service.http.post("/v1/start", json={**body, "wait_ms": 60_000}).status_code,
            )
        )
        waiting.start()
        closed.server.start()
        waiting.join(60)
        assert statuses == [409]
        problem = refusal(service.http.post("/v1/start", json=body), 409, "INCONSISTENT_CLUSTER_ID")
        assert problem["error_code"] == 104
        known = sql(closed.dsn, "SELECT cluster_id FROM acl_head")[0][0]
        assert service.post("/v1/start", {**body, "cluster_id": known})["cluster_id"] == known


@pytest.mark.parametrize("set_by", ["variable", "alterConfigs"])
def test_an_image_older_than_max_staleness_decides_for_super_users_only(store: Store, set_by: str) -> None:
    settings = {"max_staleness_ms": "1500"} if set_by == "variable" else {}
    with replica(store.dsn, **settings) as service:
        service.ready().create(binding("orders"))
        if set_by == "alterConfigs":
            change = {"name": "max.staleness.ms", "value": "1500"}
            results = service.post("/v1/configs", {"context": ROOT, "configs": [change]})["results"]
            assert results == [{"error_code": 0, "code": "NONE", "error_message": None}]
        assert service.authorize("User:alice", ORDERS) == ["ALLOWED"]

        store.server.stop()
        eventually(lambda: status(service, "/readyz") == 503, "fenced")
        assert "[-]staleness failed" in verbose(service)
        assert "bound: 1500 ms" in verbose(service)
        assert [status(service, path) for path in ("/livez", "/startupz")] == [200, 200]
        for path, asked in DECISIONS.items():
            refusal(service.http.post(path, json={"context": ALICE, **asked}), 503, "AUTHORIZER_NOT_READY")
        assert service.authorize(ADMIN, ORDERS) == ["ALLOWED"]
        assert 'klamm_readiness_state{state="FENCED"} 1.0' in service.http.get("/metrics").text

        store.server.start()
        service.ready()
        assert service.authorize("User:alice", ORDERS) == ["ALLOWED"]
        # Nothing changes any more, and the image is as fresh as ever: looks at the feed keep it so.
        polls = metric(service, "feed_polls_total")
        while metric(service, "feed_polls_total") < polls + 4:
            assert status(service, "/readyz") == 200


def test_without_max_staleness_an_old_image_serves_on(store: Store) -> None:
    with replica(store.dsn) as service:
        service.ready().create(binding("orders"))
        store.server.stop()
        eventually(lambda: metric(service, "feed_poll_failures_total") >= 3, "noticed")
        assert service.http.get("/readyz").text.startswith("[+]initial-load ok")
        assert "last known to equal the head" in service.http.get("/readyz").text
        assert service.authorize("User:alice", ORDERS) == ["ALLOWED"]
        store.server.start()
        eventually(lambda: service.http.get("/readyz").text == "ok", "current again")


def test_a_bound_that_no_image_can_keep_can_be_taken_back(store: Store) -> None:
    with replica(store.dsn) as service:
        service.ready()
        for value in ("1", None):
            change = {"context": ROOT, "configs": [{"name": "max.staleness.ms", "value": value}]}
            assert service.post("/v1/configs", change)["results"][0]["code"] == "NONE"
        service.ready()
        assert service.authorize("User:alice", ORDERS) == ["DENIED"]
