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

from app.formats.command_errors import CommandError
from app.process import supervisor as supervisors
from app.process.supervisor import Drain, Supervisor

DIES = "raise SystemExit(7)"
# Says that it is there and that it has loaded, then does as it is told.
SERVES = """
import json, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
line = socket.socket(fileno=int(sys.argv[1])).makefile("rwb", 0)
line.write(b'{"subject": "up"}\\n{"subject": "loaded"}\\n')
for each in line:
    if json.loads(each)["subject"] == "listen":
        line.write(b'{"subject": "listening"}\\n')
"""
IGNORES_SIGTERM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(int(sys.argv[1]), b'{"subject": "up"}\\n{"subject": "loaded"}\\n')
while True:
    time.sleep(60)
"""


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

    def kill(self) -> None:
        for process in self.processes:
            process.kill()

    @property
    def all_ended(self) -> bool:
        return all(process.returncode is not None for process in self.processes)


def stop_when(done: Callable[[], bool]) -> Callable[[], None]:
    """Called each second: send this process SIGTERM once it is so."""

    def look() -> None:
        if done():
            os.kill(os.getpid(), signal.SIGTERM)

    return look


def all_loaded(supervisor: Supervisor) -> bool:
    """Whether every program has said so: from then on it has its own handler of SIGTERM."""
    return all(worker.ready for worker in supervisor._workers)


def run(supervisor: Supervisor) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await supervisor.run()

    asyncio.run(bounded())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisors, "FIRST_REST_S", 0.01)
    monkeypatch.setattr(supervisors, "LONGEST_REST_S", 0.05)
    monkeypatch.setattr("app.process.supervisor._TICK_S", 0.05)


@pytest.mark.usefixtures("quick")
def test_workers_that_never_become_ready_end_the_service_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    programs = Programs(DIES)
    with pytest.raises(
        CommandError, match=r"^worker 1 ended 5 times in a row .* the last time by exit code 7; see the log"
    ):
        run(Supervisor(1, programs))
    assert programs.started == [1] * 5
    assert programs.all_ended
    assert caplog.messages.count("worker_ended") == 5


@pytest.mark.usefixtures("quick")
def test_as_long_as_another_worker_is_ready_the_service_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first has to be ready before the second has ended five times.
    monkeypatch.setattr(supervisors, "FIRST_REST_S", 0.5)
    monkeypatch.setattr(supervisors, "LONGEST_REST_S", 0.5)
    programs = Programs(SERVES, DIES)
    run(Supervisor(2, programs, each_second=stop_when(lambda: len(programs.started) > 8)))
    assert programs.started[:2] == [1, 2]
    assert set(programs.started[2:]) == {2}
    assert programs.all_ended


@pytest.mark.usefixtures("quick")
def test_a_start_that_the_system_refuses_is_tried_again_and_counts() -> None:
    def refuse(_: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with pytest.raises(CommandError, match="by a start that failed \\(Resource temporarily unavailable\\)"):
        run(Supervisor(2, refuse))


@pytest.mark.usefixtures("quick")
def test_serving_is_told_once() -> None:
    served: list[float] = []
    programs = Programs(SERVES)

    async def note() -> None:
        served.append(time.monotonic())

    def all_serve() -> bool:
        return bool(served) and all_loaded(supervisor)

    supervisor = Supervisor(3, programs, each_second=stop_when(all_serve), once_serving=note)
    run(supervisor)
    assert len(served) == 1
    assert [process.returncode for process in programs.processes] == [0, 0, 0]


@pytest.mark.usefixtures("quick")
def test_a_worker_that_does_not_end_is_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.process.supervisor.END_TIMEOUT_S", 0.1)
    programs = Programs(IGNORES_SIGTERM)
    supervisor = Supervisor(1, programs, each_second=stop_when(lambda: all_loaded(supervisor)))
    run(supervisor)
    assert programs.processes[0].returncode == -signal.SIGKILL
    assert "workers_killed" in caplog.messages


@pytest.mark.usefixtures("quick")
def test_a_worker_that_hangs_up_without_ending_is_killed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.process.supervisor._EXIT_TIMEOUT_S", 0.1)
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
line.write(b'{"subject": "up"}\\n{"subject": "loaded"}\\n')
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


# Serves as SERVES does; ends with 3 if SIGTERM comes before the order to drain, with 0 if told to end after that.
DRAINS = """
import json, signal, socket, sys
line = socket.socket(fileno=int(sys.argv[1])).makefile("rwb", 0)
heard, terminated = [], []
signal.signal(signal.SIGTERM, lambda *_: terminated.append(heard.copy()))
line.write(b'{"subject": "up"}\\n{"subject": "loaded"}\\n')
for each in line:
    heard.append(json.loads(each)["subject"])
    if heard[-1] == "listen":
        line.write(b'{"subject": "listening"}\\n')
    if heard[-1] == "end":
        sys.exit(0 if heard == ["listen", "drain", "end"] else 3)
"""


class Draining:
    """Stops a supervisor as soon as its workers serve, and notes when what happens."""

    def __init__(self, programs: Programs, seconds: float, then: Callable[[], None] | None = None) -> None:
        self.over_at: list[float] = []
        self.ticks = 0
        self.began_at = 0.0
        self.served = 0
        self.supervisor = Supervisor(
            2,
            programs,
            each_second=self.look,
            once_serving=self.note,
            drain=Drain(seconds, over=lambda: self.over_at.append(time.monotonic())),
        )
        self._then = then

    async def note(self) -> None:
        self.served += 1

    def look(self) -> None:
        if self.began_at:
            self.ticks += 1
            if self.ticks == 5 and self._then is not None:
                self._then()
        elif self.served and all_loaded(self.supervisor):
            self.began_at = time.monotonic()
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.usefixtures("quick")
def test_workers_drain_for_their_time_and_are_looked_after_meanwhile() -> None:
    programs = Programs(DRAINS)
    draining = Draining(programs, 2.0)
    run(draining.supervisor)
    assert [process.returncode for process in programs.processes] == [0, 0]
    assert len(draining.over_at) == 1
    assert draining.over_at[0] - draining.began_at >= 2.0
    assert draining.ticks > 1


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_drain_time_of_workers(sig: signal.Signals) -> None:
    programs = Programs(DRAINS)
    draining = Draining(programs, 300, then=lambda: os.kill(os.getpid(), sig))
    run(draining.supervisor)
    assert [process.returncode for process in programs.processes] == [0, 0]
    assert draining.ticks >= 5
    assert len(draining.over_at) == 1


@pytest.mark.usefixtures("quick")
def test_a_worker_that_dies_while_it_drains_is_not_started_again_and_the_last_ends_the_service() -> None:
    programs = Programs(DRAINS)
    draining = Draining(programs, 300, then=programs.kill)
    run(draining.supervisor)
    assert len(programs.started) == 2
    assert len(draining.over_at) == 1


# Serves, then asks whether it leaves alone, and ends with what it is told.
ASKS = """
import json, signal, socket, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
line = socket.socket(fileno=int(sys.argv[1])).makefile("rwb", 0)
line.write(b'{"subject": "up"}\\n{"subject": "loaded"}\\n')
for each in line:
    said = json.loads(each)
    if said.get("subject") == "listen":
        line.write(b'{"subject": "listening"}\\n{"subject": "leave", "ask": 1}\\n')
    if said.get("answer") == 1:
        sys.exit(40 + said["detail"])
"""


@pytest.mark.usefixtures("quick")
def test_a_worker_that_got_a_signal_of_its_own_leaves_alone(caplog: pytest.LogCaptureFixture) -> None:
    programs = Programs(ASKS, SERVES)
    run(Supervisor(1, programs, each_second=stop_when(lambda: len(programs.started) > 1)))
    ended = [record.__dict__["by"] for record in caplog.records if record.message == "worker_ended"]
    assert ended == ["exit code 41"]


@pytest.mark.usefixtures("quick")
async def test_nobody_counts_on_a_worker_any_more_once_it_knows_that_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.process.supervisor._SIGNAL_TIMEOUT_S", 0.01)
    supervisor = Supervisor(2, Programs(SERVES))
    leaving, other = supervisor._workers
    assert await supervisor._hear(leaving, "leave", None) is True
    assert (leaving.needed, leaving.listening, leaving.leaving) == (False, False, True)
    assert (other.needed, other.leaving) == (True, False)


@pytest.mark.usefixtures("quick")
def test_a_worker_whose_signal_was_that_of_all_does_not_leave_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.process.supervisor._SIGNAL_TIMEOUT_S", 60.0)
    programs = Programs(ASKS)

    async def terminate() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    run(Supervisor(1, programs, once_serving=terminate, drain=Drain(300)))
    assert [process.returncode for process in programs.processes] == [40]
