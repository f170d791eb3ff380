"""`klamm serve` on the embedded PostgreSQL, as a process: what it says, and what is left when it is gone."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.klamm import ROOT, SUPER_USER, acl, over_socket, wait_until
from tests.planted import hear
from tests.surroundings import without_ours

KLAMM = str(Path(sys.executable).with_name("klamm"))


def _refused(*arguments: str) -> str:
    """What a `klamm serve` says that does not come up."""
    clean = without_ours()
    done = subprocess.run(
        [KLAMM, "serve", *arguments], env=clean, capture_output=True, text=True, check=False, timeout=120
    )
    hear(f"{done.stdout}\n{done.stderr}")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def _server_of(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_of_it_and_a_restart_has_all_acls(tmp_path: Path, signum: signal.Signals) -> None:
    data_dir = tmp_path / "my data"
    with over_socket("--data-dir", str(data_dir), initialises=True) as service:
        service.ready().create(acl("orders"))
        server = _server_of(data_dir)
        assert service.stop(signum) == 0
    assert _is_gone(server)
    with over_socket("--data-dir", str(data_dir)) as service:
        assert service.ready().authorize("User:alice", {**_read("orders")}) == ["ALLOWED"]


def _read(name: str) -> dict[str, str]:
    return {"operation": "READ", "resource_type": "TOPIC", "resource_name": name}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux sends the death signal")
def test_sigkill_leaves_no_server_behind_and_a_restart_has_all_acls(tmp_path: Path) -> None:
    with over_socket("--data-dir", str(tmp_path / "data")) as service:
        service.ready().create(acl("orders"))
        server = _server_of(tmp_path / "data")
        service.stop(signal.SIGKILL)
        with over_socket("--data-dir", str(tmp_path / "data")) as again:
            assert _is_gone(server)
            assert again.ready().authorize("User:alice", _read("orders")) == ["ALLOWED"]


def test_a_second_serve_on_the_folder_is_told_who_holds_it(tmp_path: Path) -> None:
    with over_socket("--data-dir", str(tmp_path / "data")) as service:
        told = _refused("--port", "0", "--data-dir", str(tmp_path / "data"))
        assert f"in use by the Klamm process {service.process.pid};" in told
        service.ready()


def test_a_port_that_is_taken_is_told_before_a_database_is_made(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        told = _refused("--port", str(port), "--data-dir", str(tmp_path / "data"))
    assert told == (
        f"klamm serve: can't serve on 127.0.0.1 port {port} (Address already in use); "
        "choose another with --host and --port (KLAMM_HOST, KLAMM_PORT)"
    )
    assert not (tmp_path / "data").exists()


def test_nobody_is_served_where_the_database_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")
    uds = tmp_path / "klamm.sock"
    assert "no folder" not in _refused("--uds", str(uds), "--data-dir", str(tmp_path / "data"))
    assert not uds.exists()


def test_the_database_server_is_started_again_if_it_crashes(tmp_path: Path) -> None:
    with over_socket("--data-dir", str(tmp_path / "data")) as service:
        service.ready()
        crashed = _server_of(tmp_path / "data")
        os.kill(crashed, signal.SIGKILL)
        body = {"context": {"principal": SUPER_USER, "client_address": "127.0.0.1"}, "bindings": [acl("orders")]}
        wait_until(lambda: service.http.post("/v1/acls", json=body).status_code == 200, "ACLs can be created again")
        assert _server_of(tmp_path / "data") != crashed
        assert any("embedded_postgres_ended" in line for line in service.lines)


def test_the_example_is_loaded_once_and_shown_each_time(tmp_path: Path) -> None:
    arguments = ["--data-dir", str(tmp_path / "data"), "--example", str(ROOT / "examples" / "acls.json")]
    with over_socket(*arguments, initialises=True) as service:
        wait_until(lambda: any(line.startswith("Loaded 348 ACLs") for line in service.lines), "the example is loaded")
    with over_socket(*arguments) as service:
        wait_until(lambda: any(line.startswith("The store holds 348") for line in service.lines), "it is told")
        wait_until(lambda: sum("curl -s " in line for line in service.lines) == 3, "three decisions are shown")


def test_an_example_that_may_not_be_loaded_is_told_and_serving_goes_on(tmp_path: Path) -> None:
    arguments = ["--data-dir", str(tmp_path / "data"), "--example", str(ROOT / "examples" / "acls.json")]
    with over_socket(*arguments, settings={"KLAMM_SUPER_USERS": "User:nobody"}) as service:
        told = "klamm serve: --example: /v1/acls answered 403: "
        wait_until(lambda: any(line.startswith(told) for line in service.lines), "why it is not loaded")
        service.ready()
