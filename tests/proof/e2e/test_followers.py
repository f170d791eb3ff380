"""Followers: replicas without a database, on another service, and on each other."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import asyncpg
import httpx
import pytest

from app.rest.callers.token_file import add_token
from tests.klamm import ROOT, Process, acl, action, context, over_socket, replica, wait_until
from tests.planted import plant
from tests.postgres import Store, run
from tests.proof.e2e.relay import relay_to
from tests.surroundings import without_ours
from tests.watching import Stream

ALLOWED, DENIED = ["ALLOWED"], ["DENIED"]


class Chain(NamedTuple):
    root: Process
    near: Process
    far: Process


def follower_of(*urls: str, **variables: str) -> Process:
    return over_socket(*[part for url in urls for part in ("--upstream", url)], settings=variables)


@pytest.fixture(scope="module")
def chain(service: Process) -> Iterator[Chain]:
    with follower_of(service.url) as near, follower_of(near.ready().url) as far:
        yield Chain(service, near, far.ready())


def test_an_update_through_the_last_follower_is_seen_by_all_with_its_token(chain: Chain) -> None:
    made = chain.far.create(acl("made-below", owner="orders team", expires_at="2099-01-01T00:00:00Z"), comment="T-1")
    for each in chain:
        assert each.authorize("User:alice", action("made-below"), at_least=made["token"]) == ALLOWED
        (found,) = each.acls(resource_name="made-below")
        assert (found["id"], found["owner"], found["expires_at"]) == (
            made["results"][0]["id"],
            "orders team",
            "2099-01-01T00:00:00Z",
        )
    again = chain.far.create(acl("made-below"))
    assert again["results"][0] == {**made["results"][0], "created": False}

    gone = chain.near.delete({"resource_name": "made-below"})
    assert [each["id"] for each in gone["results"][0]["matches"]] == [made["results"][0]["id"]]
    assert chain.far.authorize("User:alice", action("made-below"), at_least=gone["token"]) == DENIED
    assert chain.root.authorize("User:alice", action("made-below"), at_least=gone["token"]) == DENIED


def test_refusals_of_the_upstream_come_back_as_they_are(chain: Chain) -> None:
    stale = chain.root.create(acl("guarded"))["token"]
    chain.root.delete({"resource_name": "guarded"})
    answers = []
    for each in (chain.root, chain.far):
        body = {"context": context(), "bindings": [acl("guarded"), acl("")]}
        guarded = each.post("/v1/acls", {**body, "if_unchanged_since": stale}, status=412)
        past = each.create(acl("past", expires_at="2020-01-01T00:00:00Z"), acl("lasting"))
        each.delete({"resource_name": "lasting"})
        refused = past["results"][0]
        answers.append((guarded["code"], refused["code"], refused["error_message"].partition(" is not after ")[0]))
        assert past["results"][1]["created"]
    assert answers[0] == answers[1]
    body = {"context": context("User:nobody"), "bindings": [acl("x")]}
    assert chain.far.post("/v1/acls", body, status=403) == chain.root.post("/v1/acls", body, status=403)


def test_properties_change_on_all_at_one_offset(chain: Chain) -> None:
    change = {
        "context": context(),
        "configs": [{"name": "super.users", "value": "User:admin;User:eve"}, {"name": "x", "value": "1"}],
    }
    changed = chain.far.post("/v1/configs", change)
    assert [each["code"] for each in changed["results"]] == ["NONE", "INVALID_REQUEST"]
    for each in chain:
        assert each.authorize("User:eve", action("anything"), at_least=changed["token"]) == ALLOWED
    back = {"context": context(), "configs": [{"name": "super.users", "value": None}]}
    token = chain.near.post("/v1/configs", back)["token"]
    assert chain.far.authorize("User:eve", action("anything"), at_least=token) == DENIED


def test_readers_of_a_follower_see_what_the_stores_own_readers_see(chain: Chain) -> None:
    before = str(chain.root.create(acl("for-readers"))["token"])
    last = ""
    for number in range(20):
        last = str(chain.far.create(acl(f"for-readers-{number}"))["token"])
    # The near follower is asked for what is older than the memory of one that has begun later.
    with follower_of(chain.far.url) as late:
        late.ready()
        with Stream(late.url, f"after={before}") as read, Stream(chain.root.url, f"after={before}") as told:
            read.until(last)
            told.until(last)
            assert read.seen.records == told.seen.records
            assert len(read.seen.records) == 20
        with Stream(late.url, "snapshot=true") as whole:
            whole.until(last)


def test_a_follower_outlives_its_upstream_and_follows_it_again(store: Store) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with ExitStack() as stack:
        root = stack.enter_context(over_socket("--port", port, settings={"KLAMM_DATABASE_URL": store.dsn}))
        near = stack.enter_context(follower_of(root.ready().url)).ready()
        far = stack.enter_context(follower_of(near.url)).ready()
        first = far.create(acl("first"))["token"]
        root.stop(signal.SIGKILL)
        wait_until(lambda: "lagging" in far.http.get("/readyz?verbose").text, "the far one knows")
        assert far.authorize("User:alice", action("first"), at_least=first) == ALLOWED
        wait_until(lambda: "can't be reached" in near.http.get("/readyz?verbose").text, "the near one knows")
        refused = near.post("/v1/acls", {"context": context(), "bindings": [acl("x")], "timeout_ms": 3000}, status=503)
        assert refused["code"] == "STORE_UNAVAILABLE"
        assert "can't be reached" in refused["detail"]

        again = stack.enter_context(over_socket("--port", port, settings={"KLAMM_DATABASE_URL": store.dsn})).ready()
        second = again.create(acl("second"))["token"]
        assert far.authorize("User:alice", action("second"), at_least=second) == ALLOWED
        wait_until(lambda: far.create(acl("third"))["results"][0]["created"], "updates go through")
        # What was there is followed on, not loaded again.
        assert (near.metric("klamm_image_loads_total"), far.metric("klamm_image_loads_total")) == (1, 1)


def test_a_follower_starts_from_its_state_file_and_follows_on(store: Store, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    kept = {"KLAMM_STATE_PATH": str(tmp_path / "state")}
    with over_socket("--port", port, settings={"KLAMM_DATABASE_URL": store.dsn}) as root:
        with follower_of(root.ready().url, **kept) as near:
            token = root.create(acl("kept"))["token"]
            assert near.ready().authorize("User:alice", action("kept"), at_least=token) == ALLOWED
            wait_until(lambda: any(b'"kept"' in each.read_bytes() for each in (tmp_path / "state").iterdir()), "kept")
        url = root.url
    with follower_of(url, **kept) as near:
        assert near.ready().authorize("User:alice", action("kept")) == ALLOWED
        assert "can't be reached" in near.http.get("/readyz?verbose").text
        with over_socket("--port", port, settings={"KLAMM_DATABASE_URL": store.dsn}) as root:
            token = root.ready().create(acl("later"))["token"]
            assert near.authorize("User:alice", action("later"), at_least=token) == ALLOWED
            assert near.metric("klamm_image_loads_total") == 0


def test_cut_and_silent_connections_are_replaced(service: Process) -> None:
    with relay_to(service.url) as way, follower_of(way.dsn.replace("@", "")) as near:
        near.ready()
        for number in range(3):
            way.cut()
            token = service.create(acl(f"cut-{number}"))["token"]
            assert near.authorize("User:alice", action(f"cut-{number}"), at_least=token) == ALLOWED
        way.trip, way.then = b"POST /v1/acls", "deliver"
        body = {"context": context(), "bindings": [acl("unknown-outcome")]}
        assert near.post("/v1/acls", body, status=504)["code"] == "REQUEST_TIMED_OUT"
        assert near.metric("klamm_image_loads_total") == 1


def test_another_history_ends_in_a_fresh_snapshot(store: Store, service: Process) -> None:
    with replica(store.dsn) as root, relay_to(root.ready().url) as way:
        root.create(acl("kept"))
        with follower_of(way.dsn.replace("@", "")) as near, follower_of(near.ready().url) as far:
            far.ready()
            statements(store.dsn, 'CREATE DATABASE "{0}_copy" TEMPLATE "{0}"')
            lost = acknowledged(far, "lost")
            restored = ('ALTER DATABASE "{0}" RENAME TO "{0}_lost"', 'ALTER DATABASE "{0}_copy" RENAME TO "{0}"')
            statements(store.dsn, *restored)
            wait_until(
                lambda: far.authorize("User:alice", action("kept"), action("lost")) == ALLOWED + DENIED, "restored"
            )
            stale = {"context": context("User:alice"), "actions": [action("kept")], "at_least": lost}
            # Only who reads the head of the store says that a caller's token is lost; a follower waits for it.
            assert root.post("/v1/authorize", stale, status=409)["code"] == "TOKEN_EPOCH_MISMATCH"
            assert far.post("/v1/authorize", stale, status=503)["code"] == "OFFSET_NOT_AVAILABLE"
            acknowledged(far, "after-restore")
            # Now a service on yet another store has the address.
            elsewhere = service.create(acl("elsewhere"))["token"]
            way.lead_to(service.url)
            wait_until(lambda: far.authorize("User:alice", action("elsewhere")) == ALLOWED, "the other store's ACLs")
            assert far.authorize("User:alice", action("kept"), at_least=elsewhere) == DENIED


def position_is_refused(service: Process, token: str) -> str | None:
    """The code by which a follower's position is refused; None: the stream begins."""
    path, headers = f"/v1/watch?after={token}", {"Klamm-Epochs": "1", "Klamm-Followers": "a-test"}
    with service.http.stream("GET", path, headers=headers) as reply:
        if reply.is_success:
            return None
        return str(json.loads(reply.read())["code"])


def test_a_store_that_is_put_back_while_only_followers_run_is_told_through_the_chain(store: Store) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with ExitStack() as stack:
        root = stack.enter_context(over_socket("--port", port, settings={"KLAMM_DATABASE_URL": store.dsn}))
        near = stack.enter_context(follower_of(root.ready().url)).ready()
        far = stack.enter_context(follower_of(near.url)).ready()
        held = far.create(acl("revoked"))["token"]
        statements(store.dsn, 'CREATE DATABASE "{0}_copy" TEMPLATE "{0}"')
        acknowledged(root, "another")
        gone = far.delete({"resource_name": "revoked"})["token"]
        beyond = f"{gone.partition(':')[0]}:{int(gone.partition(':')[2]) + 5}"
        assert near.authorize("User:alice", action("revoked"), at_least=gone) == DENIED
        root.stop(signal.SIGKILL)
        # Nobody can tell now; what they hold themselves they go on to show.
        for each in (near, far):
            wait_until(partial(is_refused_as, each, beyond, "STORE_UNAVAILABLE"), "nobody can tell")
            assert position_is_refused(each, gone) is None
        restored = ('ALTER DATABASE "{0}" RENAME TO "{0}_lost"', 'ALTER DATABASE "{0}_copy" RENAME TO "{0}"')
        statements(store.dsn, *restored)
        again = stack.enter_context(over_socket("--port", port, settings={"KLAMM_DATABASE_URL": store.dsn})).ready()
        body = {"context": context("User:alice"), "actions": [action("revoked")]}
        asked = {**body, "at_least": gone}

        def are_back() -> bool:
            for each in (again, near, far):
                reply = each.http.post("/v1/authorize", json=asked)
                # INVARIANT: whoever was told of the delete is never answered as if it had not been.
                assert reply.status_code in (409, 503) or reply.json()["results"] == DENIED, reply.text
            return all(each.authorize("User:alice", action("revoked")) == ALLOWED for each in (near, far))

        wait_until(are_back, "the followers follow the store as it is now")
        for each in (again, near, far):
            assert position_is_refused(each, gone) == "TOKEN_EPOCH_MISMATCH"
            assert position_is_refused(each, held) is None
            assert each.authorize("User:alice", action("revoked"), at_least=held) == ALLOWED
        assert (near.metric("klamm_image_loads_total"), far.metric("klamm_image_loads_total")) == (2, 2)


def is_refused_as(service: Process, token: str, code: str) -> bool:
    return position_is_refused(service, token) == code


def acknowledged(service: Process, name: str) -> str:
    """The token of an update that is repeated until it is made."""
    tokens: list[str] = []

    def made() -> bool:
        reply = service.http.post("/v1/acls", json={"context": context(), "bindings": [acl(name)]})
        tokens.extend([reply.json()["token"]] if reply.is_success else [])
        return reply.is_success

    wait_until(made, f"the update of {name}")
    return tokens[0]


def statements(dsn: str, *statements: str) -> None:
    """Of somebody who may disconnect everybody from the store; `{0}` is its name."""

    async def execute() -> None:
        server, _, name = dsn.rpartition("/")
        connection = await asyncpg.connect(f"{server}/postgres", timeout=30)
        try:
            for each in statements:
                await retried(connection, name, each.format(name))
        finally:
            await connection.close()

    run(execute())


async def retried(connection: asyncpg.Connection, name: str, statement: str) -> None:
    for _ in range(100):
        with suppress(asyncpg.ObjectInUseError):
            await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
            await connection.execute(statement)
            return
    raise AssertionError(f"somebody was always connected: {statement}")


def test_the_next_url_is_followed_when_one_drains(service: Process) -> None:
    with follower_of(service.url, KLAMM_DRAIN_MS="300000") as one, follower_of(one.ready().url, service.url) as near:
        near.ready()
        one.process.send_signal(signal.SIGTERM)
        wait_until(lambda: any(service.url in each and "upstream_followed" in each for each in near.lines), "the next")
        token = near.create(acl("through-the-next"))["token"]
        assert service.authorize("User:alice", action("through-the-next"), at_least=token) == ALLOWED
        one.process.send_signal(signal.SIGTERM)


def test_who_would_follow_itself_is_refused_with_one_sentence() -> None:
    ports = []
    with ExitStack() as probes:
        for _ in range(2):
            probe = probes.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(str(probe.getsockname()[1]))
    one, other = (f"http://127.0.0.1:{port}" for port in ports)
    with (
        over_socket("--port", ports[0], "--upstream", other) as first,
        over_socket("--port", ports[1], "--upstream", one) as second,
    ):
        for each in (first, second):
            wait_until(partial(says_that_it_would_follow_itself, each), "it says so")
            assert each.http.get("/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE


def says_that_it_would_follow_itself(service: Process) -> bool:
    return "would follow itself" in service.http.get("/readyz?verbose").text


def test_without_its_upstream_a_follower_answers_super_users_only() -> None:
    with follower_of("http://127.0.0.1:9") as near:
        assert near.authorize("User:admin", action("x")) == ALLOWED
        asked = {"context": context("User:alice"), "actions": [action("x")]}
        assert near.post("/v1/authorize", asked, status=503)["code"] == "AUTHORIZER_NOT_READY"
        assert near.http.get("/livez").status_code == httpx.codes.OK
        assert near.http.get("/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE
        wait_until(lambda: "can't be reached (connection refused)" in near.http.get("/readyz?verbose").text, "why")


@pytest.fixture
def guarded(tmp_path: Path, migrated_database_url: str) -> Iterator[tuple[Process, dict[str, str]]]:
    (tmp_path / "klamm.toml").write_text(
        'tokens.file = "klamm.tokens"\n[callers.reader]\nrole = "follow"\n'
        '[callers.sidecar]\nrole = "follow"\nprincipals = ["User:orders-*"]\n'
        '[callers.broker]\nrole = "follow"\nprincipals = ["User:*"]\nmay_assert_super = true\n'
    )
    names = ("reader", "sidecar", "broker")
    tokens = {name: plant(add_token(tmp_path / "klamm.tokens", name, names)) for name in names}
    with over_socket(settings={"KLAMM_DATABASE_URL": migrated_database_url}, folder=tmp_path) as service:
        yield service.ready(), tokens


def test_the_upstream_asks_who_the_follower_is_and_for_whom_it_may_speak(
    guarded: tuple[Process, dict[str, str]], tmp_path: Path
) -> None:
    root, tokens = guarded
    token_file = tmp_path / "upstream.token"
    token_file.write_text("klamm_wrong\n")
    token_file.chmod(0o600)
    with follower_of(root.url, KLAMM_UPSTREAM_TOKEN_FILE=str(token_file)) as near:
        wait_until(
            lambda: "does not accept this follower's credentials" in near.http.get("/readyz?verbose").text, "why"
        )
        assert near.http.get("/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE
        token_file.write_text(f"{tokens['reader']}\n")
        near.ready()
        body = {"context": context(), "bindings": [acl("x")]}
        refused = near.post("/v1/acls", body, status=403)
        assert "`reader` may not speak for the principal" in refused["detail"]
        token_file.write_text(f"{tokens['sidecar']}\n")
        assert "`sidecar` may not speak" in near.post("/v1/acls", body, status=403)["detail"]
        token_file.write_text(f"{tokens['broker']}\n")
        right = acl("kafka-cluster", "User:orders-admin", "ALTER", resource_type="CLUSTER", host="10.1.2.3")
        near.create(right)
        token_file.write_text(f"{tokens['sidecar']}\n")
        for address, status in (("10.1.2.3", 200), ("10.1.2.4", 403)):
            mine = {"context": context("User:orders-admin", address), "bindings": [acl("mine")]}
            near.post("/v1/acls", mine, status=status)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--upstream", "http://127.0.0.1:9", "--data-dir", "x"], "`upstream.urls` and `data.dir`"),
        (["serve", "--upstream", "klamm.internal"], "--upstream: `klamm.internal` is not an address"),
        (["serve", "--upstream", "http://a:b@127.0.0.1:9"], "must not contain a name or password"),
        (["migrate"], "a follower has no database"),
        (["import", "examples/acls.json"], "a follower has no database"),
    ],
)
def test_what_needs_the_database_is_refused_where_there_is_none(arguments: list[str], words: str) -> None:
    environment = {
        **without_ours(),
        **({} if arguments[0] == "serve" else {"KLAMM_UPSTREAM_URLS": "http://127.0.0.1:9"}),
    }
    command = [str(Path(sys.executable).with_name("klamm")), *arguments]
    run_ = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert run_.returncode == 2, run_
    assert words in run_.stderr


def test_each_worker_follows_by_itself(service: Process) -> None:
    with over_socket("--upstream", service.url, "--workers", "2") as near:
        near.ready()
        for number in range(10):
            token = near.create(acl(f"by-a-worker-{number}"))["token"]
            for _ in range(5):
                assert near.authorize("User:alice", action(f"by-a-worker-{number}"), at_least=token) == ALLOWED


def test_the_past_is_asked_of_who_has_the_records(chain: Chain) -> None:
    there = chain.far.create(acl("of-old"), comment="T-2")["token"]
    gone = chain.root.delete({"resource_name": "of-old"})["token"]
    for each in chain:
        body = {"context": context(), "filter": {"resource_name": "of-old"}, "at_least": gone}
        assert [acl["resource_name"] for acl in each.post("/v1/acls/search", {**body, "at": there})["acls"]] == [
            "of-old"
        ]
        assert each.post("/v1/acls/search", body)["acls"] == []
        changes = each.post("/v1/history", body)["changes"]
        assert [(change["change"], change["comment"]) for change in changes] == [("DELETED", None), ("CREATED", "T-2")]
        asked = {"context": context("User:alice"), "actions": [action("of-old")]}
        (explained,) = each.post("/v1/explain", {**asked, "at": there})["results"]
        assert explained["result"] == "ALLOWED"
        body = {"context": context(), "filter": {}, "at": f"{there.partition(':')[0]}:0"}
        assert each.post("/v1/acls/search", body)["acls"] == []
        for wrong, status in (("2999-01-01T00:00:00Z", 400), (f"{there[:-1]}999999", 503)):
            assert each.post("/v1/acls/search", {**body, "at": wrong}, status=status)["code"]
    nobody = {"context": context("User:nobody"), "at": there, "filter": {}}
    assert chain.far.post("/v1/acls/search", nobody, status=403) == chain.root.post(
        "/v1/acls/search", nobody, status=403
    )
