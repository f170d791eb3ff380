"""A `klamm serve --workers N`, and its workers one by one."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import asyncpg
import httpx

from tests.asking_again import client_of
from tests.klamm import LIMIT_S, ROOT, VARIABLES, Json, Process, over_socket, wait_until
from tests.planted import hear, plant_password
from tests.postgres import Store
from tests.proof.e2e.repeating import Repeating
from tests.surroundings import without_ours

_SERVING = re.compile(r"serving address=(\S+)")
_STARTED = re.compile(r"worker_started worker=(\d+) pid=(\d+)")


def service_of(count: int, dsn: str, arguments: Sequence[str] = (), **variables: str) -> Process:
    """A service of so many workers on this PostgreSQL."""
    return over_socket("--workers", str(count), *arguments, settings={"KLAMM_DATABASE_URL": dsn, **variables})


def ready(service: Process, count: int) -> Process:
    """Wait until so many workers are ready, and the service with them."""
    state = re.compile(r'klamm_readiness_state{state="READY",worker="\d+"} 1.0')
    wait_until(lambda: len(state.findall(service.http.get("/metrics").text)) == count, f"{count} workers are ready")
    return service.ready()


def starts(service: Process) -> list[tuple[int, int]]:
    """Number and process id of every worker that was ever started, in that order."""
    return [(int(found[1]), int(found[2])) for line in [*service.lines] if (found := _STARTED.search(line))]


def pids(service: Process) -> dict[int, int]:
    """The process of each worker, the latest."""
    return dict(starts(service))


def is_there(pid: int) -> bool:
    """Whether this process runs, or stands still."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(pid: int, sig: signal.Signals = signal.SIGKILL) -> None:
    os.kill(pid, sig)


def metrics(service: Process) -> dict[str, float]:
    """Every sample of the page, by name and labels as they are printed; over a connection of its own."""
    pages: list[str] = []

    def comes() -> bool:
        # The supervisor, who adds up, answers in a second or not at all, on whatever machine.
        page = httpx.get(f"{service.url}/metrics", timeout=LIMIT_S)
        pages.append(page.text)
        return page.status_code == httpx.codes.OK

    wait_until(comes, "the metrics are there")
    lines = [line.rpartition(" ") for line in pages[-1].splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def by_worker(found: Mapping[str, float], name: str) -> dict[int, float]:
    """A gauge of every worker."""
    pattern = re.compile(rf'{name}{{worker="(\d+)"}}')
    return {int(hit[1]): value for each, value in found.items() if (hit := pattern.fullmatch(each))}


@contextmanager
def connections(service: Process, count: int, spread_over: int = 1) -> Iterator[list[httpx.Client]]:
    """Clients with one connection each, which they keep; more of them until so many workers have one."""
    with ExitStack() as stack:
        clients: list[httpx.Client] = []

        def are_spread() -> bool:
            clients.append(stack.enter_context(client_of(service.url)))
            assert clients[-1].get("/livez").text == "ok"
            if len(clients) < count:
                return False
            return spread_over == 1 or len({worker_of(client, service) for client in clients}) == spread_over

        wait_until(are_spread, f"{spread_over} workers have connections")
        yield clients


def worker_of(client: httpx.Client, service: Process) -> int:
    """Which worker holds this client's connection, told by the sockets that its process has open."""
    with client.stream("GET", "/livez") as reply:
        stream: socket.socket = reply.extensions["network_stream"].get_extra_info("socket")
        port = stream.getsockname()[1]
        reply.read()
    number = holder_of(port, service)
    assert number is not None, f"nobody holds the connection from port {port}"
    return number


def holder_of(port: int, service: Process) -> int | None:
    """Which worker holds the connection from this port of ours; None if none has taken it yet."""
    return next((number for number, pid in pids(service).items() if is_there(pid) and port in _peers_of(pid)), None)


def _peers_of(pid: int) -> set[int]:
    inodes = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(each.readlink()).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return {int(row[2].partition(":")[2], 16) for row in rows if row[9] in inodes}


def asked(client: httpx.Client, body: Json) -> str:
    """What comes of an authorize request: its results, or what happened instead."""
    try:
        reply = client.post("/v1/authorize", json=body)
    except httpx.TransportError as fault:
        return type(fault).__name__
    return ",".join(reply.json()["results"]) if reply.status_code == httpx.codes.OK else f"{reply.status_code}"


class Probing(Repeating):
    """Asks `/readyz` all the time, over a new connection each time; `refusals` are what was answered but for `ok`."""

    def __init__(self, service: Process) -> None:
        self.refusals: list[str] = []
        self.answers = 0
        self._url = f"{service.url}/readyz"
        super().__init__(self._probe)

    def _probe(self) -> None:
        while not self.done.wait(0.01):
            try:
                answer = httpx.get(self._url, timeout=LIMIT_S)
            except httpx.TransportError:
                continue  # the worker that was asked is the one that died
            self.answers += 1
            if answer.status_code != httpx.codes.OK:
                self.refusals.append(answer.text)


class LockedTable:
    """A table that nobody else can read, from the block's begin to its end or `release`."""

    def __init__(self, dsn: str, table: str) -> None:
        self._dsn = dsn
        self._table = table
        self._loop = asyncio.new_event_loop()
        self._connections: list[asyncpg.Connection] = []

    def __enter__(self) -> Self:
        for _ in range(2):
            self._connections.append(self._loop.run_until_complete(asyncpg.connect(self._dsn, timeout=LIMIT_S)))
        self.lock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._connections:
            self._loop.run_until_complete(each.close(timeout=LIMIT_S))
        self._loop.close()

    def lock(self) -> None:
        self._loop.run_until_complete(
            self._connections[0].execute(f"BEGIN; LOCK TABLE {self._table} IN ACCESS EXCLUSIVE MODE")
        )

    def release(self) -> None:
        self._loop.run_until_complete(self._connections[0].execute("ROLLBACK"))

    def waiting(self) -> int:
        """How many others wait for it."""
        count: int = self._loop.run_until_complete(
            self._connections[1].fetchval(
                "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass",
                self._table,
            )
        )
        return count


class Group:
    """A bare `klamm serve` in a process group of its own, as a terminal would have it."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process = _klamm_serve(arguments, environment)
        self._said: list[str] = []
        self._told = 0
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self._reader.join(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def send(self, sig: signal.Signals) -> None:
        """To all of them, as Ctrl-C does."""
        os.killpg(self.process.pid, sig)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until so many lines have this in them."""
        with self._news:
            found = self._news.wait_for(lambda: sum(text in line for line in self._said) >= times, LIMIT_S)
            assert found, self._said

    def workers(self) -> list[int]:
        """The processes of all workers so far."""
        with self._news:
            return [int(found[2]) for line in self._said if (found := _STARTED.search(line))]

    def address(self) -> str:
        """Where it serves, once it does."""
        self.wait_for("serving address=")
        with self._news:
            return next(found[1] for line in self._said if (found := _SERVING.search(line)))

    def latest_worker(self) -> int:
        """The process of the worker that was started last, one that has not been told of yet."""
        with self._news:
            assert self._news.wait_for(lambda: self._workers() > self._told, LIMIT_S), self._said
            self._told = self._workers()
            return int([found for line in self._said if (found := _STARTED.search(line))][-1][2])

    def _workers(self) -> int:
        return sum(_STARTED.search(line) is not None for line in self._said)

    def end(self) -> tuple[int, str]:
        """The exit code, and all that was said until nobody had the output open any more."""
        code = self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        return code, "".join(self._said)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            hear(line)
            with self._news:
                self._said.append(line)
                self._news.notify_all()


def refused(arguments: Sequence[str], store: Store, **variables: str) -> str:
    """What a `klamm serve` says that does not come up."""
    process = _klamm_serve(arguments, {"KLAMM_DATABASE_URL": store.dsn, **variables})
    said, _ = process.communicate(timeout=LIMIT_S)
    hear(said)
    assert process.returncode == 2, said
    assert "Traceback" not in said
    return said


def _klamm_serve(arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    clean = without_ours()
    plant_password(environment.get("KLAMM_DATABASE_URL", ""))
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("klamm")), "serve", "--port", "0", *arguments],
        cwd=ROOT,
        env={**clean, **VARIABLES, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
