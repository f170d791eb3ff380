"""Many readers of watch that take nothing, on raw sockets: what they cost the service, and who gets a snapshot."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx

from app.rest.callers.token_file import add_token
from tests.klamm import LIMIT_S, Json, Process, acl, over_socket, wait_until
from tests.planted import plant
from tests.watching import WATCH, Stream, token_of

READERS = 400
ACLS = 10_000
MIB = 1024 * 1024
MOST_GROWTH = 128 * MIB
"""The ACLs take 36 MiB, and 400 readers with 32 KiB each 12.5 MiB. A copy of both changes for each would be 2,800."""
SLOW, FOLLOWERS = 4, 6
STREAMS = b"HTTP/1.1 200"


@contextmanager
def stuck(service: Process, query: str, count: int) -> Iterator[None]:
    """Readers that take the status of their stream, and nothing else."""
    host, port = service.url.removeprefix("http://").split(":")
    head = f"GET {WATCH}?{query} HTTP/1.1\r\nhost: localhost\r\nklamm-epochs: 1\r\n\r\n"
    with ExitStack() as opened:
        for _ in range(count):
            opened.enter_context(stream_begun(host, int(port), head.encode()))
        yield


def stream_begun(host: str, port: int, head: bytes) -> socket.socket:
    """Asked for again after a busy machine's refusals."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        reader = socket.socket()
        reader.settimeout(LIMIT_S)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect((host, port))
        reader.sendall(head)
        if reader.recv(len(STREAMS), socket.MSG_WAITALL) == STREAMS:
            return reader
        reader.close()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def resident_bytes(service: Process) -> int:
    text = Path(f"/proc/{service.process.pid}/smaps_rollup").read_text(encoding="ascii")
    found = re.search(r"^Rss:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def test_stuck_readers_do_not_hold_a_copy_of_a_long_transaction_each(migrated_database_url: str) -> None:
    with over_socket(settings={"KLAMM_DATABASE_URL": migrated_database_url}) as service:
        service.ready().create(acl("first"))
        token = token_of(service)
        with Stream(service.url, f"after={token}") as live, stuck(service, f"after={token}", READERS):
            wait_until(lambda: service.metric("klamm_watch_readers") == READERS + 1, "all are there")
            live.until(token)
            before = resident_bytes(service)
            most = before
            for change in range(2):
                bindings = (acl(f"topic-{change}-{number}") for number in range(ACLS))
                token = str(service.create(*bindings, timeout_ms=60_000)["token"])
                most = max(most, resident_bytes(service))
            live.until(token)
            assert len(live.seen.records) == 2 * ACLS
            # Nobody has been cut yet, or soon after.
            time.sleep(1)
            most = max(most, resident_bytes(service))
        assert most - before < MOST_GROWTH, (before // MIB, most // MIB)
        wait_until(lambda: service.metric("klamm_watch_readers") == 0, "all have gone")
        assert [line for line in service.lines if " ERROR " in line or "Traceback" in line] == []


def until_synced(url: str, headers: dict[str, str]) -> str:
    """The token of a whole snapshot."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        with (
            suppress(httpx.TransportError),
            httpx.stream("GET", f"{url}{WATCH}?snapshot=true", headers=headers, timeout=LIMIT_S) as reply,
        ):
            if reply.status_code == httpx.codes.OK:
                for line in reply.iter_lines():
                    if line.startswith('{"type":"synced"'):
                        return str(json.loads(line)["token"])
        time.sleep(0.5)
    raise AssertionError("it never got a snapshot")


class SlowReader(threading.Thread):
    """Asks for a snapshot, takes 160 KiB of it a second, and asks again when it is cut."""

    def __init__(self, connect: Callable[[], socket.socket], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.received = 0
        self._connect = connect
        self._stop_reading = stop

    def run(self) -> None:
        while not self._stop_reading.is_set():
            with suppress(OSError), self._connect() as connection:
                while some := connection.recv(16 * 1024, socket.MSG_WAITALL):
                    self.received += len(some)
                    if self._stop_reading.wait(0.1):
                        return


def test_one_caller_with_slow_snapshots_keeps_no_other_from_one(tmp_path: Path, migrated_database_url: str) -> None:
    (tmp_path / "klamm.toml").write_text(
        'tokens.file = "klamm.tokens"\n[callers.greedy]\nrole = "follow"\n[callers.fleet]\nrole = "follow"\n'
        '[callers.root]\nrole = "admin"\nprincipal = "User:admin"\n'
    )
    names = ("greedy", "fleet", "root")
    shown = {name: f"Bearer {plant(add_token(tmp_path / 'klamm.tokens', name, names))}" for name in names}
    with (
        over_socket(settings={"KLAMM_DATABASE_URL": migrated_database_url}, folder=tmp_path) as service,
        ExitStack() as ending,
    ):
        service.http.headers["authorization"] = shown["root"]
        service.ready()
        token = ""
        for change in range(5):
            # 22 MB in all: at a slow reader's rate, a snapshot takes minutes.
            bindings: list[Json] = [acl(f"{change}-{number}-{'x' * 2_000}") for number in range(2_000)]
            token = str(service.create(*bindings, timeout_ms=60_000)["token"])
        host, port = service.url.removeprefix("http://").split(":")

        def ask() -> socket.socket:
            connection = socket.socket()
            # Or the kernel would take the whole snapshot.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            connection.connect((host, int(port)))
            head = f"GET {WATCH}?snapshot=true HTTP/1.1\r\nhost: localhost\r\nauthorization: {shown['greedy']}\r\n\r\n"
            connection.sendall(head.encode())
            return connection

        stop = threading.Event()
        ending.callback(stop.set)
        slow = [SlowReader(ask, stop) for _ in range(SLOW)]
        for reader in slow:
            reader.start()
        wait_until(lambda: all(reader.received for reader in slow), "each has the beginning of a snapshot")
        fleet = {"authorization": shown["fleet"]}
        with ThreadPoolExecutor(FOLLOWERS) as pool:
            # As followers do, they ask again after a refusal, or when they are cut off.
            whole = pool.map(lambda _: until_synced(service.url, fleet), range(FOLLOWERS))
        assert list(whole) == [token] * FOLLOWERS
