"""Records that can't be applied: never half of them, and never a decision from a doubtful image."""

import asyncio
from dataclasses import replace

import pytest

from app.core.image import AuthorizerImage
from app.core.kafka.errors import PoisonedRecordException, UnknownRecordException
from app.core.records import AccessControlEntryRecord
from app.runtime.readiness import State
from tests.chains import config
from tests.fakes import FakeStore
from tests.gate.unit.runtime.test_watch import equals, reading
from tests.klamm import until
from tests.virtual_time import in_virtual_time, now
from tests.world import OPTIONS, ROOT, authorizer_on, create, may_read, names_in, until_ready


@in_virtual_time
async def test_a_poisoned_record_freezes_at_the_last_good_offset() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.poisoned_snapshot = True
        store.poisoned_offset = 4
        store.notify_lost = True
        store.commit([create("b")])
        store.commit([create("c")])
        store.commit([create("d")])
        store.commit([create("e")])
        store.disconnect()
        await until(lambda: authorizer.readiness.state is State.LAGGING)
        await asyncio.sleep(20)
        assert authorizer.image.offset == 3
        assert names_in(authorizer.image) == ["a", "b", "c"]
        assert authorizer.readiness.ready()
        assert "record 4" in str(authorizer.readiness.checks()) or "snapshot" in str(authorizer.readiness.checks())
        assert authorizer.metrics.records_poisoned > 2
        store.poisoned_offset = None
        await until_ready(authorizer)
        assert authorizer.image.offset == 5
        assert authorizer.metrics.image_loads == 1


@in_virtual_time
async def test_a_poisoned_record_within_a_transaction_leaves_nothing_of_it() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.poisoned_snapshot = True
        store.poisoned_offset = 4
        store.commit([create("b", "c", "d")])
        await asyncio.sleep(5)
        assert names_in(authorizer.image) == ["a"]
        assert authorizer.image.offset == 1


@in_virtual_time
async def test_a_sound_table_heals_a_poisoned_feed() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.poisoned_offset = 2
        store.commit([create("b")])
        await until(lambda: may_read(authorizer, "b"), limit_s=2)
        await until_ready(authorizer)
        assert authorizer.metrics.image_loads == 2
        assert authorizer.metrics.records_poisoned == 1
        store.commit([create("c")])
        await until(lambda: may_read(authorizer, "c"))


@in_virtual_time
async def test_a_record_of_a_later_version_is_passed_by_a_snapshot_and_counted() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.poisoned_offset, store.poison = 2, UnknownRecordException
        store.commit([create("b")])
        await until(lambda: may_read(authorizer, "b"), limit_s=2)
        await until_ready(authorizer)
        assert (authorizer.metrics.records_unknown, authorizer.metrics.records_poisoned) == (1, 1)
        store.poisoned_offset, store.poison = 3, PoisonedRecordException
        store.commit([create("c")])
        await until(lambda: may_read(authorizer, "c"), limit_s=2)
        assert (authorizer.metrics.records_unknown, authorizer.metrics.records_poisoned) == (1, 2)


@in_virtual_time
async def test_a_property_of_a_later_version_stops_nothing_and_is_handed_on() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer, reading(authorizer) as live:
        store.append(store.chained([config("later.property", "on"), config("audit.level", "WARN")]))
        store.commit([create("a")])
        await until(lambda: may_read(authorizer, "a"))
        assert authorizer.image.overrides == {"later.property": "on", "audit.level": "WARN"}
        assert authorizer.image.config.audit_level == "WARN"
        assert authorizer.metrics.configs_unknown == 1
        names = [entry.name for entry in authorizer.describe_configs(ROOT)]
        assert ("later.property" in names, "audit.level" in names) == (False, True)
        async with reading(authorizer) as fresh, authorizer_on(store, OPTIONS) as loaded:
            await until(lambda: live.offset == fresh.offset == store.tables.last_offset)
            assert equals(live.seen, store)
            assert equals(fresh.seen, store)
            assert loaded.image.overrides == authorizer.image.overrides
            assert loaded.image.config == authorizer.image.config
            assert loaded.metrics.configs_unknown == 1
            store.append(store.chained([config("later.property", None)]))
            await until(lambda: authorizer.metrics.configs_unknown == loaded.metrics.configs_unknown == 0)
        assert authorizer.metrics.image_loads == 1
        assert authorizer.metrics.records_poisoned == 0


@in_virtual_time
async def test_while_a_record_stays_poisoned_snapshots_become_seldom_but_looks_do_not() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.poisoned_snapshot, store.poisoned_offset = True, 2
        store.commit([create("b")])
        await asyncio.sleep(300)
        assert authorizer.metrics.image_load_failures < 25
        assert authorizer.metrics.feed_poll_failures > 300
        store.unreachable = True
        await asyncio.sleep(30)
        store.unreachable, store.poisoned_offset = False, None
        back_at = now()
        await until_ready(authorizer)
        assert now() - back_at < 2


@in_virtual_time
async def test_a_record_that_can_not_follow_the_image_is_never_half_applied() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        first = store.tables.records[0]
        assert isinstance(first, AccessControlEntryRecord)
        store.poisoned_snapshot = True
        sound = replace(first, acl=replace(first.acl, binding=first.acl.binding._replace(resource_name="b")))
        store.append(store.chained([sound, first]))
        await asyncio.sleep(5)
        assert names_in(authorizer.image) == ["a"]
        assert authorizer.readiness.state is State.LAGGING
        assert "already exists" in str(authorizer.readiness.checks()) or authorizer.metrics.image_load_failures


@in_virtual_time
async def test_a_broken_hash_chain_is_poison() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.poisoned_snapshot = True
        store.commit([create("b")])
        store.tables.records[-1] = replace(store.tables.records[-1], actor="User:mallory")
        await asyncio.sleep(5)
        assert names_in(authorizer.image) == ["a"]
        assert authorizer.metrics.records_poisoned > 0


@in_virtual_time
async def test_a_head_without_its_records_is_damage() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        authorizer._loader._feed._behind = lambda *_: []  # type: ignore[attr-defined]  # the fake loses the tail
        store.poisoned_snapshot = True
        store.commit([create("b")])
        await until(lambda: "record is missing" in str(authorizer.readiness.checks()))
        assert authorizer.readiness.ready()


@in_virtual_time
async def test_an_image_lost_to_a_fault_of_ours_is_not_decided_on(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.hang("slice")

        def crash(_: AuthorizerImage, __: object) -> AuthorizerImage:
            raise ZeroDivisionError("planted")

        monkeypatch.setattr(AuthorizerImage, "apply", crash)
        store.commit([create("b")])
        await until(lambda: not authorizer.readiness.ready())
        monkeypatch.undo()
        assert authorizer.readiness.state is State.LOADING
        assert authorizer.readiness.started
        assert may_read(authorizer, "a", "User:admin")
        assert authorizer.image.acl_count == -1
        store.release("slice")
        await until_ready(authorizer)
        assert names_in(authorizer.image) == ["a", "b"]
