"""The end of a `klamm serve` on embedded PostgreSQL, by whatever signal: nothing is left running, nothing is lost."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.klamm import LIMIT_S, ROOT, VARIABLES, Json, Process, acl, action, context, over_socket, wait_until
from tests.planted import hear, plant_of_folder
from tests.postgres import Frozen, processes_in
from tests.proof.e2e.asking import Asking
from tests.surroundings import without_ours

QUESTION: Json = {"context": context("User:alice"), "actions": [action("orders"), action("payments")]}
ANSWER = ["ALLOWED", "DENIED"]


def serve(folder: Path) -> Process:
    return over_socket("--data-dir", str(folder))


def nothing_runs(folder: Path) -> None:
    wait_until(lambda: processes_in(folder) == [], "no process of PostgreSQL is left")


class Writers:
    """Clients that create ACLs until the service is gone; `acknowledged` holds the topics whose ACLs were."""

    def __init__(self, service: Process, threads: int = 4) -> None:
        self.acknowledged: list[str] = []
        self._url = service.url
        self._names = count()
        self._threads = [threading.Thread(target=self._write) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(LIMIT_S)

    def _write(self) -> None:
        with httpx.Client(base_url=self._url, timeout=LIMIT_S) as http:
            while True:
                name = f"topic-{next(self._names)}"
                try:
                    reply = http.post("/v1/acls", json={"context": context(), "bindings": [acl(name)]})
                except httpx.TransportError:
                    return
                if reply.status_code == httpx.codes.OK:
                    self.acknowledged.append(name)
                else:
                    assert reply.json()["code"] in ("STORE_UNAVAILABLE", "REQUEST_TIMED_OUT"), reply.text


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP])
def test_a_signal_ends_postgresql_too_and_what_was_acknowledged_is_there_after_the_restart(
    folder: Path, sig: signal.Signals
) -> None:
    first = serve(folder).ready()
    assert len(processes_in(folder)) > 3
    writers = Writers(first)
    wait_until(lambda: len(writers.acknowledged) > 50, "updates flow")
    code = first.stop(sig)
    nothing_runs(folder)
    writers.join()
    assert code == (0 if sig in (signal.SIGTERM, signal.SIGINT) else -sig)
    with serve(folder) as second:
        second.ready()
        found = {acl["resource_name"] for acl in second.acls()}
        assert set(writers.acknowledged) <= found
        assert second.authorize("User:alice", action(writers.acknowledged[-1])) == ["ALLOWED"]
        # At most what was in flight at the end may be there without having been acknowledged.
        assert len(found - set(writers.acknowledged)) <= 4
        assert second.create(acl("after"))["results"][0]["created"]
    nothing_runs(folder)


def test_sigterm_lets_every_request_end(folder: Path) -> None:
    service = serve(folder).ready()
    service.create(acl("orders"))
    with Asking(service, QUESTION, ANSWER, threads=4) as asking:
        wait_until(lambda: asking.answers > 100, "answers flow")
        assert service.stop() == 0
    # A client may find the door closed; no answer that did come was wrong.
    assert [fault for fault in asking.wrong if fault[0].isdecimal()] == []


def test_connections_that_idle_or_never_finish_their_request_do_not_keep_the_process(folder: Path) -> None:
    service = serve(folder).ready()
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as silent, socket.create_connection((host, int(port))) as half:
        half.sendall(
            b"POST /v1/acls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        assert service.stop() == 0
        assert silent.recv(1) == b""
    nothing_runs(folder)


def test_a_second_process_on_the_same_folder_is_told_who_holds_it(folder: Path) -> None:
    with serve(folder) as first:
        first.ready()
        second = klamm_serve(folder)
        said, _ = second.communicate(timeout=LIMIT_S)
        hear(said)
        assert second.returncode == 2
        assert f"in use by the Klamm process {first.process.pid}" in said
        assert "Traceback" not in said
        assert first.create(acl("orders"))["results"][0]["created"]


def klamm_serve(folder: Path) -> subprocess.Popen[str]:
    """The bare process, from its very first moment on."""
    clean = without_ours()
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("klamm")), "serve", "--port", "0", "--data-dir", str(folder)],
        cwd=ROOT,
        env={**clean, **VARIABLES},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_in_the_middle_of_the_start_leaves_nothing_running_and_a_folder_to_start_from(
    folder: Path, sig: signal.Signals
) -> None:
    codes = set()
    for delay_s in (0.3, 0.6, 0.75, 0.9, 1.05, 1.2):
        starting = klamm_serve(folder)
        time.sleep(delay_s)
        starting.send_signal(sig)
        said, _ = starting.communicate(timeout=LIMIT_S)
        hear(said)
        plant_of_folder(folder)
        codes.add(starting.returncode)
        assert "Traceback" not in said, said
        nothing_runs(folder)
    # The handler is there only once Python has loaded it.
    assert codes <= {0, -sig}
    with serve(folder) as service:
        service.ready().create(acl("orders"))
        assert service.post("/v1/authorize", QUESTION)["results"] == ANSWER


def test_sigterm_ends_a_postgresql_that_stands_still(tmp_path: Path) -> None:
    """One's postmaster is frozen, the other's backends are; they are ended at the same time, as it takes a while."""
    folders = [tmp_path / "postmaster", tmp_path / "backends"]
    services = [serve(folder).ready() for folder in folders]
    tokens = [service.create(acl("orders"))["token"] for service in services]
    postmasters = [postmaster_of(folder) for folder in folders]
    backends = [process for process in processes_in(folders[1]) if process != postmasters[1]]
    with Frozen([postmasters[0], *backends]):
        for service in services:
            service.process.send_signal(signal.SIGTERM)
        assert [service.stop() for service in services] == [0, 0]
        nothing_runs(tmp_path)
    for folder, token in zip(folders, tokens, strict=True):
        with serve(folder) as again:
            assert again.ready().authorize("User:alice", action("orders"), at_least=token) == ["ALLOWED"]


def test_impatience_does_not_leave_postgresql_behind(folder: Path) -> None:
    service = serve(folder).ready()
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as half:
        half.sendall(
            b"POST /v1/acls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            service.process.send_signal(sig)
            time.sleep(0.1)
        assert service.stop() == 0
    nothing_runs(folder)


@pytest.mark.parametrize("killed", ["all of it", "the postmaster", "a backend"])
def test_a_postgresql_that_dies_is_started_again(folder: Path, killed: str) -> None:
    with serve(folder) as service:
        service.ready().create(acl("orders"))
        [*backends, postmaster] = sorted(processes_in(folder), key=postmaster_of(folder).__eq__)
        doomed = {"all of it": [postmaster, *backends], "the postmaster": [postmaster], "a backend": backends[-1:]}
        with Asking(service, QUESTION, ANSWER) as asking:
            for process in doomed[killed]:
                # Backends end by themselves once the postmaster is gone.
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            wait_until(lambda: service.http.post("/v1/acls", json=another()).is_success, "updates flow again")
            wait_until(lambda: service.http.get("/readyz").text == "ok", "current again")
        assert asking.wrong == []
        assert {acl["resource_name"] for acl in service.acls()} == {"orders", "another"}
    nothing_runs(folder)


def postmaster_of(folder: Path) -> int:
    return int((folder / "postgres" / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])


def another() -> Json:
    return {"context": context(), "bindings": [acl("another")], "timeout_ms": 1000}


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    """Each of these names is in one path: whatever is wrong with one of them is wrong with the path."""
    names = ["a b", "it's", "100%", "%s", "\u00e9\u65e5", "new\nline", "-D", "back\\slash", "x" * 200]
    with over_socket("--data-dir", str(tmp_path.joinpath(*names, "data")), initialises=True) as service:
        assert service.ready().create(acl("orders"))["results"][0]["created"]
    nothing_runs(tmp_path)
