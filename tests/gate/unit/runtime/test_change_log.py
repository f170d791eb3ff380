"""The service's log says what each update has changed; it can be read or not, updates go on."""

import asyncio
import logging
from contextvars import Context
from dataclasses import replace
from typing import Any

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.errors import InvalidUpdateVersionException
from app.core.mutations import Mutation
from app.core.token import Token
from app.metrics.declared import Metrics
from app.runtime import change_log
from app.runtime.mutator import Mutator
from tests.fakes import FakeStore
from tests.updates import alter
from tests.world import OPTIONS, create, delete

LOGGER = logging.getLogger(change_log.__name__)


async def write(store: FakeStore, *mutations: Mutation) -> None:
    mutator = Mutator(store, KnownHistory(), Metrics(), OPTIONS)
    mutator.open()
    try:
        for each in mutations:
            await mutator.submit(each, 5)
    finally:
        await mutator.close()


def lines_of(store: FakeStore, caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    told = [vars(each) for each in caplog.records if each.message == "change_written"]
    return [each for each in told if each["token"].startswith(str(store.epoch))]


async def test_each_update_that_changes_something_is_told_once_with_its_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    store = FakeStore()
    with pytest.raises(InvalidUpdateVersionException):
        await write(store, replace(create("x"), guard=Token(store.epoch, 5)))
    await write(
        store,
        replace(create("a", "b", "a"), comment="OPS-1"),
        create("a"),
        alter(("audit.level", "DEBUG")),
        alter(("audit.level", "DEBUG")),
        delete("none"),
        delete("a"),
    )
    told = lines_of(store, caplog)
    assert [(each["call"], each["records"], each["token"], each.get("comment")) for each in told] == [
        ("createAcls", 2, f"{store.epoch}:2", "OPS-1"),
        ("alterConfigs", 1, f"{store.epoch}:3", None),
        ("deleteAcls", 1, f"{store.epoch}:4", None),
    ]
    assert {each["actor"] for each in told} == {create("a").actor, alter().actor}


async def test_updates_of_one_transaction_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    store = FakeStore()
    token = Token(store.epoch, 9)
    some: list[Mutation] = [create("a"), create("b"), replace(create("c"), comment="why"), delete("a"), create("none")]
    await change_log.log_changes([change_log.Written(each, int(each != some[-1]), Context()) for each in some], token)
    told = lines_of(store, caplog)
    assert [(each["call"], each["records"], each.get("requests"), each.get("comment")) for each in told] == [
        ("createAcls", 2, 2, None),
        ("createAcls", 1, None, "why"),
        ("deleteAcls", 1, None, None),
    ]
    assert {each["token"] for each in told} == {str(token)}


async def test_a_long_transaction_logs_in_short_steps(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    store, turns = FakeStore(), 0

    async def answer() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    answering = asyncio.create_task(answer())
    some = [change_log.Written(replace(create("a"), comment=f"OPS-{each}"), 1, Context()) for each in range(2_000)]
    await change_log.log_changes(some, Token(store.epoch, 9))
    answering.cancel()
    assert len(lines_of(store, caplog)) == 2_000
    assert turns > 2
