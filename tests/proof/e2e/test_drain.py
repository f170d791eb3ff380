"""SIGTERM: readiness says so at once, everything is served on for the drain time, and what is in flight then ends.

Where a test wants to look at a service that drains, the drain time is longer than the test may take: so what ends it is
what the test does, never the clock.
"""

import json
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.klamm import LIMIT_S, Json, Process, acl, action, context, over_socket, replica, wait_until
from tests.postgres import Store, processes_in
from tests.proof.e2e.asking import Asking
from tests.proof.e2e.workers import (
    Group,
    Probing,
    connections,
    holder_of,
    is_there,
    kill,
    metrics,
    pids,
    ready,
    service_of,
    starts,
)

# These stories need a process of their own, the others are in cli/test_server.py and process of tests/gate/unit.
_ONE_OR_TWO = pytest.mark.parametrize("count", [1, 2])

FOR_EVER = {"KLAMM_DRAIN_MS": "300000"}
A_MOMENT = {"KLAMM_DRAIN_MS": "300"}
QUESTION: Json = {"context": context("User:alice"), "actions": [action("orders"), action("payments")]}
ANSWER = ["ALLOWED", "DENIED"]


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def served(request: pytest.FixtureRequest, folder: Path) -> Iterator[Process]:
    """A service on an embedded PostgreSQL that knows an ACL, and drains for ever."""
    with over_socket("--workers", str(request.param), "--data-dir", str(folder), settings=FOR_EVER) as service:
        ready(service, 2) if request.param == 2 else service.ready()
        service.create(acl("orders"))
        yield service


def told_to_drain(service: Process) -> float:
    """Seconds from SIGTERM to the first probe that says so, each over a new connection."""
    began_at = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    wait_until(lambda: probe(service) == httpx.codes.SERVICE_UNAVAILABLE, "it is not ready any more")
    return time.monotonic() - began_at


def probe(service: Process, path: str = "/readyz") -> int:
    return httpx.get(f"{service.url}{path}", timeout=LIMIT_S).status_code


def asked(client: httpx.Client) -> httpx.Response:
    return client.post("/v1/authorize", json=QUESTION)


def address_of(service: Process) -> tuple[str, int]:
    host, port = service.url.removeprefix("http://").split(":")
    return host, int(port)


def is_refused(service: Process) -> bool:
    """Whether nobody listens any more."""
    try:
        socket.create_connection(address_of(service), timeout=LIMIT_S).close()
    except ConnectionRefusedError:
        return True
    return False


def test_readiness_ends_at_once_and_everything_is_answered_on(served: Process, folder: Path) -> None:
    with connections(served, 8) as kept:
        for client in kept:
            assert asked(client).headers["connection"] == "keep-alive"
        print(f"not ready {told_to_drain(served) * 1000:.0f} ms after SIGTERM")
        for _ in range(8):
            text = httpx.get(f"{served.url}/readyz", timeout=LIMIT_S).text
            assert "[-]shutdown failed: draining" in text
            assert probe(served, "/readyz/EXTERNAL") == httpx.codes.SERVICE_UNAVAILABLE
            assert probe(served, "/livez") == httpx.codes.OK
        for client in kept:
            reply = asked(client)
            assert reply.json()["results"] == ANSWER
            assert reply.headers["connection"] == "close"
            assert client.get("/livez").headers["connection"] == "close"
            assert client.post("/v1/authorize", json={}).headers["connection"] == "close"
        with connections(served, 8) as newcomers:
            for number, client in enumerate(newcomers):
                created = client.post("/v1/acls", json={"context": context(), "bindings": [acl(f"t{number}")]})
                assert created.json()["results"][0]["created"]
                question = {
                    "context": context("User:alice"),
                    "actions": [action(f"t{number}")],
                    "at_least": created.json()["token"],
                }
                assert client.post("/v1/authorize", json=question).json()["results"] == ["ALLOWED"]
    states = [name for name, value in metrics(served).items() if name.startswith("klamm_readiness_state") and value]
    assert states
    assert all('state="DRAINING"' in state for state in states)
    assert served.process.poll() is None
    assert served.stop() == 0
    ended_in_order(served, folder)


def ended_in_order(service: Process, folder: Path) -> None:
    """PostgreSQL last of all, and nothing is left."""
    assert service.lines[-1].endswith("embedded_postgres_stopped")
    assert processes_in(folder) == []
    assert not any(is_there(pid) for _, pid in starts(service))
    assert [line for line in service.lines if " ERROR " in line or " WARN" in line or "Traceback" in line] == []


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_drain_time(served: Process, folder: Path, sig: signal.Signals) -> None:
    told_to_drain(served)
    assert served.stop(sig) == 0
    ended_in_order(served, folder)


def test_ctrl_c_does_not_drain(served: Process, folder: Path) -> None:
    assert served.stop(signal.SIGINT) == 0
    assert not any(" draining " in line for line in served.lines)
    ended_in_order(served, folder)


@_ONE_OR_TWO
def test_updates_and_decisions_flow_until_the_socket_closes(folder: Path, count: int) -> None:
    variables = {"KLAMM_DRAIN_MS": "1500"}
    acknowledged: list[str] = []
    broken: list[str] = []
    with over_socket("--workers", str(count), "--data-dir", str(folder), settings=variables) as service:
        ready(service, 2) if count == 2 else service.ready()
        service.create(acl("orders"))

        def write(writer: int) -> None:
            with httpx.Client(base_url=service.url, timeout=LIMIT_S) as http:
                for number in range(100_000):
                    name = f"topic-{writer}-{number}"
                    try:
                        reply = http.post("/v1/acls", json={"context": context(), "bindings": [acl(name)]})
                    except httpx.ConnectError:
                        return
                    except httpx.TransportError as fault:
                        if not is_refused(service):
                            broken.append(repr(fault))
                        return
                    assert reply.status_code == httpx.codes.OK, reply.text
                    acknowledged.append(name)

        with ThreadPoolExecutor(3) as pool, Asking(service, QUESTION, ANSWER, threads=2) as asking:
            writers = [pool.submit(write, writer) for writer in range(3)]
            wait_until(lambda: len(acknowledged) > 20, "updates flow")
            began_at, written = time.monotonic(), len(acknowledged)
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(LIMIT_S) == 0
            took_s = time.monotonic() - began_at
            for writer in writers:
                writer.result()
        print(f"ended {took_s:.2f} s after SIGTERM; {len(acknowledged) - written} updates meanwhile")
        assert took_s >= 1.5
        assert len(acknowledged) > written
        # Clients that don't follow readiness are refused in the end, or reset if they connected as the socket closed:
        # once for each thread, and whoever tries again is refused. No answer was lost or wrong.
        assert broken == []
        faults = [fault.partition("(")[0] for fault in asking.wrong]
        assert set(faults) <= {"ConnectError", "ReadError"}
        assert faults.count("ReadError") <= 2
        assert service.stop() == 0
        ended_in_order(service, folder)
    with over_socket("--data-dir", str(folder)) as again:
        assert set(acknowledged) <= {acl["resource_name"] for acl in again.ready().acls()}


@_ONE_OR_TWO
def test_a_request_that_waits_when_the_drain_time_is_over_is_answered(store: Store, count: int) -> None:
    variables = {**A_MOMENT, "KLAMM_REQUEST_TIMEOUT_MS": "9000"}
    with replica(store.dsn) as other, service_of(count, store.dsn, **variables) as service:
        ready(service, 2) if count == 2 else service.ready()
        token = other.ready().create(acl("payments"))["token"]
        epoch, _, offset = token.rpartition(":")
        with ThreadPoolExecutor(1) as pool:
            question = {**QUESTION, "at_least": f"{epoch}:{int(offset) + 1}"}
            answer = pool.submit(httpx.post, f"{service.url}/v1/authorize", json=question, timeout=LIMIT_S)
            wait_until(lambda: waiting_in(service) == 1, "it waits")
            service.process.send_signal(signal.SIGTERM)
            wait_until(lambda: is_refused(service), "nobody listens any more")
            other.create(acl("orders"))
            assert answer.result().json()["results"] == ["ALLOWED", "ALLOWED"]
        assert service.stop() == 0


def waiting_in(service: Process) -> float:
    found = metrics(service)
    return sum(value for name, value in found.items() if name.startswith("klamm_purgatory_num_delayed_operations"))


@_ONE_OR_TWO
@pytest.mark.parametrize("part", ["line", "head", "body"])
def test_a_request_that_is_half_received_when_the_drain_time_is_over_is_answered(
    store: Store, count: int, part: str
) -> None:
    body = json.dumps({"context": context(), "bindings": [acl("orders")]}).encode()
    head = (
        b"POST /v1/acls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(body)
    )
    whole = head + body
    cut = {"line": 5, "head": len(head) - 10, "body": len(head) + 20}[part]
    with service_of(count, store.dsn, **A_MOMENT) as service:
        ready(service, 2) if count == 2 else service.ready()
        address = address_of(service)
        with (
            socket.create_connection(address, timeout=LIMIT_S) as idle,
            socket.create_connection(address, timeout=LIMIT_S) as half,
        ):
            idle.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(65_536).endswith(b"ok")
            half.sendall(whole[:cut])
            service.process.send_signal(signal.SIGTERM)
            wait_until(lambda: is_refused(service), "nobody listens any more")
            assert idle.recv(1) == b""
            half.sendall(whole[cut:])
            reply = half.makefile("rb").read()
        assert reply.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in reply.lower()
        assert b'"created":true' in reply
        assert service.stop() == 0


def test_a_broker_that_waits_to_start_is_answered_at_once_as_it_waits_in_vain(closed: Store) -> None:
    endpoint = {"listener_name": "EXTERNAL", "security_protocol": "SSL", "host": "k", "port": 9093}
    with replica(closed.dsn, **FOR_EVER) as service, ThreadPoolExecutor(1) as pool:
        body = {"broker_id": 1, "endpoints": [endpoint], "wait_ms": 300_000}
        answer = pool.submit(httpx.post, f"{service.url}/v1/start", json=body, timeout=LIMIT_S)
        wait_until(lambda: "listener/EXTERNAL" in service.http.get("/readyz").text, "it waits")
        service.process.send_signal(signal.SIGTERM)
        reply = answer.result()
        assert reply.status_code == httpx.codes.OK
        assert reply.json()["listeners"] == [{"listener_name": "EXTERNAL", "ready": False}]
        assert service.stop() == 0


def test_workers_take_connections_until_all_drain_time_is_over_and_none_is_started_again(store: Store) -> None:
    with ready(service_of(2, store.dsn, **FOR_EVER), 2) as service:
        told_to_drain(service)
        # Which of them takes a burst is up to the system, and one may take all of it.
        wait_until(lambda: takers(service) == {1, 2}, "both take connections")
        kill(pids(service)[1])
        wait_until(lambda: not is_there(pids(service)[1]), "it is gone")
        assert takers(service) == {2}
        assert probe(service) == httpx.codes.SERVICE_UNAVAILABLE
        # Its next start would have been due by now, as the other one has been asked for more than once.
        time.sleep(1)
        assert len(starts(service)) == 2
        kill(pids(service)[2])
        assert service.process.wait(LIMIT_S) == 0


def takers(service: Process) -> set[int | None]:
    """The workers that take new connections."""
    with ExitStack() as stack:
        streams = [stack.enter_context(socket.create_connection(address_of(service))) for _ in range(16)]
        ports = [stream.getsockname()[1] for stream in streams]
        wait_until(lambda: None not in {holder_of(port, service) for port in ports}, "all are taken")
        return {holder_of(port, service) for port in ports}


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_workers_that_are_sent_the_signal_as_well_end_as_one(store: Store, sig: signal.Signals) -> None:
    """Whoever minds a group of processes, as systemd does, sends SIGTERM to all of them: that is one, not two."""
    with Group(["--workers", "2"], {"KLAMM_DATABASE_URL": store.dsn, **FOR_EVER}) as group:
        url = group.address()
        wait_until(lambda: httpx.get(f"{url}/readyz").status_code == httpx.codes.OK, "ready")
        group.send(sig)
        if sig is signal.SIGTERM:
            group.wait_for(" draining ", times=3)
            for pid in group.workers():
                kill(pid, sig)
            until = time.monotonic() + 1.5
            while time.monotonic() < until:
                assert httpx.get(f"{url}/livez").text == "ok"
            assert httpx.get(f"{url}/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE
            group.send(sig)
        code, said = group.end()
    assert code == 0
    assert said.count(" draining ") == (3 if sig is signal.SIGTERM else 0)
    assert "Traceback" not in said
    assert "worker_ended" not in said


def test_a_worker_that_is_ended_alone_does_not_make_the_others_drain(store: Store) -> None:
    with ready(service_of(2, store.dsn, **FOR_EVER), 2) as service:
        with Probing(service) as probing:
            kill(pids(service)[2], signal.SIGTERM)
            wait_until(lambda: len(starts(service)) == 3, "it is started again")
            ready(service, 2)
        assert probing.refusals == []
        assert probing.answers > 0
        assert any(re.search(r"worker_ended worker=2 .*exit code 0", line) for line in service.lines)
        assert service.stop(signal.SIGINT) == 0


@pytest.mark.parametrize("count", [1, 2])
def test_a_unix_socket_is_served_on_too(store: Store, tmp_path: Path, count: int) -> None:
    path = tmp_path / "klamm.sock"

    def over_it(ask: Callable[[httpx.Client], int]) -> int:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://klamm") as client:
            return ask(client)

    def ready_state() -> int:
        return over_it(lambda client: client.get("/readyz").status_code)

    with service_of(count, store.dsn, ["--uds", str(path)], **FOR_EVER) as service:
        wait_until(lambda: ready_state() == httpx.codes.OK, "ready")
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: ready_state() == httpx.codes.SERVICE_UNAVAILABLE, "it is not ready any more")
        for _ in range(4):
            assert over_it(lambda client: asked(client).status_code) == httpx.codes.OK
        assert service.stop() == 0
    assert not path.exists()
