"""Loads one after the other."""

import asyncio

import pytest

from app.process.roster import LoadTurns


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def ask(turns: LoadTurns, *who: int) -> dict[int, asyncio.Task[None]]:
    return {each: asyncio.create_task(turns.take(each)) for each in who}


def having(asked: dict[int, asyncio.Task[None]]) -> list[int]:
    return [who for who, task in asked.items() if task.done() and not task.cancelled()]


async def test_turns_come_in_the_order_of_asking_one_at_a_time() -> None:
    turns = LoadTurns(60)
    asked = ask(turns, 2, 3, 1)
    await settle()
    assert having(asked) == [2]
    turns.end(2)
    await settle()
    assert having(asked) == [2, 3]
    turns.end(3)
    await settle()
    assert having(asked) == [2, 3, 1]


async def test_who_ends_while_waiting_is_passed_over() -> None:
    turns = LoadTurns(60)
    asked = ask(turns, 1, 2, 3)
    await settle()
    turns.end(2)
    turns.end(1)
    await settle()
    assert having(asked) == [1, 3]
    assert asked[2].cancelled()


async def test_an_end_of_nothing_takes_nobodys_turn() -> None:
    turns = LoadTurns(60)
    asked = ask(turns, 1, 2)
    await settle()
    turns.end(3)
    await settle()
    assert having(asked) == [1]


async def test_a_cancelled_wait_does_not_get_the_turn() -> None:
    turns = LoadTurns(60)
    asked = ask(turns, 1, 2, 3)
    await settle()
    asked[2].cancel()
    await settle()
    turns.end(1)
    await settle()
    assert having(asked) == [1, 3]


async def test_a_turn_that_lasts_too_long_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    turns = LoadTurns(0.01)
    asked = ask(turns, 1, 2)
    await asyncio.wait_for(asked[2], 30)
    assert caplog.messages[0] == "load_takes_long"


async def test_the_late_end_of_a_turn_is_not_that_of_the_next_one() -> None:
    turns = LoadTurns(60)
    asked = ask(turns, 1, 2, 3)
    await settle()
    turns._overdue(1)
    turns.end(1)
    await settle()
    assert having(asked) == [1, 2]
