"""What a worker is given at its start. No process is started here."""

import os
import socket
import subprocess
from collections.abc import Sequence

import pytest

from app.process.processes import WorkerOrder, launch_worker, receive_order


def test_a_worker_gets_the_order_that_it_was_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[socket.socket] = []

    def start(_: Sequence[str], *, pass_fds: Sequence[int], **__: object) -> None:
        ends.append(socket.socket(fileno=os.dup(pass_fds[0])))

    monkeypatch.setattr(subprocess, "Popen", start)
    settings = {"secret": "s" * 50_000}
    _, ours = launch_worker(7, 8, settings, 3)
    with ours, ends[0]:
        assert receive_order(ends[0]) == WorkerOrder(3, os.getpid(), 7, 8, settings)


def test_an_order_that_breaks_off_is_none() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(bytes([0, 0, 0, 0, 0, 0, 0, 9]) + b"short")
        with pytest.raises(EOFError):
            receive_order(theirs)
