"""Requests byte by byte over a socket, and whatever comes back."""

import re
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.klamm import LIMIT_S, Process


@contextmanager
def connected(service: Process) -> Iterator[socket.socket]:
    """A connection to the service, on which each piece goes out at once."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection


def exchange(service: Process, *parts: bytes, then_close: bool = True) -> bytes:
    """Everything that comes back for these bytes, until the service hangs up or has nothing to say any more."""
    with connected(service) as connection:
        # It may hang up in the middle, which is its right.
        with suppress(BrokenPipeError, ConnectionResetError, OSError):
            for part in parts:
                connection.sendall(part)
            if then_close:
                connection.shutdown(socket.SHUT_WR)
        return received(connection)


def received(connection: socket.socket) -> bytes:
    """Everything that comes until the service hangs up."""
    got = b""
    with suppress(ConnectionResetError):
        while some := connection.recv(65_536):
            got += some
    return got


def statuses(reply: bytes) -> list[int]:
    """The status of each answer in what came back; a page need not end with the end of a line."""
    return [int(status) for status in re.findall(rb"HTTP/1\.\d (\d{3}) ", reply)]


def resident_bytes(service: Process) -> int:
    """The memory of the service's process that is in RAM."""
    pages = Path(f"/proc/{service.process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def forget_peak(service: Process) -> None:
    """Have the peak of memory begin anew."""
    Path(f"/proc/{service.process.pid}/clear_refs").write_text("5", encoding="ascii")


def peak_bytes(service: Process) -> int:
    """The most memory that the service's process has had in RAM."""
    status = Path(f"/proc/{service.process.pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024
