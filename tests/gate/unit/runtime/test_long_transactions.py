"""Transactions too long for one step: prepared beside the image, seen whole by everyone at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from app.core.image import StagedTransaction
from app.core.index.staging import StagedIndex
from app.core.index.tree import AclIndex
from app.core.kafka.codes import AclOperation
from app.runtime import applying, pace
from app.runtime.authorizer import Authorizer
from app.runtime.readiness import State
from tests.fakes import BIRTH, FakeStore
from tests.klamm import until
from tests.virtual_time import in_virtual_time
from tests.world import ALICE, OPTIONS, authorizer_on, create, delete, may_read, names_in, names_of, until_ready

MANY = 3 * applying.AT_ONCE
FIRST = [f"a{number}" for number in range(MANY)]
SECOND = [f"b{number}" for number in range(MANY)]


@pytest.fixture(autouse=True)
def _every_step_gives_the_loop_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_STEP_S", -1.0)


def readable(authorizer: Authorizer) -> set[str]:
    """What alice may read, by one caller's questions in one step."""
    caller = authorizer.rights.authorization(ALICE)
    return {name for name in (*FIRST, *SECOND) if caller.decide(AclOperation.READ, 2, name).allowed}


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, note: Callable[[], None]) -> None:
    """Have a method of a class noted when it has run."""
    method = getattr(owner, name)

    def noting(*arguments: Any) -> Any:  # noqa: ANN401 (stands in for any method)
        result = method(*arguments)
        note()
        return result

    monkeypatch.setattr(owner, name, noting)


@in_virtual_time
async def test_a_reader_between_all_steps_sees_only_whole_transactions() -> None:
    store = FakeStore()
    store.commit([create(*FIRST)])
    async with authorizer_on(store, OPTIONS) as authorizer:
        seen: list[tuple[int, frozenset[str], int]] = []

        async def read() -> None:
            while True:
                seen.append((authorizer.image.offset, frozenset(readable(authorizer)), authorizer.image.acl_count))
                await asyncio.sleep(0)

        reader = asyncio.create_task(read())
        store.commit([delete(*FIRST), create(*SECOND)])
        offset = store.tables.last_offset
        await until(lambda: authorizer.image.offset == offset)
        await asyncio.sleep(0.01)
        reader.cancel()
        assert await asyncio.gather(reader, return_exceptions=True)
    assert len(seen) > 20
    assert set(seen) == {(MANY, frozenset(FIRST), MANY), (offset, frozenset(SECOND), MANY)}


@in_virtual_time
async def test_who_waits_for_the_transaction_is_woken_when_it_is_seen() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        outcome = store.commit([create(*FIRST)])
        await authorizer.wait_for(f"{outcome.epoch}:{outcome.last_offset}")
        assert readable(authorizer) == set(FIRST)
        assert authorizer.metrics.transactions_applied == 1
        assert authorizer.metrics.records_applied == MANY


@in_virtual_time
async def test_a_fault_while_it_is_prepared_leaves_the_image_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    store.commit([create("x")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.hang("slice")

        def crash(*_: object) -> None:
            raise ZeroDivisionError("planted")

        monkeypatch.setattr(StagedIndex, "settle", crash)
        store.commit([create(*FIRST)])
        await until(lambda: authorizer.readiness.state is State.LAGGING)
        assert authorizer.readiness.ready()
        assert names_in(authorizer.image) == ["x"]
        assert may_read(authorizer, "x")
        assert not readable(authorizer)
        store.release("slice")
        await until_ready(authorizer)
        assert names_in(authorizer.image) == names_of(store)


@in_virtual_time
async def test_a_fault_within_the_commit_loses_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    store.commit([create("x")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.hang("slice")

        def crash(_: object) -> None:
            raise ZeroDivisionError("planted")

        monkeypatch.setattr(StagedIndex, "commit", crash)
        store.commit([create(*FIRST)])
        await until(lambda: not authorizer.readiness.ready())
        assert authorizer.image.acl_count == -1
        assert may_read(authorizer, "x", "User:admin")
        store.release("slice")
        await until_ready(authorizer)
        assert names_in(authorizer.image) == names_of(store)


@in_virtual_time
async def test_closing_while_it_is_prepared_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    store.commit([create("x")])
    added, half = 0, asyncio.Event()
    async with authorizer_on(store, OPTIONS) as authorizer:

        def note() -> None:
            nonlocal added
            added += 1
            if added == MANY // 2:
                half.set()

        counted(monkeypatch, AclIndex, "add", note)
        store.commit([create(*FIRST)])
        await half.wait()
        await authorizer._loader.close()
        assert added < MANY
        assert authorizer.image.offset == 1
        assert names_in(authorizer.image) == ["x"]
        table = authorizer.image.index.table
        assert len(table.codes) - len(table.free_rows) == len(table) == 1


@in_virtual_time
async def test_a_poisoned_record_at_its_end_leaves_nothing_of_it() -> None:
    store = FakeStore()
    store.commit([create("x")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.poisoned_snapshot = True
        drafts = (
            store.tables.copy().draft(create(*FIRST, "x"), BIRTH)[1] + store.tables.copy().draft(create("y"), BIRTH)[1]
        )
        again = store.tables.records[0]
        store.append(store.chained([*drafts, again]))
        await until(lambda: "already exists" in str(authorizer.readiness.checks()))
        assert names_in(authorizer.image) == ["x"]
        assert authorizer.image.offset == 1


@in_virtual_time
async def test_a_load_catches_up_over_long_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    store.commit([create("x")])
    committed = 0

    def note() -> None:
        nonlocal committed
        committed += 1

    counted(monkeypatch, StagedTransaction, "commit", note)
    store.hang("slice")
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        await asyncio.sleep(0.1)
        store.commit([create(*FIRST)])
        store.commit([delete(*FIRST), create(*SECOND)])
        store.release("slice")
        await until_ready(authorizer)
        assert committed == 2
        assert authorizer.image.offset == store.tables.last_offset
        assert readable(authorizer) == set(SECOND)


@in_virtual_time
async def test_small_transactions_between_long_ones_are_applied_in_order() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        for turn in range(4):
            store.commit([create(*FIRST)])
            store.commit([create(f"small{turn}")])
            store.commit([delete(*FIRST[turn:])])
            store.commit([delete(*FIRST[:turn], f"small{turn}"), create("z")])
        await until(lambda: authorizer.image.offset == store.tables.last_offset)
        assert names_in(authorizer.image) == names_of(store) == ["z"]
        assert authorizer.metrics.image_loads == 1
        await asyncio.sleep(0.1)
        table = authorizer.image.index.table
        assert len(table.codes) - len(table.free_rows) == len(table) == 1
