"""A worker's process: how it starts, what it is given, how it ends with its supervisor, and where it writes."""

import ctypes
import errno
import fcntl
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from app.logs.service import LineOutput

_PR_SET_PDEATHSIG = 1
_LENGTH = struct.Struct("!Q")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Blocked in a worker until it has handlers for them."""
OUTPUT, LOADS = 0, 1
"""What workers do one at a time: the bytes of their lock file."""
_LOCK_TIMEOUT_S = 2.0
_LOCK_POLL_S = 0.002


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """What a worker gets at its start; `listener` and `locks` are descriptors that it inherits."""

    number: int
    supervisor: int
    listener: int
    locks: int
    settings: Any
    """The supervisor's own settings: a worker that is started again must not read others."""


def launch_worker(
    listener: int, locks: int, settings: object, number: int
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Starts a worker in a new interpreter: a fork would share this process' locks and open files.

    The settings hold secrets, so they go through a socket and not through arguments, variables or files.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs, _signals_blocked():
            process = subprocess.Popen(  # noqa: S603 - this interpreter and this application
                [sys.executable, "-P", "-m", "app.cli.worker", str(number), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), listener, locks),
            )
    except BaseException:
        ours.close()
        raise
    order = pickle.dumps(WorkerOrder(number, os.getpid(), listener, locks, settings))
    # If the process has already died, the end of its channel will say so.
    with suppress(BrokenPipeError, ConnectionResetError):
        ours.sendall(_LENGTH.pack(len(order)) + order)
    return process, ours


def receive_order(end: socket.socket) -> WorkerOrder:
    (length,) = _LENGTH.unpack(_receive_exactly(end, _LENGTH.size))
    order: WorkerOrder = pickle.loads(_receive_exactly(end, length))  # noqa: S301 - from the process that started this one
    return order


def _receive_exactly(end: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = end.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return parts


def end_with(supervisor: int) -> None:
    """Called in the worker: the kernel kills this process when the supervisor ends, whatever it is doing.

    Linux only; elsewhere the event loop learns it from the channel's end. Raises EOFError if the supervisor is gone.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != supervisor:
        raise EOFError


@contextmanager
def _signals_blocked() -> Iterator[None]:
    # Ctrl-C also reaches a worker that is still importing; blocked until it can end in order, it is not lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def lock_file() -> IO[bytes]:
    """A file without a name, whose descriptor workers inherit to lock a byte of it: OUTPUT, or LOADS.

    It is in memory where possible: a container may have no folder to write to.
    """
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("klamm-locks"), "w+b")
    return tempfile.TemporaryFile()


def takes_lock(file: int, byte: int) -> bool:
    # INVARIANT: a lock of this kind belongs to the process, inherited descriptor or not, and ends with it.
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        return False
    return True


def release_lock(file: int, byte: int) -> None:
    fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)


class SharedOutput:
    """Standard output, to which sibling processes write too; without a lock this process is alone."""

    def __init__(self, locks: int | None = None) -> None:
        self._locks = locks
        # Past sys.stdout, whose lock a thread that waits for a reader would hold when the process ends.
        self._output = LineOutput(sys.stdout.fileno())

    def write(self, lines: str) -> None:
        """Writes whole lines. No sibling's line gets into them: the rest of a long line could pass for the sibling's.

        It waits at most two seconds for a sibling that hangs while it holds the lock. Raises OSError.
        """
        locked = self._locks is not None and self._acquire(self._locks)
        try:
            self._output.write(lines)
        finally:
            if locked and self._locks is not None:
                release_lock(self._locks, OUTPUT)

    def _acquire(self, locks: int) -> bool:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while not (locked := takes_lock(locks, OUTPUT)) and time.monotonic() < deadline:
            time.sleep(_LOCK_POLL_S)
        return locked
