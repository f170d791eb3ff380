"""A worker and its supervisor, over a real pair of sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any

import pytest

from app.process import siblings
from app.process.channel import Channel, NoAnswerError
from app.process.siblings import Siblings, WorkerProbe, WorkerReadiness
from tests.klamm import until

PATIENCE_S = 0.05
PROBE = WorkerProbe(list, lambda listener: WorkerReadiness(listener is None, started=True, state="READY"))


@dataclass
class Supervisor:
    """Notes what it hears, and answers by subject, if it has an answer."""

    answers: dict[str, object] = field(default_factory=dict)
    heard: list[tuple[str, object]] = field(default_factory=list)
    channel: Channel | None = None

    async def hear(self, subject: str, detail: Any) -> object:  # noqa: ANN401 - JSON
        self.heard.append((subject, detail))
        if subject not in self.answers:
            await asyncio.Event().wait()
        return self.answers[subject]

    async def heard_of(self, subject: str) -> object:
        await until(lambda: subject in dict(self.heard), subject)
        return dict(self.heard)[subject]


@asynccontextmanager
async def worker(
    supervisor: Supervisor, orphaned: asyncio.Event | None = None, locks: IO[bytes] | None = None
) -> AsyncIterator[Siblings]:
    here, there = socket.socketpair()
    supervisor.channel = Channel(here, supervisor.hear)
    await supervisor.channel.open()
    found = Siblings(there, -1 if locks is None else locks.fileno(), (orphaned or asyncio.Event()).set)
    await found.open(PROBE)
    try:
        yield found
    finally:
        await found.close()
        await supervisor.channel.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "_ANSWER_TIMEOUT_S", PATIENCE_S)


async def test_a_worker_reports_and_answers_for_itself() -> None:
    supervisor = Supervisor()
    async with worker(supervisor):
        await supervisor.heard_of("up")
        assert supervisor.channel is not None
        assert await supervisor.channel.ask("families", timeout_s=30) == []
        answer = await supervisor.channel.ask("readiness", "EXTERNAL", timeout_s=30)
        assert answer == {"ready": False, "started": True, "state": "READY"}


async def test_connections_are_taken_when_the_supervisor_says_so() -> None:
    supervisor = Supervisor()
    async with worker(supervisor) as found:
        entering = asyncio.create_task(_enter_and_leave(found))
        await supervisor.heard_of("up")
        await asyncio.sleep(0.01)
        assert not entering.done()
        assert supervisor.channel is not None
        supervisor.channel.tell("listen")
        await asyncio.wait_for(entering, 30)
        await supervisor.heard_of("leaving")
    assert [subject for subject, _ in supervisor.heard] == ["up", "listening", "leaving"]


async def _enter_and_leave(found: Siblings) -> None:
    async with found.admission():
        pass


async def test_what_the_supervisor_knows_of_all_is_asked_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "_ANSWER_TIMEOUT_S", 30.0)
    ready = {"ready": True, "started": True, "state": "READY"}
    supervisor = Supervisor({"metrics": "page", "readiness": [{"number": 2, "needed": True, "readiness": ready}]})
    async with worker(supervisor) as found:
        assert await found.metrics() == b"page"
        others = await found.readiness("EXTERNAL")
        assert others is not None
        assert others[0].readiness == WorkerReadiness(ready=True, started=True, state="READY")
        assert supervisor.heard[-1] == ("readiness", "EXTERNAL")
        supervisor.answers.clear()
        monkeypatch.setattr(siblings, "_ANSWER_TIMEOUT_S", PATIENCE_S)
        assert await found.metrics() is None
        assert await found.readiness(None) is None


async def test_the_end_of_the_supervisor_is_the_end_of_the_worker() -> None:
    supervisor, orphaned = Supervisor(), asyncio.Event()
    async with worker(supervisor, orphaned):
        assert supervisor.channel is not None
        await supervisor.channel.close()
        await asyncio.wait_for(orphaned.wait(), 30)


async def test_its_own_end_is_not_taken_for_the_supervisors() -> None:
    supervisor, orphaned = Supervisor(), asyncio.Event()
    async with worker(supervisor, orphaned) as found:
        await found.close()
        assert supervisor.channel is not None
        await asyncio.wait_for(supervisor.channel.closed.wait(), 30)
        with pytest.raises(NoAnswerError):
            await supervisor.channel.ask("families", timeout_s=30)
    assert not orphaned.is_set()


async def test_those_who_ask_the_same_at_once_share_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "_ANSWER_TIMEOUT_S", 30.0)
    cold = {"ready": False, "started": False, "state": "LOADING"}
    supervisor = Supervisor({"readiness": [{"number": 2, "needed": True, "readiness": cold}]})
    async with worker(supervisor) as found:
        answers = await asyncio.gather(*(found.readiness("EXTERNAL") for _ in range(1_000)))
    assert {answer[0].readiness.ready for answer in answers if answer and answer[0].readiness} == {False}
    assert len(answers) == 1_000
    assert [subject for subject, _ in supervisor.heard].count("readiness") == 1


@pytest.mark.usefixtures("impatient")
async def test_when_too_many_ask_the_others_are_not_taken_for_ready() -> None:
    supervisor = Supervisor()
    async with worker(supervisor) as found:
        answers = await asyncio.gather(*(found.readiness(f"LISTENER{at}") for at in range(300)))
    busy = [answer for answer in answers if answer]
    assert len(busy) == 300 - 256
    assert all(answer[0].needed and answer[0].readiness is None for answer in busy)


async def test_the_supervisors_orders_reach_the_server() -> None:
    supervisor, heard = Supervisor(), list[str]()

    def has_heard(order: str) -> bool:
        return heard[-1:] == [order]

    async with worker(supervisor) as found:
        found.on_orders(lambda: heard.append("drain"), lambda: heard.append("end"))
        assert supervisor.channel is not None
        for order in ("drain", "end"):
            supervisor.channel.tell(order)
            await until(partial(has_heard, order), order)


@pytest.mark.parametrize(("answers", "ends"), [({"leave": True}, True), ({"leave": False}, False), ({}, True)])
async def test_a_signal_of_its_own_ends_a_worker_unless_it_is_that_of_all(
    answers: dict[str, object], monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    monkeypatch.setattr(siblings, "_ANSWER_TIMEOUT_S", 30.0 if answers else PATIENCE_S)
    supervisor, ended = Supervisor(answers), list[str]()
    async with worker(supervisor) as found:
        found.on_orders(lambda: ended.append("drained"), lambda: ended.append("ended"))
        found.on_sigterm()
        found.on_sigterm()
        await supervisor.heard_of("leave")
        if ends:
            await until(lambda: bool(ended), "the worker ends")
        else:
            await asyncio.sleep(4 * PATIENCE_S)
        assert ended == (["ended"] if ends else [])
    assert [subject for subject, _ in supervisor.heard].count("leave") == 1
