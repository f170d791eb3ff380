"""What several processes write to one output stays whole."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from app.process import processes
from app.process.processes import SharedOutput, lock_file

ROOT = Path(__file__).parents[4]


WRITER = """
import sys
from app.process.processes import SharedOutput
shared = SharedOutput(int(sys.argv[1]))
for _ in range(20):
    shared.write((sys.argv[2] * 30_000 + "\\n") * 5)
"""


HOLDER = """
import fcntl, sys, time
fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX, 1, 0)
print("held", flush=True)
time.sleep(600)
"""


def python(program: str, *arguments: str, lock: IO[bytes], out: IO[bytes] | int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, str(lock.fileno()), *arguments]
    return subprocess.Popen(command, stdout=out, pass_fds=[lock.fileno()], cwd=ROOT)


def test_lines_of_several_processes_do_not_tear() -> None:
    with lock_file() as lock:
        read, write = os.pipe()
        with os.fdopen(write, "wb") as out:
            writers = [python(WRITER, letter, lock=lock, out=out) for letter in "abc"]
        with os.fdopen(read, "rb") as page:
            lines = page.read().decode().splitlines()
        assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert sorted(set(lines)) == ["a" * 30_000, "b" * 30_000, "c" * 30_000]
    assert len(lines) == 300


def test_a_process_that_stands_still_with_the_lock_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "_LOCK_TIMEOUT_S", 0.05)
    with lock_file() as lock, python(HOLDER, lock=lock, out=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        SharedOutput(lock.fileno()).write("anyway\n")
        assert capfd.readouterr().out == "anyway\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait(60)
        # Its end frees the lock, as nothing else would.
        monkeypatch.setattr(processes, "_LOCK_TIMEOUT_S", 60)
        began_at = time.monotonic()
        SharedOutput(lock.fileno()).write("after\n")
        assert time.monotonic() - began_at < 30
