"""Sessions that were ended stay so, in every worker."""

import asyncio
import socket

from app.console.sessions import LIFETIME_S
from app.process.channel import Channel
from app.process.ended_sessions import KEPT_S, MOST, EndedSessions
from app.process.roster import Roster
from app.process.siblings import Siblings
from tests.gate.unit.process.test_siblings import PROBE, Supervisor, worker
from tests.klamm import until


def test_a_session_is_remembered_for_as_long_as_it_may_last() -> None:
    assert KEPT_S >= LIFETIME_S


def test_if_too_many_end_all_end_and_none_goes_on() -> None:
    ended = EndedSessions()
    for at in range(MOST):
        ended.add(str(at), 1_000.0)
    assert not ended.has("another", 999.0)
    ended.add("one more", 1_000.0)
    assert ended.has("0", 999.0)
    assert ended.has("another", 1_000.0)
    assert not ended.has("new", 1_000.5)
    assert ended.has("one more", 1_000.5)
    assert len(ended.to_list()) == 2


def test_what_is_over_by_itself_makes_room() -> None:
    ended = EndedSessions()
    for at in range(MOST):
        ended.add(str(at), 1_000.0)
    ended.add("one more", 1_001.0 + KEPT_S)
    assert len(ended.to_list()) == 2
    assert not ended.has("another", 1.0)


def test_a_worker_that_is_started_takes_over_what_has_ended() -> None:
    ended, other = EndedSessions(), EndedSessions()
    ended.add("a", 1_000.0)
    other.take(ended.to_list())
    assert other.has("a", 1.0)
    assert not other.has("b", 1.0)


async def test_a_worker_tells_the_supervisor_and_hears_of_others() -> None:
    supervisor = Supervisor({"session_ended": None})
    async with worker(supervisor) as found:
        await found.ended_sessions.end("mine")
        assert await supervisor.heard_of("session_ended") == "mine"
        assert supervisor.channel is not None
        await supervisor.channel.ask("session_ended", "another's", timeout_s=30)
        await supervisor.channel.ask("sessions_ended", [7.0, "earlier"], timeout_s=30)
        assert all(found.ended_sessions.has(each, 8.0) for each in ("mine", "another's", "earlier"))
        assert found.ended_sessions.has("any", 7.0)


async def test_a_session_has_ended_in_all_workers_when_the_one_that_asks_is_answered() -> None:
    roster = Roster(3)
    async with asyncio.timeout(60):
        found = [await _connected(roster, number) for number in range(3)]
        asking = next(iter(roster))
        await roster.end_session(asking, "a")
        assert [each.ended_sessions.has("a", 1.0) for each in found] == [False, True, True]
        roster.tell_ended_sessions(asking)
        await until(lambda: found[0].ended_sessions.has("a", 1.0))
        for each, at in zip(found, roster, strict=True):
            await each.close()
            assert at.channel is not None
            await at.channel.close()


async def _connected(roster: Roster, number: int) -> Siblings:
    here, there = socket.socketpair()

    async def hear(_: str, __: object) -> None: ...

    channel = [*roster][number].channel = Channel(here, hear)
    await channel.open()
    found = Siblings(there, -1, lambda: None)
    await found.open(PROBE)
    return found
