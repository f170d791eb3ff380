"""Workers that end, and what is done about it; they are small programs here, that speak to the supervisor or don't."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from app.ops.workers import restarts
from app.ops.workers.supervisor import Supervisor, WorkersError

DIES = "raise SystemExit(7)"
# Says that it is there and that it has loaded, then does as it is told.
SERVES = """
import json, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
line = socket.socket(fileno=int(sys.argv[1])).makefile("rwb", 0)
line.write(b'{"subject": "up"}\\n{"subject": "turn_over", "detail": true}\\n')
for each in line:
    if json.loads(each)["subject"] == "listen":
        line.write(b'{"subject": "listening"}\\n')
"""
IGNORES_SIGTERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """The supervisor's handlers stay when it is done; here they go."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


class Programs:
    """Starts these programs one after the other, the last one from then on."""

    def __init__(self, *programs: str) -> None:
        self.started: list[int] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self._programs = list(programs)

    def __call__(self, number: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
        program = self._programs[min(len(self.started), len(self._programs) - 1)]
        self.started.append(number)
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-S", "-c", program, str(theirs.fileno())]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        self.processes.append(process)
        return process, ours

    @property
    def all_ended(self) -> bool:
        return all(process.returncode is not None for process in self.processes)


def stop_when(done: Callable[[], bool]) -> Callable[[], None]:
    """Called each second: send this process SIGTERM once it is so."""

    def look() -> None:
        if done():
            os.kill(os.getpid(), signal.SIGTERM)

    return look


def run(supervisor: Supervisor) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await supervisor.run()

    asyncio.run(bounded())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "FIRST_REST_S", 0.01)
    monkeypatch.setattr("app.ops.workers.supervisor._TICK_S", 0.05)


@pytest.mark.usefixtures("quick")
def test_workers_that_never_become_ready_end_the_service_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    programs = Programs(DIES)
    with pytest.raises(
        WorkersError, match=r"^worker 1 ended 5 times in a row .* the last time by exit code 7; the log"
    ):
        run(Supervisor(1, programs))
    assert programs.started == [1] * 5
    assert programs.all_ended
    assert caplog.messages.count("worker_ended") == 5


@pytest.mark.usefixtures("quick")
def test_as_long_as_another_worker_is_ready_the_service_goes_on() -> None:
    programs = Programs(SERVES, DIES)
    run(Supervisor(2, programs, each_second=stop_when(lambda: len(programs.started) > 8)))
    assert programs.started[:2] == [1, 2]
    assert set(programs.started[2:]) == {2}
    assert programs.all_ended


@pytest.mark.usefixtures("quick")
def test_a_start_that_the_system_refuses_is_tried_again_and_counts() -> None:
    def refuse(_: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with pytest.raises(WorkersError, match="by a start that failed \\(Resource temporarily unavailable\\)"):
        run(Supervisor(2, refuse))


@pytest.mark.usefixtures("quick")
def test_serving_is_told_once() -> None:
    served: list[float] = []
    programs = Programs(SERVES)

    async def note() -> None:
        served.append(time.monotonic())

    run(Supervisor(3, programs, each_second=stop_when(lambda: bool(served)), once_serving=note))
    assert len(served) == 1
    assert [process.returncode for process in programs.processes] == [0, 0, 0]


@pytest.mark.usefixtures("quick")
def test_a_worker_that_does_not_end_is_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.ops.workers.supervisor.DRAIN_TIMEOUT_S", 0.5)
    programs = Programs(IGNORES_SIGTERM)
    began_at = time.monotonic()
    run(Supervisor(1, programs, each_second=stop_when(lambda: time.monotonic() > began_at + 0.5)))
    assert programs.processes[0].returncode == -signal.SIGKILL
    assert "workers_killed" in caplog.messages


@pytest.mark.usefixtures("quick")
def test_a_worker_that_hangs_up_without_ending_is_killed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ops.workers.supervisor._EXIT_TIMEOUT_S", 0.1)
    hangs_up = "import os, sys, time; os.close(int(sys.argv[1]))\nwhile True: time.sleep(60)"
    programs = Programs(hangs_up, SERVES)
    run(Supervisor(1, programs, each_second=stop_when(lambda: len(programs.started) > 1)))
    assert programs.processes[0].returncode == -signal.SIGKILL


@pytest.mark.parametrize("fault", [ValueError("a slip"), OSError("no room")])
@pytest.mark.usefixtures("quick")
def test_a_fault_above_ends_the_workers_too(fault: Exception) -> None:
    programs = Programs(SERVES)

    def fail_later() -> None:
        if len(programs.started) == 2:
            raise fault

    with pytest.raises(type(fault)):
        run(Supervisor(2, programs, each_second=fail_later))
    assert programs.all_ended


# Takes connections, then says that it takes no more; ends with 9 if it is asked to take some after all.
LEAVES = """
import json, select, socket, sys
end = socket.socket(fileno=int(sys.argv[1]))
line = end.makefile("rwb", 0)
line.write(b'{"subject": "up"}\\n{"subject": "turn_over", "detail": true}\\n')
while json.loads(line.readline())["subject"] != "listen":
    pass
line.write(b'{"subject": "listening"}\\n{"subject": "leaving"}\\n')
sys.exit(9 if select.select([end], [], [], 1)[0] else 4)
"""


@pytest.mark.usefixtures("quick")
def test_a_worker_that_leaves_is_not_let_in_again(caplog: pytest.LogCaptureFixture) -> None:
    programs = Programs(LEAVES, SERVES)
    run(Supervisor(1, programs, each_second=stop_when(lambda: len(programs.started) > 1)))
    ended = [record for record in caplog.records if record.message == "worker_ended"]
    assert [record.__dict__["by"] for record in ended] == ["exit code 4"]
