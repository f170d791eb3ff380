"""Who is answered before the first load, and when a replica is ready (DESIGN: readiness)."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

from tests.bodies import BODIES, refusal
from tests.klamm import Process, acl, action, replica, wait_until
from tests.postgres import Postgres, Store, migrated, sql
from tests.proof.e2e.probes import status, verbose
from tests.proof.e2e.questions import ALICE, DECISIONS, ORDERS, ROOT, check_only_super_users_pass

NO_TOKEN_YET = f"{uuid.uuid4()}:0"
NEEDS_THE_IMAGE = ("/v1/acls", "/v1/acls/delete", "/v1/acls/search", "/v1/configs")


def failed_loads(service: Process, more: int) -> None:
    """Wait until the replica has tried, and failed, to load so many times more."""
    before = service.metric("klamm_image_load_failures_total")
    wait_until(lambda: service.metric("klamm_image_load_failures_total") >= before + more, "tried to load again")


@pytest.mark.parametrize("allow_everyone", ["false", "true"])
def test_without_a_database_only_super_users_are_answered_until_it_comes_up(closed: Store, allow_everyone: str) -> None:
    with replica(closed.dsn, KLAMM_ALLOW_EVERYONE_IF_NO_ACL_FOUND=allow_everyone) as service:
        assert [status(service, path) for path in ("/livez", "/readyz", "/startupz")] == [200, 503, 503]
        check_only_super_users_pass(service)
        failed_loads(service, more=3)
        assert [status(service, path) for path in ("/livez", "/readyz", "/startupz")] == [200, 503, 503]
        check_only_super_users_pass(service)

        closed.server.start()
        service.ready()
        assert [status(service, path) for path in ("/livez", "/readyz", "/startupz")] == [200, 200, 200]
        assert service.authorize("User:alice", ORDERS) == ["ALLOWED" if allow_everyone == "true" else "DENIED"]
        service.create(acl("orders", "User:bob"))
        assert service.authorize("User:alice", ORDERS) == ["DENIED"]


def test_what_needs_the_image_is_refused_to_super_users_too_until_it_is_there(closed: Store) -> None:
    with replica(closed.dsn) as service:
        for path in NEEDS_THE_IMAGE:
            refusal(service.http.post(path, json=BODIES[path]), 503, "AUTHORIZER_NOT_READY")
        refusal(service.http.get(f"/v1/acls/{uuid.uuid4()}"), 503, "AUTHORIZER_NOT_READY")
        later = {"context": ROOT, "actions": [ORDERS], "at_least": NO_TOKEN_YET}
        refusal(service.http.post("/v1/authorize", json=later), 503, "AUTHORIZER_NOT_READY")
        assert service.http.get("/v1/acls/count").json() == {"acl_count": -1}
        assert service.metric("klamm_acl_count") == -1
        assert {entry["source"] for entry in service.http.get("/v1/configs").json()["configs"]} == {"STARTUP"}


def test_no_answer_is_given_from_before_the_load(store: Store) -> None:
    """The store denies alice, the start-up settings would allow everyone: she may never be allowed."""
    with replica(store.dsn) as first:
        first.ready().create(acl("orders", permission_type="DENY"))
    store.server.stop()
    answers: list[tuple[int, str]] = []
    with replica(store.dsn, KLAMM_ALLOW_EVERYONE_IF_NO_ACL_FOUND="true") as service:
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
            wait_until(lambda: answers[-1] == (200, "DENIED"), "alice is answered")
        finally:
            done.set()
            asking.join(60)
    assert set(answers) == {(503, "none"), (200, "DENIED")}


def test_an_unmigrated_database_is_never_ready_says_so_and_is_waited_for(database_url: str) -> None:
    with replica(database_url) as service:
        wait_until(lambda: "run `klamm migrate`" in verbose(service), "the way out is named")
        failed_loads(service, more=3)
        assert status(service, "/readyz") == 503
        assert status(service, "/startupz") == 503
        assert "[-]initial-load failed" in verbose(service)
        check_only_super_users_pass(service)

        migrated(database_url)
        service.ready()
        assert service.create(acl("orders"))["results"][0]["created"]
        assert service.authorize("User:alice", ORDERS) == ["ALLOWED"]


def test_a_database_that_does_not_exist_is_waited_for(store: Store) -> None:
    dsn = f"{store.dsn}_later"
    with replica(dsn) as service:
        wait_until(lambda: "does not exist; create it" in verbose(service), "the way out is named")
        sql(store.dsn, f'CREATE DATABASE "{dsn.rpartition("/")[2]}"')
        migrated(dsn)
        service.ready()


def test_a_wrong_password_is_told_without_telling_it(store: Store) -> None:
    login = urlsplit(store.dsn)
    wrong = store.dsn.replace(str(login.password), "canary-in-a-coal-mine")
    with replica(wrong) as service:
        wait_until(lambda: "refused the credentials" in verbose(service), "the reason is named")
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
def filled(own_server: Postgres) -> str:
    """The DSN of a store with 1,200 ACLs, for each test to damage and to mend."""
    own_server.start()
    dsn = own_server.new_store()
    sql(dsn, "CREATE TABLE kept AS TABLE acl_head WITH NO DATA")
    with replica(dsn) as service:
        service.ready().create(*[acl(f"topic-{n}") for n in range(1200)])
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
    own_server: Postgres, filled: str, damage: str
) -> None:
    own_server.start()
    with damaged(filled, damage) as mend, replica(filled, KLAMM_ALLOW_EVERYONE_IF_NO_ACL_FOUND="true") as service:
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


def test_without_an_authorizer_everything_is_allowed_and_there_are_no_acls(closed: Store) -> None:
    """authorizer.enabled=false, with or without a database (KIP-504)."""
    with replica(closed.dsn, KLAMM_AUTHORIZER_ENABLED="false") as service:
        for comes_up in (False, True):
            if comes_up:
                closed.server.start()
                service.ready()
            assert service.authorize("User:alice", ORDERS, action("x", "ALTER", "CLUSTER")) == ["ALLOWED", "ALLOWED"]
            answers = {path: service.post(path, {"context": ALICE, **asked}) for path, asked in DECISIONS.items()}
            assert answers["/v1/authorized-operations"]["results"][0]["authorized_operations"] == 3576
            assert answers["/v1/list-groups"]["groups"] == ["group"]
            assert answers["/v1/authorize-by-resource-type"]["result"] == "ALLOWED"
            for path in ("/v1/acls", "/v1/acls/delete", "/v1/acls/search"):
                problem = refusal(service.http.post(path, json=BODIES[path]), 400, "SECURITY_DISABLED")
                assert problem["error_code"] == 54
            refusal(service.http.get(f"/v1/acls/{uuid.uuid4()}"), 400, "SECURITY_DISABLED")
