import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.errors import (
    OverloadedException,
    PolicyViolationException,
    RequestTimedOutException,
    StoreUnavailableException,
    UnknownServerException,
)
from app.core.mutations import (
    MAX_RECORDS_PER_USER_OP,
    AlterConfigs,
    CreateAcls,
    CreateAclsOutcome,
    GroupOutcome,
    Mutation,
)
from app.metrics.declared import Metrics
from app.runtime.mutator import Committed, Mutator
from app.runtime.options import RuntimeOptions
from tests.fakes import FakeStore
from tests.klamm import until
from tests.updates import created, matches
from tests.virtual_time import in_virtual_time, now
from tests.world import OPTIONS, acl, create, delete, names_of


@asynccontextmanager
async def writing(store: FakeStore, options: RuntimeOptions = OPTIONS) -> AsyncIterator[Mutator]:
    mutator = Mutator(store, KnownHistory(), Metrics(), options)
    mutator.open()
    try:
        yield mutator
    finally:
        await mutator.close()


def submit(mutator: Mutator, mutation: Mutation, timeout_s: float = 5.0) -> asyncio.Task[Committed]:
    return asyncio.create_task(mutator.submit(mutation, timeout_s))


def is_about(name: str, mutation: Mutation) -> bool:
    return isinstance(mutation, CreateAcls) and any(each.binding.resource_name == name for each in mutation.acls)


@in_virtual_time
async def test_a_mutation_comes_back_with_its_outcome_and_the_token_that_holds_it() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        committed = await mutator.submit(create("a", "b", "a"), 5)
        assert isinstance(committed.outcome, CreateAclsOutcome)
        assert [each.created for each in created(committed.outcome)] == [True, True, False]
        assert (committed.token.epoch, committed.token.offset) == (store.epoch, 2)
        deleted = await mutator.submit(delete("a"), 5)
        ((gone,),) = matches(deleted.outcome)
        assert gone.binding == acl("a")
        assert mutator._metrics.mutator_mutations_written == mutator._metrics.mutator_groups_written == 2


@in_virtual_time
async def test_updates_that_wait_together_are_one_transaction_in_the_order_they_came() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        first = submit(mutator, create("first"))
        await asyncio.sleep(0.1)
        others = [submit(mutator, create(f"t{number}")) for number in range(20)]
        others.append(submit(mutator, delete("t5")))
        await asyncio.sleep(0.1)
        assert mutator._metrics.mutator_queue_size == 21
        store.release("write")
        tokens = {str((await task).token) for task in others}
        await first
        assert [len(group) for group in store.groups] == [1, 21]
        assert len(tokens) == 1
        assert "t5" not in names_of(store)
        assert mutator._metrics.mutator_queue_size == 0


@in_virtual_time
async def test_a_group_is_bounded_by_mutations_and_by_bindings() -> None:
    store = FakeStore()
    async with writing(store, replace(OPTIONS, max_group_mutations=4, max_group_bindings=10)) as mutator:
        store.hang("write")
        tasks = [submit(mutator, create("first"))]
        await asyncio.sleep(0.1)
        sizes = [1, 1, 1, 1, 1, 5, 5, 5, 30, 1]
        tasks += [submit(mutator, create(*(f"{at}-{n}" for n in range(size)))) for at, size in enumerate(sizes)]
        tasks += [submit(mutator, delete(*map(str, range(9)))), submit(mutator, delete("x"))]
        tasks += [submit(mutator, AlterConfigs([("audit.level", "INFO")], "User:admin"))]
        await asyncio.sleep(0.1)
        store.release("write")
        await asyncio.gather(*tasks)
        weights = [[len(each.acls) if isinstance(each, CreateAcls) else 0 for each in g] for g in store.groups]
        assert weights == [[1], [1, 1, 1, 1], [1, 5], [5, 5], [30], [1, 0], [0, 0]]


@in_virtual_time
async def test_deletes_of_one_group_stay_within_what_a_replica_takes_in_one_step() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        tasks = [submit(mutator, create("first"))]
        await asyncio.sleep(0.1)
        tasks += [submit(mutator, delete(str(at))) for at in range(25)]
        await asyncio.sleep(0.1)
        store.release("write")
        await asyncio.gather(*tasks)
        assert [len(group) for group in store.groups] == [1, 10, 10, 5]
    assert OPTIONS.max_group_deletes * MAX_RECORDS_PER_USER_OP <= OPTIONS.max_step_records


@in_virtual_time
async def test_a_refused_mutation_does_not_hinder_its_neighbours() -> None:
    store = FakeStore()
    async with writing(store, replace(OPTIONS, max_group_bindings=100_000)) as mutator:
        tasks = [submit(mutator, create("a"))]
        tasks += [submit(mutator, create(*map(str, range(10_001)))), submit(mutator, create("b"))]
        await tasks[0]
        with pytest.raises(PolicyViolationException):
            await tasks[1]
        await tasks[2]
        assert len(store.groups) == 1
        assert names_of(store) == ["a", "b"]


@in_virtual_time
async def test_a_group_that_fails_is_written_one_by_one_and_only_the_culprit_suffers() -> None:
    store = FakeStore()
    store.group_fault = lambda mutation: ValueError("bad") if is_about("bad", mutation) else None
    async with writing(store) as mutator:
        tasks = {name: submit(mutator, create(name)) for name in ("a", "b", "bad", "c")}
        left = submit(mutator, create("left"))
        store.hang("write")
        await asyncio.sleep(0.1)
        left.cancel()
        store.release("write")
        for name in ("a", "b", "c"):
            await tasks[name]
        with pytest.raises(UnknownServerException, match="was not written") as refusal:
            await tasks["bad"]
        assert "ValueError" not in refusal.value.message
        assert names_of(store) == ["a", "b", "c"]
        assert [len(group) for group in store.groups] == [5, 1, 1, 1, 1]
        assert mutator._metrics.mutator_group_failures == 2


@in_virtual_time
async def test_the_full_queue_refuses_at_once() -> None:
    store = FakeStore()
    async with writing(store, replace(OPTIONS, max_queued_mutations=3)) as mutator:
        store.hang("write")
        tasks = [submit(mutator, create("first"))]
        await asyncio.sleep(0.1)
        tasks += [submit(mutator, create(f"t{number}")) for number in range(3)]
        await asyncio.sleep(0.1)
        began_at = now()
        with pytest.raises(OverloadedException, match="not written"):
            await mutator.submit(create("too many"), 5)
        assert now() - began_at < 0.001
        store.release("write")
        await asyncio.gather(*tasks)
        await mutator.submit(create("later"), 5)
        assert "too many" not in names_of(store)


@in_virtual_time
async def test_the_queue_is_bounded_by_bindings_too_but_a_single_large_update_passes() -> None:
    store = FakeStore()
    async with writing(store, replace(OPTIONS, max_queued_bindings=10)) as mutator:
        store.hang("write")
        tasks = [submit(mutator, create("first"))]
        await asyncio.sleep(0.1)
        tasks += [submit(mutator, create(*map(str, range(50))))]
        await asyncio.sleep(0.1)
        with pytest.raises(OverloadedException):
            await mutator.submit(create("too many"), 5)
        store.release("write")
        await asyncio.gather(*tasks)
        await mutator.submit(create("later"), 5)


# the store is away


@in_virtual_time
async def test_while_the_store_is_away_updates_wait_for_it_until_their_deadline() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.unreachable = True
        patient, hasty = submit(mutator, create("patient"), 30), submit(mutator, create("hasty"), 2)
        with pytest.raises(StoreUnavailableException, match=r"was not written.*can't be reached"):
            await hasty
        assert now() == pytest.approx(2, abs=0.01)
        await asyncio.sleep(18)
        assert 30 < store.tries < 60
        # The one at work is not counted yet.
        assert mutator._metrics.mutator_group_failures in (store.tries - 1, store.tries)
        store.unreachable, back_at = False, now()
        await patient
        assert now() - back_at < 1
        assert names_of(store) == ["patient"]


@pytest.mark.parametrize("more_tries", [0, 1, 2])
@in_virtual_time
async def test_updates_keep_their_order_over_an_outage(more_tries: int) -> None:
    store = FakeStore()
    async with writing(store, replace(OPTIONS, max_group_mutations=1)) as mutator:
        store.unreachable = True
        tasks = [submit(mutator, create("a"), 30)]
        await asyncio.sleep(3)
        tasks += [submit(mutator, delete("a"), 30), submit(mutator, create("b"), 30)]
        tries = store.tries + 3 + more_tries
        await until(lambda: store.tries == tries)
        store.unreachable = False
        await asyncio.gather(*tasks)
        assert names_of(store) == ["b"]


@in_virtual_time
async def test_an_outage_amid_one_by_one_writing_queues_the_rest_again() -> None:
    store = FakeStore()

    def fault(mutation: Mutation) -> Exception | None:
        if len(store.groups) == 1:
            return ValueError("bad group")
        return StoreUnavailableException("away") if is_about("b", mutation) and len(store.groups) < 10 else None

    store.group_fault = fault
    async with writing(store) as mutator:
        tasks = [submit(mutator, create(name), 30) for name in ("a", "b", "c")]
        await asyncio.gather(*tasks)
        assert names_of(store) == ["a", "b", "c"]
        assert [len(group) for group in store.groups] == [3, 1, 1, *[2] * 7]


@in_virtual_time
async def test_an_unknown_outcome_is_told_at_once_and_never_repeated() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        for kept in ("kept", "lost"):
            store.commit_unknown = "kept" if kept == "kept" else "lost"
            tasks = [submit(mutator, create(f"{kept}-{number}")) for number in range(3)]
            for task in tasks:
                with pytest.raises(RequestTimedOutException, match="unknown"):
                    await task
        store.commit_unknown = None
        await mutator.submit(create("after"), 5)
        assert names_of(store) == ["after", "kept-0", "kept-1", "kept-2"]
        assert now() < 0.1
        assert len(store.groups) == 3


@in_virtual_time
async def test_a_write_that_hangs_is_given_up_with_an_unknown_outcome_and_the_next_goes_on() -> None:
    store = FakeStore()
    async with writing(store, replace(OPTIONS, write_timeout_s=7)) as mutator:
        store.hang("write")
        task = submit(mutator, create("hung"), 30)
        with pytest.raises(RequestTimedOutException):
            await task
        assert now() == pytest.approx(7, abs=0.01)
        assert mutator._metrics.mutator_group_failures == 1
        store.release("write")
        await mutator.submit(create("next"), 5)


@in_virtual_time
async def test_a_deadline_in_flight_is_unknown_and_one_in_the_queue_is_not_written() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        in_flight = submit(mutator, create("in flight"), 2)
        await asyncio.sleep(0.1)
        queued = submit(mutator, create("queued"), 1)
        await asyncio.sleep(0.1)
        with pytest.raises(StoreUnavailableException, match="was not written"):
            await queued
        with pytest.raises(RequestTimedOutException, match="unknown"):
            await in_flight
        assert mutator._metrics.mutator_queue_size == 0
        store.release("write")
        await mutator.submit(create("next"), 5)
        assert names_of(store) == ["in flight", "next"]


@in_virtual_time
async def test_a_deadline_before_its_turn_in_the_store_is_not_written_and_stays_so() -> None:
    """The way to the store may take long, or another writer its time: nothing is under way before that."""
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("begin")
        hasty, patient = submit(mutator, create("hasty"), 2), submit(mutator, create("patient"), 5)
        await asyncio.sleep(1)
        late = submit(mutator, create("late"), 5)
        with pytest.raises(StoreUnavailableException, match="was not written"):
            await hasty
        store.release("begin")
        await asyncio.gather(patient, late)
        assert names_of(store) == ["late", "patient"]
        assert [len(group) for group in store.groups] == [2]


@in_virtual_time
async def test_a_try_that_never_got_its_turn_takes_nobody_with_it_when_it_comes_back_to_life() -> None:
    store = FakeStore()
    hung = asyncio.Event()
    taken: list[Mutation] = []
    write = store.write

    async def deaf(mutations: Iterable[Mutation], known: KnownHistory) -> GroupOutcome:  # noqa: ARG001 - as the port names it
        """As a half-open connection that swallows cancellations."""
        store.write = write  # type: ignore[method-assign]  # the next try is as good as any
        while not hung.is_set():
            with suppress(asyncio.CancelledError):
                await hung.wait()
        taken.extend(mutations)
        raise ConnectionError

    store.write = deaf  # type: ignore[method-assign]
    async with writing(store, replace(OPTIONS, write_timeout_s=7)) as mutator:
        hasty, patient = submit(mutator, create("hasty"), 7.1), submit(mutator, create("patient"), 30)
        with pytest.raises(StoreUnavailableException, match="was not written"):
            await hasty
        store.hang("begin")
        await until(lambda: store.tries == 1)
        hung.set()
        await asyncio.sleep(1)
        assert taken == []
        store.release("begin")
        await patient
        assert names_of(store) == ["patient"]


@in_virtual_time
async def test_an_update_that_missed_its_deadline_is_not_retried_after_the_outage() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        task = submit(mutator, create("late"), 1)
        with pytest.raises(RequestTimedOutException):
            await task
        store.unreachable = True
        store.release("write")
        await asyncio.sleep(1)
        store.unreachable = False
        await asyncio.sleep(5)
        assert names_of(store) == []


@in_virtual_time
async def test_an_outcome_in_the_step_of_the_deadline_counts() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        task = submit(mutator, create("a"), 1)
        asyncio.get_running_loop().call_at(0.99999, store.release, "write")
        await task


@in_virtual_time
async def test_a_cancelled_caller_breaks_nothing() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        tasks = [submit(mutator, create(name)) for name in ("in flight", "in flight too")]
        await asyncio.sleep(0.1)
        tasks += [submit(mutator, create(name)) for name in ("queued", "stays")]
        await asyncio.sleep(0.1)
        tasks[0].cancel()
        tasks[2].cancel()
        await asyncio.sleep(0.1)
        store.release("write")
        await asyncio.gather(tasks[1], tasks[3])
        assert names_of(store) == ["in flight", "in flight too", "stays"]


# a store that breaks its word, and the end


@in_virtual_time
async def test_a_store_that_answers_nothing_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()

    async def short(mutations: Iterable[Mutation], _known: KnownHistory) -> GroupOutcome:
        outcome = store.commit(list(mutations))
        return replace(outcome, outcomes=outcome.outcomes[:-1])

    async with writing(store) as mutator:
        with monkeypatch.context() as patch:
            patch.setattr(store, "write", short)
            tasks = [submit(mutator, create("a")), submit(mutator, create("b"))]
            await tasks[0]
            with pytest.raises(RequestTimedOutException, match="unknown"):
                await tasks[1]
        await mutator.submit(create("c"), 5)


@in_virtual_time
async def test_closing_lets_the_group_in_flight_end_and_refuses_the_rest() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        in_flight = submit(mutator, create("in flight"))
        await asyncio.sleep(0.1)
        queued = submit(mutator, create("queued"))
        await asyncio.sleep(0.1)
        closing = asyncio.create_task(mutator.close())
        await asyncio.sleep(0.1)
        with pytest.raises(StoreUnavailableException, match="shutting down"):
            await queued
        with pytest.raises(StoreUnavailableException, match="shutting down"):
            await mutator.submit(create("late"), 5)
        assert not in_flight.done()
        store.release("write")
        await in_flight
        await closing
        assert store.closed == ["store"]
        assert names_of(store) == ["in flight"]


@in_virtual_time
async def test_closing_is_bounded_and_a_write_that_never_ends_is_unknown() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        task = submit(mutator, create("a"), 60)
        await asyncio.sleep(0.1)
        began_at = now()
        await mutator.close()
        assert now() - began_at < 6
        with pytest.raises(RequestTimedOutException, match="unknown"):
            await task


@in_virtual_time
async def test_closing_during_an_outage_refuses_what_waits() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.unreachable = True
        store.hang("write")
        tried, waiting = submit(mutator, create("tried"), 60), submit(mutator, create("waiting"), 60)
        await asyncio.sleep(0.1)
        closing = asyncio.create_task(mutator.close())
        await asyncio.sleep(0.1)
        store.release("write")
        await closing
        for task in (tried, waiting):
            with pytest.raises(StoreUnavailableException, match="not written"):
                await task
        assert now() < 1


@in_virtual_time
async def test_close_before_open_is_fine() -> None:
    mutator = Mutator(FakeStore(), KnownHistory(), Metrics(), OPTIONS)
    task = submit(mutator, create("a"))
    await until(lambda: mutator._metrics.mutator_queue_size == 1)
    await mutator.close()
    with pytest.raises(StoreUnavailableException):
        await task


@in_virtual_time
async def test_each_outage_begins_with_short_rests() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        for _ in range(3):
            store.unreachable = True
            task = submit(mutator, create("a"), 30)
            await asyncio.sleep(10)
            store.unreachable = False
            await task
            store.unreachable = True
            task = submit(mutator, create("b"), 30)
            await asyncio.sleep(0.06)
            store.unreachable, back_at = False, now()
            await task
            assert now() - back_at < 0.15


# a transaction is bounded

HALF = [f"{number:04d}" + "x" * 32_000 for number in range(300)]
"""More than half of what a transaction holds."""


@in_virtual_time
async def test_what_one_transaction_does_not_hold_goes_into_the_next_and_each_keeps_its_outcome() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        tasks = [submit(mutator, create("first"))]
        await asyncio.sleep(0.1)
        tasks += [submit(mutator, create(*(f"{letter}{name}" for name in HALF))) for letter in "abc"]
        tasks += [submit(mutator, create("after")), submit(mutator, delete(f"a{HALF[0]}"))]
        await asyncio.sleep(0.1)
        store.release("write")
        done = await asyncio.gather(*tasks)
        assert [len(group) for group in store.groups] == [1, 5, 4, 3]
        assert [each.token.offset for each in done] == [1, 301, 601, 903, 903, 903]
        assert [len(created(each.outcome)) for each in done[:5]] == [1, 300, 300, 300, 1]
        assert len(matches(done[5].outcome)[0]) == 1
        assert mutator._metrics.mutator_groups_written == 4
        assert mutator._metrics.mutator_mutations_written == 6
        assert mutator._metrics.mutator_queue_size == 0


@in_virtual_time
async def test_nothing_is_written_in_the_next_transaction_for_who_has_left() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        first = submit(mutator, create(*(f"a{name}" for name in HALF)))
        hasty = submit(mutator, create(*(f"b{name}" for name in HALF)), 2)
        with pytest.raises(RequestTimedOutException, match="unknown"):
            await hasty
        store.release("write")
        await first
        await mutator.submit(create("after"), 5)
        assert [len(group) for group in store.groups] == [2, 1]
        assert len(names_of(store)) == 301


@in_virtual_time
async def test_what_no_transaction_holds_is_refused_and_hinders_nobody() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        too_long = submit(mutator, create(*(f"{letter}{name}" for letter in "ab" for name in HALF)))
        others = [submit(mutator, create(*(f"{letter}{name}" for name in HALF))) for letter in "ab"]
        with pytest.raises(PolicyViolationException, match=r"at least 19,\d\d\d,\d\d\d bytes"):
            await too_long
        await asyncio.gather(*others)
        assert len(names_of(store)) == 600
        # The refused one was not tried again.
        assert sum(too_long_mutation(each) for group in store.groups for each in group) == 1


def too_long_mutation(mutation: Mutation) -> bool:
    return isinstance(mutation, CreateAcls) and len(mutation.acls) == 2 * len(HALF)


@in_virtual_time
async def test_what_waits_for_the_next_transaction_when_the_service_stops_was_not_written() -> None:
    store = FakeStore()
    async with writing(store) as mutator:
        store.hang("write")
        tasks = [submit(mutator, create(*(f"{letter}{name}" for name in HALF))) for letter in "ab"]
        await asyncio.sleep(0.1)
        closing = asyncio.create_task(mutator.close())
        await asyncio.sleep(0.1)
        store.release("write")
        await tasks[0]
        with pytest.raises(StoreUnavailableException, match="shutting down"):
            await tasks[1]
        await closing
        assert len(names_of(store)) == 300
