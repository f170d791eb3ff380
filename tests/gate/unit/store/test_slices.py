"""Long work in short pieces."""

import asyncio
from typing import cast

from app.store.engine import Connection
from app.store.rows import SLICE, in_slices
from app.store.writing.acl_store import Group
from app.store.writing.head import LockedHead
from app.store.writing.journal import FeedTransaction


async def turns_during(pieces: int) -> int:
    """How many turns another task gets while this many slices are gone through."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    seen = [item async for some in in_slices(range(SLICE * pieces)) for item in some]
    task.cancel()
    assert seen == list(range(SLICE * pieces))
    return turns


async def test_the_loop_gets_a_turn_between_two_pieces() -> None:
    assert [await turns_during(pieces) for pieces in (0, 1, 2, 6)] == [0, 0, 1, 5]


async def test_short_lists_share_a_turn() -> None:
    group = Group(FeedTransaction(cast("Connection", None), cast("LockedHead", None)))
    turns: list[int] = []
    for number in range(1, 2 * SLICE + 1):
        asyncio.get_running_loop().call_soon(turns.append, number)
        await group._breathe(1)

    assert len(turns) >= 2 * SLICE - 1
    assert group._worked == 0
