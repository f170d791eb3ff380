"""Processes under measurement: where they run, what they use. Linux only: all figures come from /proc."""

import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Self

from tests.bench.load import status_of
from tests.surroundings import without_ours

ROOT = Path(__file__).parents[2]
ADMIN = "User:admin"
_TICKS = os.sysconf("SC_CLK_TCK")
_KEEPS_NANOSECONDS = Path("/proc/self/schedstat").exists()
_PAGE = os.sysconf("SC_PAGE_SIZE")
_POLL_S = 0.05
_STOP_TIMEOUT_S = 60.0
_READY_TIMEOUT_S = 300.0
_INSTRUMENT_NICENESS = -15
# As they are when a section begins, which then keeps to one of them.
_CORES = sorted(os.sched_getaffinity(0))


class Core(Enum):
    """What is measured runs on the first core that we may use, everything else on the second."""

    SERVER = 0
    LOAD = 1


class Served(NamedTuple):
    """A server: its process, and its port on the loopback interface."""

    pid: int
    port: int


@contextmanager
def on_core(core: Core) -> Iterator[None]:
    """What is begun here runs on this core; where there is one only, wherever there is room."""
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, {_CORES[core.value % len(_CORES)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def all_cores() -> Iterator[None]:
    """What is begun here runs on every core that we may use."""
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, _CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def two_cores() -> bool:
    """Whether server and load do not get into each other's way."""
    return len(_CORES) > 1


def go_first() -> None:
    """This process measures: it should never wait for PostgreSQL, where we may say so."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _INSTRUMENT_NICENESS)


def go_before_all() -> None:
    """For a process that measures and hardly runs itself: it waits for nobody who has its core, where we may say so.

    However nice, it would wait until whoever runs has had a slice of milliseconds (Linux 6.6 and later).
    """
    go_first()
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def cpu_s(pid: int) -> float:
    """CPU seconds of the process and its children so far, user and system, all threads."""
    return sum(_cpu_of(each) for each in _tree(pid))


def cpu_by_process(pid: int) -> dict[int, float]:
    """The same of each of them, threads that have ended included: a JVM has many that come and go."""
    return {each: _ticks_of(each) for each in _tree(pid)}


def cpu_with_ended_s(pid: int) -> float:
    """CPU seconds of the process and its children so far, those that have ended and were waited for included."""
    return sum(_ticks_of(each, with_ended=True) for each in _tree(pid))


def rss_bytes(pid: int) -> int:
    """Resident bytes of the process and its children."""
    return sum(int(Path(f"/proc/{each}/statm").read_text(encoding="ascii").split()[1]) * _PAGE for each in _tree(pid))


def peak_rss_bytes(pid: int) -> int:
    """The most that it ever had resident."""
    return sum(_peak_of(each) for each in _tree(pid))


class RunQueue:
    """How long the main thread of a process (None: of this one), its event loop's, has stood ready without a core."""

    def __init__(self, pid: int | None) -> None:
        self._file = os.open(f"/proc/{pid or 'self'}/schedstat", os.O_RDONLY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def waited_s(self) -> float:
        """Seconds of waiting so far."""
        return int(os.pread(self._file, 100, 0).split()[1]) / 1e9


@contextmanager
def bench_server(module: str, *arguments: str, tls: ssl.SSLContext | None = None) -> Iterator[Served]:
    """A server of this folder, `python -m tests.bench.MODULE PORT ...`, on the first core, once it is ready.

    `tls` is how to ask it if its arguments make it speak TLS.
    """
    port = _free_port()
    command = [sys.executable, "-m", f"tests.bench.{module}", str(port), *arguments]
    with on_core(Core.SERVER):
        server = subprocess.Popen(command, cwd=ROOT)
    with server, _ended(server):
        wait_until_ready(port, _READY_TIMEOUT_S, tls)
        yield Served(server.pid, port)


@contextmanager
def klamm_serve(dsn: str, core: Core = Core.SERVER) -> Iterator[Served]:
    """A real `klamm serve` on this PostgreSQL; it may not be ready yet."""
    port = _free_port()
    with tempfile.TemporaryFile() as log:
        # Only the server: what is begun while it runs has the other core.
        with on_core(core):
            server = subprocess.Popen(
                [*klamm_command("serve"), "--port", str(port)],
                cwd=ROOT,
                env=klamm_environment(dsn),
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        with server, _ended(server):
            try:
                yield Served(server.pid, port)
            except BaseException:
                log.seek(0)
                sys.stderr.write(log.read().decode(errors="replace")[-2_000:])
                raise


def klamm_command(command: str) -> Sequence[str]:
    """The console script of this environment."""
    return [str(Path(sys.executable).with_name("klamm")), command]


def klamm_environment(dsn: str) -> Mapping[str, str]:
    """Ours, with this database and a super user, and nothing else that Klamm would listen to."""
    clean = without_ours()
    return {**clean, "KLAMM_DATABASE_URL": dsn, "KLAMM_SUPER_USERS": ADMIN, "KLAMM_DRAIN_MS": "0"}


def wait_until_ready(port: int, within_s: float, tls: ssl.SSLContext | None = None) -> None:
    """Returns once /readyz says 200. Raises TimeoutError."""
    deadline = time.monotonic() + within_s
    while status_of(port, "/readyz", tls) != 200:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not ready within {within_s:g} s")
        time.sleep(_POLL_S)


@contextmanager
def _ended(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _tree(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    for each in found:
        # It may end meanwhile, and its threads before it.
        with suppress(OSError):
            for file in Path(f"/proc/{each}/task").glob("*/children"):
                with suppress(OSError):
                    found += map(int, file.read_text(encoding="ascii").split())
    return found


def _cpu_of(pid: int) -> float:
    """From the scheduler's own nanoseconds where it keeps them, else from ticks of 10 ms; 0 if it has ended."""
    if not _KEEPS_NANOSECONDS:
        return _ticks_of(pid)
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return 0.0
    nanoseconds = 0
    for thread in threads:
        with suppress(OSError):
            nanoseconds += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    return nanoseconds / 1e9


def _ticks_of(pid: int, *, with_ended: bool = False) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / _TICKS


def _peak_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) * 1024
