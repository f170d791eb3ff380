"""How a worker's process is made, what it is told, and how it is bound to the life of the one above it."""

import ctypes
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

_PR_SET_PDEATHSIG = 1
_LENGTH = struct.Struct("!Q")
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """What a worker is told at its start; `listener` and `output_lock` are descriptors that it inherits."""

    number: int
    supervisor: int
    """The process id of the supervisor."""
    listener: int
    output_lock: int
    settings: Any
    """Those of the supervisor, so that a worker that is started again can't read others meanwhile."""


class WorkerLauncher:
    """Starts workers: a new interpreter each, as a copy of this process would share its threads' locks and its files.

    The settings hold secrets. They go through a socket, never by arguments, variables or files.
    """

    def __init__(self, listener: socket.socket, output_lock: int, settings: object) -> None:
        self._listener = listener.fileno()
        self._output_lock = output_lock
        self._settings = settings

    def __call__(self, number: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """The process of this worker, and the end of the channel to it. Raises OSError if there can be none."""
        ours, theirs = socket.socketpair()
        try:
            with theirs, _signals_held():
                process = subprocess.Popen(  # noqa: S603 - this interpreter and this application
                    [sys.executable, "-P", "-m", "app.cli.worker", str(number), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), self._listener, self._output_lock),
                )
        except BaseException:
            ours.close()
            raise
        order = pickle.dumps(WorkerOrder(number, os.getpid(), self._listener, self._output_lock, self._settings))
        # One that has died already is noticed by the end of its channel.
        with suppress(BrokenPipeError, ConnectionResetError):
            ours.sendall(_LENGTH.pack(len(order)) + order)
        return process, ours


def receive_order(end: socket.socket) -> WorkerOrder:
    """In the worker: what it is told. Raises EOFError if the supervisor is gone."""
    (length,) = _LENGTH.unpack(_exactly(end, _LENGTH.size))
    order: WorkerOrder = pickle.loads(_exactly(end, length))  # noqa: S301 - from the process that started this one
    return order


def _exactly(end: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = end.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return parts


def end_with(supervisor: int) -> None:
    """In the worker: be killed when the supervisor ends, whatever this process is doing then.

    Linux only; elsewhere the end of the channel tells the event loop. Raises EOFError if the supervisor is gone.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != supervisor:
        raise EOFError


def release_signals() -> None:
    """In the worker: let the signals through that were held back since before it was born."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)


@contextmanager
def _signals_held() -> Iterator[None]:
    # Ctrl-C reaches a worker that still imports, too; held back until it can end in order, it is not lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
