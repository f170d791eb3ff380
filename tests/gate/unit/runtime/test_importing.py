import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import NoReturn
from uuid import uuid4

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import NewAcl
from app.core.kafka.errors import StoreUnavailableException, TokenEpochMismatchException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import BulkAcl
from app.core.records import MAX_TRANSACTION_BYTES, record_bytes
from app.core.token import Token
from app.runtime.importing import ImportCounts, Importer, ImportOptions, OffsetRanges
from tests.fakes import FakeStore
from tests.updates import ACTOR, create, delete, new, topic
from tests.virtual_time import VIRTUAL_CLOCK, in_virtual_time, now

_OPTIONS = ImportOptions(batch_acls=10, clock=VIRTUAL_CLOCK)


class _World:
    """A store, and an import into it that remembers what it has reported."""

    def __init__(self, options: ImportOptions = _OPTIONS) -> None:
        self.store = FakeStore()
        self.reports: list[ImportCounts] = []
        self.upon: dict[int, Callable[[], object]] = {}
        """What happens in the step of the report of this number."""
        self.importer = Importer(self.store, ACTOR, self._report, options)

    def _report(self, counts: ImportCounts) -> None:
        self.reports.append(copy(counts))
        self.upon.get(len(self.reports), lambda: None)()

    @property
    def counts(self) -> tuple[int, int, int, int]:
        counts = self.importer.counts
        return counts.read, counts.created, counts.there, counts.repeated

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.store.batches]

    def begin(self, bindings: Iterable[NewAcl]) -> "asyncio.Task[None]":
        return asyncio.create_task(self.importer.run(bindings))


def topics(count: int) -> list[NewAcl]:
    return [NewAcl(topic(f"t{at:03d}")) for at in range(count)]


@in_virtual_time
async def test_all_bindings_go_into_the_store_in_order_and_in_batches() -> None:
    world = _World()
    await world.importer.run(topics(25))

    assert world.sizes == [10, 10, 5]
    made = [record.acl.binding for record in world.store.tables.records if hasattr(record, "acl")]
    assert new(made) == topics(25)
    assert {record.actor for record in world.store.tables.records} == {ACTOR}
    assert world.counts == (25, 25, 0, 0)
    assert world.importer.counts.token == Token(world.store.epoch, 25)
    assert [report.read for report in world.reports] == [10, 20, 25]
    assert not world.importer.counts.interrupted
    assert world.store.closed == ["store"]


@in_virtual_time
@pytest.mark.parametrize("batch_acls", [150, 1_000])
async def test_no_batch_is_longer_than_a_transaction_may_be(batch_acls: int) -> None:
    store = FakeStore()
    owned = [NewAcl(topic(f"{at}" + "x" * 32_000), None, "\U0001f600" * 200) for at in range(20)]
    await store.add({each.binding.natural_key: BulkAcl(uuid4(), each) for each in owned}, ACTOR, KnownHistory())
    store.batches.clear()
    # What has an owner already keeps it.
    ends = [NewAcl(each.binding, datetime(2099, 1, 1, tzinfo=UTC)) for each in owned]
    others = [NewAcl(topic(f"new{at}" + "x" * 32_000)) for at in range(1_230)]
    world = _World(replace(_OPTIONS, batch_acls=batch_acls))
    world.store = world.importer._store = store

    await world.importer.run([*ends, *others, *others[:10]])

    assert world.counts == (1_260, 1_230, 20, 10)
    assert sum(world.sizes) == 1_260
    assert max(world.sizes) <= batch_acls
    assert len(world.sizes) == (9 if batch_acls == 150 else 3)
    by_last: dict[int, int] = {}
    for record in store.tables.records:
        by_last[record.tx_last] = by_last.get(record.tx_last, 0) + record_bytes(record)
    assert MAX_TRANSACTION_BYTES // 8 < max(by_last.values()) <= MAX_TRANSACTION_BYTES


@in_virtual_time
async def test_a_last_batch_that_is_full_is_not_followed_by_an_empty_one() -> None:
    world = _World()
    await world.importer.run(topics(20))
    assert world.sizes == [10, 10]


@in_virtual_time
async def test_a_long_batch_is_made_ready_in_steps() -> None:
    world = _World(ImportOptions(batch_acls=250))
    await world.importer.run(topics(260))
    assert world.sizes == [250, 10]


@in_virtual_time
async def test_nothing_to_import_still_asks_the_store() -> None:
    world = _World()
    await world.importer.run([])
    assert world.sizes == [0]
    assert world.importer.counts.token == Token(world.store.epoch, 0)


@in_virtual_time
async def test_what_was_there_and_what_comes_twice_is_counted_apart() -> None:
    world = _World()
    await world.store.write([create(topic("t001"), topic("t012"))], KnownHistory())

    # t000 comes again within its batch, in the next one, and in the last.
    await world.importer.run([*topics(3), *topics(1), *topics(15), *topics(1)])

    assert world.counts == (20, 13, 2, 5)
    assert world.store.tables.last_offset == 15


@in_virtual_time
async def test_an_acl_that_another_writer_makes_meanwhile_was_there() -> None:
    world = _World()

    def bindings() -> Iterator[NewAcl]:
        yield from topics(20)
        # By now the first batch is in the store.
        world.store.commit([delete(AclBindingFilter(resource_name="t003")), create(topic("t003"), topic("new"))])
        yield from new([topic("t003"), topic("new"), topic("t004")])

    await world.importer.run(bindings())

    assert world.counts == (23, 20, 2, 1)


@pytest.mark.parametrize(("acls_per_s", "seconds"), [(10, 4.0), (0, 0.0)])
def test_it_is_no_faster_than_told(acls_per_s: int, seconds: float) -> None:
    @in_virtual_time
    async def story() -> None:
        world = _World(ImportOptions(batch_acls=10, acls_per_s=acls_per_s, clock=VIRTUAL_CLOCK))
        await world.importer.run(topics(40))
        assert seconds <= now() < seconds + 0.1
        # What is there already costs replicas nothing.
        again = Importer(world.store, ACTOR, lambda _: None, replace(_OPTIONS, acls_per_s=1))
        await again.run(topics(40))
        assert now() < seconds + 0.1

    story()


@in_virtual_time
async def test_time_that_was_lost_is_not_made_up_for() -> None:
    world = _World(ImportOptions(batch_acls=10, acls_per_s=10, clock=VIRTUAL_CLOCK))
    world.store.hang("write")
    work = world.begin(topics(40))
    await asyncio.sleep(20)
    world.store.release("write")
    await work
    assert 23 <= now() < 23.1


@in_virtual_time
async def test_it_stops_at_once_while_it_holds_itself_back() -> None:
    world = _World(ImportOptions(batch_acls=10, acls_per_s=1, clock=VIRTUAL_CLOCK))
    work = world.begin(topics(40))
    await asyncio.sleep(1)
    world.importer.stop()
    await work
    assert now() < 1.1
    assert world.importer.counts.interrupted


@in_virtual_time
async def test_an_outage_is_waited_out_and_told() -> None:
    world = _World()
    world.upon[1] = lambda: setattr(world.store, "unreachable", True)
    work = world.begin(topics(40))
    await asyncio.sleep(20)
    assert world.importer.counts.trouble == "PostgreSQL can't be reached; retry"
    world.store.unreachable = False
    await work

    assert world.counts == (40, 40, 0, 0)
    assert world.importer.counts.trouble is None
    rests = [report for report in world.reports if report.trouble]
    assert 8 <= len(rests) <= 16


@in_virtual_time
async def test_an_outage_without_end_ends_the_import() -> None:
    world = _World()
    world.upon[1] = lambda: setattr(world.store, "unreachable", True)
    with pytest.raises(StoreUnavailableException):
        await world.importer.run(topics(40))

    assert 60 < now() < 65
    assert world.counts[0] == world.store.tables.last_offset
    assert world.counts[0] < 40


@in_virtual_time
async def test_a_store_that_refuses_the_first_batch_is_not_asked_again() -> None:
    world = _World()
    world.store.unreachable = True
    with pytest.raises(StoreUnavailableException):
        await world.importer.run(topics(40))

    assert len(world.store.batches) == 1
    assert world.store.closed == ["store"]


@pytest.mark.parametrize("kept", [True, False])
def test_an_unknown_outcome_is_settled_by_trying_again(kept: bool) -> None:  # noqa: FBT001 - a parameter
    @in_virtual_time
    async def story() -> None:
        world = _World()
        world.upon[1] = lambda: setattr(world.store, "commit_unknown", "kept" if kept else "lost")
        world.upon[2] = lambda: setattr(world.store, "commit_unknown", None)
        await world.importer.run(topics(40))

        assert world.reports[1].trouble
        assert world.counts == (40, 40, 0, 0)
        assert world.store.tables.last_offset == 40

    story()


@in_virtual_time
async def test_a_store_that_hangs_is_given_up_and_asked_again() -> None:
    world = _World()
    world.upon[1] = lambda: world.store.hang("write")
    work = world.begin(topics(40))
    await asyncio.sleep(35)
    assert world.importer.counts.trouble == "PostgreSQL does not answer in time"
    world.store.release("write")
    await work
    assert world.counts == (40, 40, 0, 0)


@in_virtual_time
async def test_it_stops_after_the_batch_under_way() -> None:
    world = _World()
    world.store.hang("write")
    work = world.begin(topics(40))
    await asyncio.sleep(1)
    world.importer.stop()
    assert world.importer.stopping
    world.store.release("write")
    await work

    assert world.counts == (10, 10, 0, 0)
    assert world.importer.counts.interrupted
    assert world.store.closed == ["store"]


@in_virtual_time
async def test_stopped_after_the_last_batch_it_is_complete() -> None:
    world = _World()
    world.store.hang("write")
    work = world.begin(topics(10))
    await asyncio.sleep(1)
    world.importer.stop()
    world.store.release("write")
    await work
    assert not world.importer.counts.interrupted


@in_virtual_time
async def test_stopped_in_an_outage_it_does_not_claim_to_be_complete() -> None:
    world = _World()
    world.upon[1] = lambda: setattr(world.store, "unreachable", True)
    work = world.begin(topics(20))
    await asyncio.sleep(20)
    world.importer.stop()
    await work

    assert now() < 20.1
    assert world.importer.counts.interrupted
    assert world.counts == (10, 10, 0, 0)


@in_virtual_time
async def test_a_cancelled_import_closes_the_store() -> None:
    world = _World()
    world.store.hang("write")
    work = world.begin(topics(40))
    await asyncio.sleep(1)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert world.store.closed == ["store"]


@in_virtual_time
async def test_a_source_that_fails_ends_the_import_after_what_it_gave_before() -> None:
    def failing() -> Iterator[NewAcl]:
        yield from topics(25)
        raise ValueError("planted")

    world = _World()
    with pytest.raises(ValueError, match="planted"):
        await world.importer.run(failing())
    assert world.counts == (20, 20, 0, 0)
    assert world.store.closed == ["store"]


@in_virtual_time
async def test_it_goes_on_in_the_next_epoch_of_the_same_history() -> None:
    world = _World()
    world.upon[1] = world.store.begin_epoch
    await world.importer.run(topics(40))
    assert world.counts == (40, 40, 0, 0)
    assert world.importer.counts.token == Token(world.store.epoch, 40)


@in_virtual_time
async def test_another_history_ends_the_import() -> None:
    world = _World()
    world.upon[1] = lambda: world.store.restore(5)
    with pytest.raises(TokenEpochMismatchException, match="history changed"):
        await world.importer.run(topics(40))


@in_virtual_time
async def test_faults_of_the_batch_are_not_retried() -> None:
    class Broken(FakeStore):
        async def add(
            self, acls: Mapping[bytes, BulkAcl], actor: str, known: KnownHistory, comment: str | None = None
        ) -> NoReturn:
            raise ZeroDivisionError(acls, actor, known, comment)

    with pytest.raises(ZeroDivisionError):
        await Importer(Broken(), ACTOR, lambda _: None, _OPTIONS).run(topics(1))


@in_virtual_time
async def test_a_store_that_does_not_close_is_left_behind() -> None:
    world = _World()
    world.store.hang("close")
    await world.importer.run(topics(1))
    assert world.counts == (1, 1, 0, 0)
    world.store.release("close")


def test_offset_ranges_know_what_is_in() -> None:
    ranges = OffsetRanges()
    assert 1 not in ranges
    for some in ([2, 1, 3], [4], [], [10, 12, 11], [12], [13, 20]):
        ranges.add(some)
    assert [at for at in range(25) if at in ranges] == [1, 2, 3, 4, 10, 11, 12, 13, 20]
    assert ranges._starts == [1, 10, 20]
