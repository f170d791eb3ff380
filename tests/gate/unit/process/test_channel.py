"""Questions and answers between processes."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from app.process.channel import Channel, NoAnswerError
from tests.klamm import until

Hear = Callable[[str, Any], Awaitable[object]]


async def echo(subject: str, detail: Any) -> object:  # noqa: ANN401 - JSON
    return [subject, detail]


@asynccontextmanager
async def both_ends(hear: Hear, hear_back: Hear = echo) -> AsyncIterator[tuple[Channel, Channel]]:
    """One end, and the other end, which hears by `hear`."""
    here, there = socket.socketpair()
    one, other = Channel(here, hear_back), Channel(there, hear)
    await one.open()
    await other.open()
    try:
        yield one, other
    finally:
        await one.close()
        await other.close()


async def test_each_end_may_ask_the_other_many_things_at_once() -> None:
    async with both_ends(echo) as (one, other):
        answers = await asyncio.gather(
            *(end.ask("n", {"n": n}, timeout_s=30) for n in range(50) for end in (one, other))
        )
    assert answers == [["n", {"n": n}] for n in range(50) for _ in range(2)]


async def test_answers_come_in_any_order() -> None:
    first = asyncio.Event()

    async def hear(subject: str, _: object) -> object:
        if subject == "slow":
            await first.wait()
        first.set()
        return subject

    async with both_ends(hear) as (one, _):
        answers = await asyncio.gather(one.ask("slow", timeout_s=30), one.ask("fast", timeout_s=30))
    assert list(answers) == ["slow", "fast"]


async def test_what_is_told_is_heard_in_order_and_not_answered() -> None:
    heard: list[object] = []

    async def hear(subject: str, detail: Any) -> object:  # noqa: ANN401 - JSON
        heard.append((subject, detail))
        return "nobody asked"

    async with both_ends(hear) as (one, _):
        one.tell("a")
        one.tell("b", [1])
        await one.ask("c", timeout_s=30)
    assert heard == [("a", None), ("b", [1]), ("c", None)]


async def test_no_answer_in_time_is_none_and_a_late_one_hurts_nobody() -> None:
    late = asyncio.Event()

    async def hear(subject: str, _: object) -> object:
        if subject == "slow":
            await late.wait()
        return subject

    async with both_ends(hear) as (one, _):
        with pytest.raises(NoAnswerError):
            await one.ask("slow", timeout_s=0.01)
        late.set()
        assert await one.ask("fast", timeout_s=30) == "fast"


async def test_a_question_that_fails_has_no_answer_and_the_next_one_has(caplog: pytest.LogCaptureFixture) -> None:
    async def hear(subject: str, _: object) -> object:
        return 1 // int(subject)

    async with both_ends(hear) as (one, _):
        with pytest.raises(NoAnswerError):
            await one.ask("0", timeout_s=30)
        assert await one.ask("1", timeout_s=30) == 1
    assert caplog.messages == ["channel_question_failed"]


async def test_the_end_of_one_is_noticed_by_the_other_and_by_who_waits() -> None:
    async def never(_: str, __: object) -> object:
        await asyncio.Event().wait()
        return None

    async with both_ends(never) as (one, other):
        asking = asyncio.create_task(one.ask("x", timeout_s=30))
        await asyncio.sleep(0.01)
        await other.close()
        with pytest.raises(NoAnswerError, match="gone"):
            await asking
        assert one.closed.is_set()
        one.tell("nobody")
        with pytest.raises(NoAnswerError, match="gone"):
            await one.ask("x", timeout_s=30)


async def test_an_end_that_does_not_read_is_not_written_to_without_bound() -> None:
    here, there = socket.socketpair()
    with there:
        one = Channel(here, echo)
        await one.open()
        for _ in range(3):
            with pytest.raises(NoAnswerError):
                await one.ask("x", "y" * 1024 * 1024, timeout_s=0.01)
        with pytest.raises(NoAnswerError, match="does not read"):
            await one.ask("x", timeout_s=30)
        one.tell("x")
        await one.close()


async def test_what_is_no_line_of_a_channel_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    here, there = socket.socketpair()
    with there:
        one = Channel(here, echo)
        await one.open()
        there.sendall(b"GET / HTTP/1.1\r\n")
        await asyncio.wait_for(one.closed.wait(), 30)
        await one.close()
    assert caplog.messages == ["channel_broken"]


def _is_over(end: Channel, heard: Sequence[object]) -> bool:
    return bool(heard) or end.closed.is_set()


async def test_a_line_may_have_8_mib_and_a_longer_one_ends_the_channel(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    most = 8 * 1024 * 1024
    for size, is_read in [(most, True), (most + 1, False)]:
        heard = list[int]()

        async def hear(_: str, detail: Any, heard: list[int] = heard) -> object:  # noqa: ANN401 - JSON
            heard.append(len(detail))
            return None

        with subtests.test(size=size):
            here, there = socket.socketpair()
            there.settimeout(0)
            one = Channel(here, hear)
            with there:
                await one.open()
                begins, ends = b'{"subject":"x","detail":"', b'"}'
                text = b"y" * (size - len(begins + ends))
                await asyncio.get_running_loop().sock_sendall(there, begins + text + ends + b"\n")
                await until(partial(_is_over, one, heard))
                await one.close()
            assert heard == ([len(text)] if is_read else [])
    assert caplog.messages == ["channel_broken"]
