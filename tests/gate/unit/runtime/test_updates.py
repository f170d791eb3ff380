"""createAcls, deleteAcls and alterConfigs: durable and visible here when the call returns."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation
from app.core.kafka.configs import CONFIG_NAMES
from app.core.kafka.errors import (
    ApiException,
    AuthorizerNotReadyException,
    InvalidRequestException,
    PolicyViolationException,
    RequestTimedOutException,
    StoreUnavailableException,
    UnknownServerException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import AlterConfigsOutcome, CreatedAcl
from app.runtime.authorizer import ConfigEntry
from tests.contexts import GRANTED
from tests.fakes import FakeStore
from tests.updates import new
from tests.virtual_time import in_virtual_time, now
from tests.world import OPTIONS, ROOT, acl, authorizer_on, create, may_read, named, names_of, unopened

REFUSAL = InvalidRequestException("this entry is refused by an earlier hand")


@in_virtual_time
async def test_created_acls_are_durable_and_visible_here_when_the_call_returns() -> None:
    store = FakeStore()
    store.notify_lost = True
    async with authorizer_on(store, OPTIONS) as authorizer:
        began_at = now()
        results, token = await authorizer.updates.create_acls(ROOT, new([acl("a"), acl("a"), acl("b")]), None)
        assert now() - began_at < 0.1
        assert may_read(authorizer, "a")
        assert [isinstance(each, CreatedAcl) and each.created for each in results] == [True, False, True]
        assert token == authorizer.image.token
        assert authorizer.image.acl_count == 2
        assert store.tables.records[0].actor == "User:admin"
        metrics = authorizer.metrics
        assert (
            sum(metrics.request_local_time_seconds["createAcls"].counts)
            == sum(metrics.request_remote_time_seconds["createAcls"].counts)
            == 1
        )
        assert sum(metrics.request_local_time_seconds["deleteAcls"].counts) == 0


@in_virtual_time
async def test_deleted_acls_are_gone_when_the_call_returns() -> None:
    store = FakeStore()
    store.commit([create("a", "b")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        results, token = await authorizer.updates.delete_acls(ROOT, [named("a"), named("nothing"), named("a")], None)
        assert not may_read(authorizer, "a")
        assert [[each.binding for each in some] for some in results if isinstance(some, list)] == [
            [acl("a")],
            [],
            [acl("a")],
        ]
        assert token.offset == 3
        assert sum(authorizer.metrics.request_local_time_seconds["deleteAcls"].counts) == 1
        assert sum(authorizer.metrics.request_remote_time_seconds["deleteAcls"].counts) == 1


@in_virtual_time
async def test_refused_entries_stay_in_their_places_and_are_not_written() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        entries: list[AclBinding | ApiException] = [acl("a"), REFUSAL, acl("b", "no colon"), acl("c"), acl("")]
        results, _ = await authorizer.updates.create_acls(ROOT, new(entries), None)
        assert [isinstance(each, ApiException) for each in results] == [False, True, True, False, True]
        assert results[1] is REFUSAL
        assert names_of(store) == ["a", "c"]
        bad = AclBindingFilter(operation=AclOperation.UNKNOWN)
        deleted, _ = await authorizer.updates.delete_acls(ROOT, [REFUSAL, bad, named("a")], None)
        assert [isinstance(each, ApiException) for each in deleted] == [True, True, False]
        assert names_of(store) == ["c"]


@in_virtual_time
async def test_without_a_valid_entry_nothing_is_written() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        token = authorizer.image.token
        assert await authorizer.updates.create_acls(ROOT, new([REFUSAL]), None) == ([REFUSAL], token)
        assert await authorizer.updates.delete_acls(ROOT, [REFUSAL], None) == ([REFUSAL], token)
        assert await authorizer.updates.alter_configs(ROOT, [], None) == ([], token)
        assert await authorizer.updates.create_acls(ROOT, [], None) == ([], token)
        assert store.groups == []


@in_virtual_time
async def test_too_many_new_acls_are_refused_whole() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        with pytest.raises(PolicyViolationException, match="excessively large"):
            await authorizer.updates.create_acls(ROOT, new([acl(str(number)) for number in range(10_001)]), None)
        assert names_of(store) == []


@in_virtual_time
async def test_an_update_waits_no_longer_than_the_caller_and_never_shorter_than_zero() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.unreachable = True
        for timeout_s, took_s in ((None, 5.0), (1.5, 1.5), (-1.0, 0.0), (1e9, 300.0)):
            began_at = now()
            with pytest.raises(StoreUnavailableException, match="was not written"):
                await authorizer.updates.create_acls(ROOT, new([acl("a")]), timeout_s)
            assert now() - began_at == pytest.approx(took_s, abs=0.01)


@in_virtual_time
async def test_a_write_that_this_image_does_not_show_in_time_is_told_as_such() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.hang("poll")
        with pytest.raises(RequestTimedOutException, match="was written") as refusal:
            await authorizer.updates.create_acls(ROOT, new([acl("a")]), 1)
        assert names_of(store) == ["a"]
        store.release("poll")
        token = refusal.value.message.split("`")[1]
        await authorizer.wait_for(token)
        assert may_read(authorizer, "a")


@in_virtual_time
async def test_a_write_into_another_epoch_than_the_images_returns_when_the_image_is_there() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.hang("write")
        task = asyncio.create_task(authorizer.updates.create_acls(ROOT, new([acl("b")]), None))
        await asyncio.sleep(0.1)
        store.restore(1)
        store.release("write")
        _, token = await task
        assert token.epoch == store.epoch
        assert may_read(authorizer, "b")


@in_virtual_time
async def test_a_store_that_answers_to_something_else_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:

        async def confused(mutations: list[Any]) -> object:
            return replace(store.commit(mutations), outcomes=[AlterConfigsOutcome()])

        monkeypatch.setattr(store, "write", confused)
        with pytest.raises(UnknownServerException):
            await authorizer.updates.create_acls(ROOT, new([acl("a")]), None)


@in_virtual_time
async def test_configs_are_altered_in_the_feed_and_described_with_their_source() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        changes = [("super.users", "User:admin;User:eve"), ("nonsense", "x"), ("max.staleness.ms", "soon")]
        results, token = await authorizer.updates.alter_configs(ROOT, changes, None)
        assert [result is None for result in results] == [True, False, False]
        assert token.offset == 1
        assert may_read(authorizer, "a", "User:eve")
        entries = {entry.name: entry for entry in authorizer.describe_configs(ROOT)}
        assert list(entries) == list(CONFIG_NAMES)
        assert entries["super.users"] == ConfigEntry("super.users", "User:admin;User:eve", "STORE")
        assert entries["allow.everyone.if.no.acl.found"].source == "STARTUP"
        await authorizer.updates.alter_configs(ROOT, [("super.users", None)], None)
        assert not may_read(authorizer, "a", "User:eve")
        assert authorizer.describe_configs(GRANTED)[0] == ConfigEntry("super.users", "User:admin", "STARTUP")


@in_virtual_time
async def test_configs_reach_another_replica_at_the_same_offset_as_the_acls_around_them() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as one, authorizer_on(store, OPTIONS) as other:
        await one.updates.create_acls(ROOT, new([acl("a")]), None)
        _, token = await one.updates.alter_configs(ROOT, [("super.users", "User:eve")], None)
        await other.wait_for(str(token))
        assert other.image.config == one.image.config
        assert other.image.token == token


@in_virtual_time
async def test_an_image_that_is_lost_meanwhile_has_no_token_to_give() -> None:
    async with authorizer_on(FakeStore(), OPTIONS) as authorizer:

        class LosesTheImage(list[ApiException]):
            def __iter__(self) -> Iterator[ApiException]:
                authorizer._loader._publish(unopened(FakeStore()).image)
                return super().__iter__()

        with pytest.raises(AuthorizerNotReadyException):
            await authorizer.updates.create_acls(ROOT, LosesTheImage([REFUSAL]), 1)


@in_virtual_time
async def test_one_timeout_covers_the_write_and_the_wait_until_it_is_visible() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.hang("write")
        store.hang("poll")
        began_at = now()
        asyncio.get_running_loop().call_later(0.8, store.release, "write")
        with pytest.raises(RequestTimedOutException, match="was written"):
            await authorizer.updates.create_acls(ROOT, new([acl("a")]), 1)
        assert now() - began_at == pytest.approx(1, abs=0.01)
        store.release("poll")
