"""Workers take turns to load."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from app.process.processes import lock_file
from tests.gate.unit.process.test_siblings import PATIENCE_S, Supervisor, worker

ROOT = Path(__file__).parents[4]


HOLDER = """
import sys, time
from app.process.processes import LOADS, takes_lock
print(takes_lock(int(sys.argv[1]), LOADS), flush=True)
time.sleep(600)
"""


@contextmanager
def sibling(locks: IO[bytes]) -> Iterator[bool]:
    """Another process that wants to load; whether it has its turn."""
    command = [sys.executable, "-c", HOLDER, str(locks.fileno())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[locks.fileno()], cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline() == b"True\n"
        finally:
            process.kill()


async def test_workers_load_one_at_a_time_and_one_that_takes_long_holds_up_nobody_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    supervisor = Supervisor()
    with lock_file() as locks:
        async with worker(supervisor, locks=locks) as found:
            with sibling(locks) as loads:
                assert loads
                with pytest.raises(KeyError):
                    async with found.load_turn(PATIENCE_S):
                        raise KeyError
            assert caplog.messages == ["load_out_of_turn"]
            # Its end has freed the lock, as nothing else would.
            async with found.load_turn(30):
                with sibling(locks) as loads:
                    assert not loads
                assert "loaded" not in dict(supervisor.heard)
            await supervisor.heard_of("loaded")
            with sibling(locks) as loads:
                assert loads
    assert caplog.messages == ["load_out_of_turn"]
