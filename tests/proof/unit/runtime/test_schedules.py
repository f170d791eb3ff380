"""Seeded schedules of updates and faults: whatever happens in whatever order, the promises hold."""

import asyncio
import random as draws
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from app.core.kafka.errors import (
    OffsetNotAvailableException,
    RequestTimedOutException,
    StoreUnavailableException,
    TokenEpochMismatchException,
)
from app.core.records import Record
from app.core.token import Token
from app.runtime.authorizer import Authorizer
from app.runtime.readiness import State
from tests.fakes import FakeStore, Step
from tests.klamm import until
from tests.updates import new
from tests.virtual_time import in_virtual_time
from tests.world import OPTIONS, ROOT, acl, authorizer_on, create, may_read, named, names_in, names_of

SHORT = replace(OPTIONS, request_timeout_s=3, write_timeout_s=2, snapshot_timeout_s=3)
HANGING: tuple[Step, ...] = ("write", "poll", "snapshot", "slice", "wait")


class RecordingStore(FakeStore):
    """Remembers what it held at each offset of each history: the truth that every image is held against."""

    def __init__(self) -> None:
        super().__init__()
        self.rows_per_slice = 2
        self.states: dict[tuple[UUID, int, bytes], list[str]] = {}
        self.remember()

    def append(self, records: Sequence[Record]) -> None:
        super().append(records)
        self.remember()

    def begin_epoch(self, *known: UUID, first_offset: int | None = None) -> None:
        super().begin_epoch(*known, first_offset=first_offset)
        self.remember()

    def remember(self) -> None:
        self.states[self.epoch, self.tables.last_offset, self.tables.hash] = names_of(self)

    def check(self, authorizer: Authorizer) -> None:
        image = authorizer.image
        assert image.epoch is not None, "an image was lost"
        assert names_in(image) == self.states[image.epoch, image.offset, image.hash]


class Writer:
    """Works on topics that are its own; knows what they must be, unless an outcome is unknown."""

    def __init__(self, name: str, here: Authorizer, there: Authorizer, random: Random) -> None:
        self.topics = [f"{name}-{number}" for number in range(3)]
        self.known = dict.fromkeys(self.topics, False)
        self.acknowledged = 0
        self._here, self._there, self._random = here, there, random

    async def run(self, *, failovers: bool) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0, 0.3))
            topic, wanted = self._random.choice(self.topics), self._random.random() < 0.6
            before = self.known.pop(topic, None)
            try:
                token = await self._update(topic, wanted=wanted)
            except RequestTimedOutException:
                continue
            except StoreUnavailableException:
                if before is not None:
                    self.known[topic] = before
                continue
            self.known[topic] = wanted
            self.acknowledged += 1
            if not failovers:
                assert may_read(self._here, topic) is wanted
                await self._look_elsewhere(topic, token)

    async def _update(self, topic: str, *, wanted: bool) -> Token:
        if wanted:
            return (await self._here.updates.create_acls(ROOT, new([acl(topic)]), 3))[1]
        return (await self._here.updates.delete_acls(ROOT, [named(topic)], 3))[1]

    async def _look_elsewhere(self, topic: str, token: Token) -> None:
        try:
            await self._there.wait_for(str(token))
        except (OffsetNotAvailableException, TokenEpochMismatchException):
            return
        assert may_read(self._there, topic) is self.known[topic], "an answer older than the caller's token"


def break_something(store: RecordingStore, random: Random, *, failovers: bool) -> None:
    """Set, change or take back one fault."""
    last = store.tables.last_offset
    faults: list[Callable[[], object]] = [
        lambda: toggle(store, "unreachable"),
        lambda: toggle(store, "notify_lost"),
        lambda: toggle(store, "poisoned_snapshot"),
        lambda: setattr(store, "poisoned_offset", random.choice([None, last, last + 1])),
        lambda: setattr(store, "fail_after_slices", random.choice([None, 0, 1])),
        lambda: setattr(store, "commit_unknown", random.choice([None, None, "kept", "lost"])),
        lambda: store.hang(random.choice(HANGING)),
        lambda: release_all(store),
        store.disconnect,
        lambda: store.trim(random.randint(store.log_start_offset, last + 1)),
    ]
    if failovers:
        faults.append(lambda: take_over(store, random.randint(store.log_start_offset - 1, last), random))
    random.choice(faults)()


def toggle(store: RecordingStore, switch: str) -> None:
    setattr(store, switch, not getattr(store, switch))


def take_over(store: RecordingStore, offset: int, random: Random) -> None:
    store.restore(offset, new_epoch=random.random() < 0.7)
    store.remember()


def release_all(store: FakeStore) -> None:
    for step in HANGING:
        if step in store.hanging:
            store.release(step)


def heal(store: FakeStore) -> None:
    release_all(store)
    store.unreachable = store.notify_lost = store.poisoned_snapshot = False
    store.poisoned_offset = store.fail_after_slices = store.commit_unknown = None


async def keep_checking(store: RecordingStore, replicas: Sequence[Authorizer]) -> None:
    while True:
        for authorizer in replicas:
            store.check(authorizer)
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("failovers", [False, True])
@pytest.mark.parametrize("at", range(24))
@in_virtual_time
async def test_whatever_happens_images_are_true_acknowledged_updates_stay_and_all_heals(
    at: int,
    failovers: bool,  # noqa: FBT001 - a parameter of pytest
) -> None:
    random, store = Random(draws.randrange(1 << 32) + at), RecordingStore()
    async with authorizer_on(store, SHORT) as one, authorizer_on(store, SHORT) as other:
        writers = [Writer(f"w{number}", *((one, other) if number % 2 else (other, one)), random) for number in range(4)]
        tasks = [asyncio.create_task(writer.run(failovers=failovers)) for writer in writers]
        tasks.append(asyncio.create_task(keep_checking(store, (one, other))))
        for _ in range(60):
            await asyncio.sleep(random.uniform(0, 1))
            break_something(store, random, failovers=failovers)
        heal(store)
        # Whoever was told nothing may still be in flight: let the writers come to rest.
        await asyncio.sleep(10)
        ended, _ = await asyncio.wait(tasks, timeout=0)
        for task in ended:
            task.result()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        store.commit([create("the end")])
        for authorizer in (one, other):
            await until(lambda: authorizer.readiness.state is State.READY, limit_s=40)  # noqa: B023 - awaited within the turn
            await until(lambda: names_in(authorizer.image) == names_of(store), limit_s=3)  # noqa: B023 - the same
        assert sum(writer.acknowledged for writer in writers) > 10
        if not failovers:
            stored = set(names_of(store))
            for writer in writers:
                assert {topic: topic in stored for topic in writer.known} == writer.known
