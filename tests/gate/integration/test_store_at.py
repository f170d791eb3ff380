"""`at`: what is answered of a moment of the past equals core on the image of then, folded from every record."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import uuid4

import pytest

from app.core.access.what import WhatQuestion
from app.core.epochs import next_epoch
from app.core.index.table import SortKey
from app.core.kafka.errors import (
    InvalidRequestException,
    OffsetNotAvailableException,
    OffsetOutOfRangeException,
    TokenEpochInvalidException,
    TokenEpochMismatchException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.past import Moment, PastState
from app.core.token import Token
from app.store.engine import Connection
from tests.budgets import seeds
from tests.histories import records_of, write_history
from tests.images import image_of
from tests.past import tables_at
from tests.past_worlds import NAMES, ROOT, ROOT_ID, STARTUP, World, ask, compare, text_of, world_on


@pytest.fixture
async def world(store_url: str, database: Connection) -> AsyncIterator[World]:
    async with world_on(store_url, database) as world:
        yield world


async def test_answers_of_the_past_equal_core_on_the_image_of_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.runtime.past._STRETCH", 20)
    # Some moments are recent, and most are not.
    monkeypatch.setattr("app.store.reading.state._RECENT", 25)
    await compare(world, seeds("histories"), 100)


async def test_a_list_of_a_recent_moment_does_not_read_the_history_before_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.runtime.past._STRETCH", 20)
    await world.begin(Random(3))
    for _ in range(20):
        await write_history(world.store, Random(4), 10)
    records, at = await records_of(world.feed)
    assert len(records) > 300
    await write_history(world.store, Random(5), 4)
    asked: list[int] = []
    really = world.source.stretch

    async def stretch(at: Moment, after: SortKey | None, rows: int) -> PastState:
        asked.append(rows)
        return await really(at, after, rows)

    monkeypatch.setattr(world.source, "stretch", stretch)
    expected = image_of(tables_at(records, len(records)).listed(), STARTUP)
    found, cursor = 0, None
    while True:
        page = await world.past.acls(ROOT, AclBindingFilter(), 1_000, cursor, str(at))
        found += len(page.acls)
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert found == expected.acl_count
    assert len(asked) <= expected.acl_count // 20 + len(NAMES)


async def test_what_is_trimmed_is_refused_and_the_rest_is_answered_as_before(world: World) -> None:
    for seed in seeds("histories"):
        draw = Random(seed)
        await world.begin(draw)
        while await world.feed.trim(keep_age=None, keep_count=30):
            pass
        start = await world.database.fetchval("SELECT log_start_offset FROM acl_head")
        assert start > 1
        oldest = world.records[start - 1]
        for at in (
            world.epochs.token_of(start - 1),
            Token(world.epochs.last, 0),
            oldest.recorded_at - timedelta(microseconds=1),
        ):
            with pytest.raises(OffsetOutOfRangeException, match=str(world.epochs.token_of(start))) as refusal:
                await world.past.of_principal(ROOT, WhatQuestion("User:alice"), text_of(at))
            assert refusal.value.oldest_token == str(world.epochs.token_of(start))
            assert oldest.recorded_at.isoformat()[:19] in refusal.value.message
        for _ in range(100):
            await ask(world, draw, start)


async def test_what_can_not_be_known_is_refused(world: World) -> None:
    await world.begin(Random(1))
    begun, last = world.epochs.rows[-1], len(world.records)
    for at, refusal in (
        (str(Token(begun.id, last + 1)), OffsetNotAvailableException),
        (str(Token(next_epoch(datetime(2020, 1, 1, tzinfo=UTC), [begun.id], uuid4()), 1)), OffsetNotAvailableException),
        (str(Token(next_epoch(datetime(2999, 1, 1, tzinfo=UTC), [], uuid4()), 1)), TokenEpochInvalidException),
        (str(Token(world.epochs.rows[-2].id, begun.first_offset + 1)), TokenEpochMismatchException),
        (str(Token(ROOT_ID, 1)), TokenEpochMismatchException),
        ("2999-01-01T00:00:00Z", InvalidRequestException),
        ("tomorrow", InvalidRequestException),
    ):
        with pytest.raises(refusal, match="`at`"):
            await world.past.of_principal(ROOT, WhatQuestion("User:alice"), at)


async def test_a_question_that_touches_too_much_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.begin(Random(2))
    monkeypatch.setattr("app.store.reading.state.MOST", 3)
    with pytest.raises(InvalidRequestException, match="more than 3"):
        await world.past.of_principal(ROOT, WhatQuestion("User:alice"), str(Token(world.epochs.last, 1)))
