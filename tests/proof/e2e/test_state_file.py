"""A service that starts while its PostgreSQL is away, from the file that it has kept."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.klamm import Process, acl, action, context, over_socket, replica, wait_until
from tests.postgres import Store, sql
from tests.proof.e2e.probes import status, verbose
from tests.proof.e2e.workers import ready, service_of

TABLES = ("acl", "config", "acl_record", "acl_head")


def kept(service: Process, folder: Path, name: str) -> None:
    """Wait until the ACL with this resource name is in the file."""
    file = folder / "image.ndjson"
    wait_until(lambda: file.exists() and f'"{name}"'.encode() in file.read_bytes(), f"{name} is kept")
    assert file.stat().st_mode & 0o777 == 0o600
    assert status(service, "/readyz") == 200


@contextmanager
def away(store: Store) -> Iterator[None]:
    store.server.stop()
    try:
        yield
    finally:
        store.server.start()


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def follows(service: Process) -> None:
    wait_until(lambda: service.http.get("/readyz").text == "ok", "it follows again")
    assert service.metric("klamm_image_from_state_file") == 0


def test_a_start_without_postgresql_and_its_return(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with replica(store.dsn, KLAMM_STATE_PATH=str(folder)) as service:
        service.ready().create(acl("orders"), acl("payments", permission_type="DENY", principal="User:*"))
        service.create(acl("payments"))
        kept(service, folder, "payments")
        token = service.create(acl("late"))["token"]
        kept(service, folder, "late")
    with away(store), replica(store.dsn, KLAMM_STATE_PATH=str(folder)) as service:
        service.ready()
        assert "from the state file" in verbose(service)
        assert service.metric("klamm_image_from_state_file") == 1
        asked = action("orders"), action("payments"), action("late"), action("other")
        assert service.authorize("User:alice", *asked, at_least=token) == ["ALLOWED", "DENIED", "ALLOWED", "DENIED"]
        assert any("started_from_state_file" in line for line in service.lines)
        service.post("/v1/acls", {"context": context(), "bindings": [acl("no")]}, status=503)
        store.server.start()
        follows(service)
        assert service.metric("klamm_image_loads_total") == 0
        service.create(acl("new"))
        assert service.authorize("User:alice", action("new")) == ["ALLOWED"]


def test_workers_all_start_from_the_file_that_one_of_them_writes(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with service_of(2, store.dsn, KLAMM_STATE_PATH=str(folder)) as service:
        ready(service, 2).create(acl("orders"))
        kept(service, folder, "orders")
    with away(store), service_of(2, store.dsn, KLAMM_STATE_PATH=str(folder)) as service:
        restored = re.compile(r'^klamm_image_from_state_file{worker="\d"} 1.0$', re.MULTILINE)
        wait_until(lambda: len(restored.findall(service.http.get("/metrics").text)) == 2, "both have started")
        service.ready()
        for _ in range(20):
            assert service.authorize("User:alice", action("orders"), action("x")) == ["ALLOWED", "DENIED"]


def test_a_store_put_back_meanwhile_is_loaded_anew(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with replica(store.dsn, KLAMM_STATE_PATH=str(folder)) as service:
        token = service.ready().create(acl("orders"))["token"]
        for table in TABLES:
            sql(store.dsn, f"CREATE TABLE saved_{table} AS TABLE {table}")
        lost = service.create(acl("lost"))["token"]
        kept(service, folder, "lost")
    for table in TABLES:
        sql(store.dsn, f"TRUNCATE {table} CASCADE")
    for table in TABLES:
        sql(store.dsn, f"INSERT INTO {table} TABLE saved_{table}")
    with away(store), replica(store.dsn, KLAMM_STATE_PATH=str(folder)) as service:
        service.ready()
        assert service.authorize("User:alice", action("lost")) == ["ALLOWED"]
        store.server.start()
        follows(service)
        assert service.authorize("User:alice", action("lost"), action("orders")) == ["DENIED", "ALLOWED"]
        # A part of the file's history was lost, so the store is of another epoch now.
        asked = {"context": context(), "actions": [action("orders")], "at_least": lost}
        assert service.post("/v1/authorize", asked, status=409)["code"] == "TOKEN_EPOCH_MISMATCH"
        assert service.authorize("User:alice", action("orders"), at_least=token) == ["ALLOWED"]


def test_a_file_that_is_too_old_is_no_start(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with replica(store.dsn, KLAMM_STATE_PATH=str(folder)) as service:
        service.ready().create(acl("orders"))
        kept(service, folder, "orders")
    variables = {"KLAMM_STATE_PATH": str(folder), "KLAMM_STATE_MAX_AGE_MS": "1000"}
    with away(store), replica(store.dsn, **variables) as service:
        wait_until(lambda: any("state_file_refused" in line for line in service.lines), "the log says so")
        assert status(service, "/readyz") == 503
        assert service.metric("klamm_state_file_refusals_total") == 1
        store.server.start()
        service.ready()
        assert service.authorize("User:alice", action("orders")) == ["ALLOWED"]


def test_another_store_s_folder_is_no_start(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with replica(store.dsn, KLAMM_STATE_PATH=str(folder)) as service:
        service.ready().create(acl("orders"))
        kept(service, folder, "orders")
    nobody = f"127.0.0.1:{free_port()}"
    for source in (
        {"KLAMM_DATABASE_URL": f"postgresql://klamm@{nobody}/other"},
        {"KLAMM_UPSTREAM_URLS": f"http://{nobody}"},
    ):
        with over_socket(settings={"KLAMM_STATE_PATH": str(folder), **source}) as service:
            wait_until(lambda: any("it is of another source" in line for line in service.lines), "the log says so")
            assert status(service, "/readyz") == 503
            service.post("/v1/authorize", {"context": context("User:alice"), "actions": [action("orders")]}, status=503)
    with away(store), replica(store.dsn, KLAMM_STATE_PATH=str(folder)) as service:
        assert service.ready().authorize("User:alice", action("orders")) == ["ALLOWED"]


def test_a_follower_starts_while_its_upstream_is_away_and_follows_it_again(store: Store, tmp_path: Path) -> None:
    folder, port = tmp_path / "state", free_port()
    with over_socket("--port", port, settings={"KLAMM_DATABASE_URL": store.dsn}) as root:
        root.ready().create(acl("orders"))
        with over_socket("--upstream", root.url, settings={"KLAMM_STATE_PATH": str(folder)}) as follower:
            kept(follower.ready(), folder, "orders")
        address = root.url
    with over_socket("--upstream", address, settings={"KLAMM_STATE_PATH": str(folder)}) as follower:
        follower.ready()
        assert follower.metric("klamm_image_from_state_file") == 1
        assert follower.authorize("User:alice", action("orders"), action("new")) == ["ALLOWED", "DENIED"]
        with over_socket("--port", port, settings={"KLAMM_DATABASE_URL": store.dsn}) as root:
            token = root.ready().create(acl("new"))["token"]
            assert follower.authorize("User:alice", action("new"), at_least=token) == ["ALLOWED"]
            follows(follower)
            assert follower.metric("klamm_image_loads_total") == 0


def test_a_file_sealed_with_another_key_is_no_start(store: Store, tmp_path: Path) -> None:
    folder, key = tmp_path / "state", tmp_path / "key"
    key.write_text("k" * 64)
    key.chmod(0o600)
    variables = {"KLAMM_STATE_PATH": str(folder), "KLAMM_STATE_HMAC_KEY_FILE": str(key)}
    with replica(store.dsn, **variables) as service:
        service.ready().create(acl("orders"))
        kept(service, folder, "orders")
    with away(store):
        with replica(store.dsn, **variables) as service:
            assert service.ready().authorize("User:alice", action("orders")) == ["ALLOWED"]
        key.write_text("x" * 64)
        with replica(store.dsn, **variables) as service:
            wait_until(lambda: any("state_file_refused" in line for line in service.lines), "the log says so")
            assert status(service, "/readyz") == 503
            assert (folder / "image.ndjson.refused").exists()
