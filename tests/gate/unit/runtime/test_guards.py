"""`if_unchanged_since` on createAcls, deleteAcls and alterConfigs, as the runtime passes it on."""

import asyncio
from uuid import UUID

import pytest

from app.core.kafka.errors import (
    ClusterAuthorizationException,
    InvalidRequestException,
    InvalidUpdateVersionException,
    TokenEpochMismatchException,
)
from app.core.token import Token
from tests.fakes import FakeStore
from tests.updates import new
from tests.virtual_time import in_virtual_time
from tests.world import ALICE, OPTIONS, ROOT, acl, authorizer_on, create, may_read, named

REFUSAL = InvalidRequestException("this entry is refused by an earlier hand")


@in_virtual_time
async def test_a_chain_of_guarded_calls_is_written_and_visible() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        _, first = await authorizer.updates.create_acls(
            ROOT, new([acl("a"), acl("b")]), None, str(Token(store.epoch, 0))
        )
        assert (first, may_read(authorizer, "a")) == (Token(store.epoch, 2), True)
        _, second = await authorizer.updates.delete_acls(ROOT, [named("a")], None, str(first))
        assert (second, may_read(authorizer, "a")) == (Token(store.epoch, 3), False)
        _, third = await authorizer.updates.alter_configs(ROOT, [("super.users", "User:alice")], None, str(second))
        assert (third, may_read(authorizer, "a")) == (Token(store.epoch, 4), True)


@in_virtual_time
async def test_a_foreign_change_between_is_noticed_and_nothing_is_written() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        _, token = await authorizer.updates.create_acls(ROOT, new([acl("a")]), None)
        store.commit([create("foreign")])
        with pytest.raises(InvalidUpdateVersionException):
            await authorizer.updates.create_acls(ROOT, new([acl("b")]), None, str(token))
        with pytest.raises(InvalidUpdateVersionException):
            await authorizer.updates.delete_acls(ROOT, [named("a")], None, str(token))
        with pytest.raises(InvalidUpdateVersionException):
            await authorizer.updates.alter_configs(ROOT, [("super.users", None)], None, str(token))
    assert store.tables.last_offset == 2


@in_virtual_time
async def test_the_reply_tells_its_own_offset_though_others_are_in_its_transaction() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.hang("write")
        async with asyncio.TaskGroup() as calls:
            calls.create_task(authorizer.updates.create_acls(ROOT, new([acl("a")]), None))
            await asyncio.sleep(0.1)
            own = calls.create_task(
                authorizer.updates.create_acls(ROOT, new([acl("b")]), None, str(Token(store.epoch, 1)))
            )
            company = calls.create_task(authorizer.updates.create_acls(ROOT, new([acl("c")]), None))
            await asyncio.sleep(0.1)
            store.release("write")
        assert [len(group) for group in store.groups] == [1, 2]
        assert (own.result()[1], company.result()[1]) == (Token(store.epoch, 2), Token(store.epoch, 3))
        assert may_read(authorizer, "b")


@in_virtual_time
async def test_a_guard_holds_for_calls_that_write_nothing_as_well() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        for entries in ([], [REFUSAL], [acl("")]):
            with pytest.raises(InvalidUpdateVersionException):
                await authorizer.updates.create_acls(ROOT, new(entries), None, str(Token(store.epoch, 0)))
            with pytest.raises(InvalidUpdateVersionException):
                await authorizer.updates.delete_acls(ROOT, [], None, str(Token(store.epoch, 0)))
            with pytest.raises(InvalidUpdateVersionException):
                await authorizer.updates.alter_configs(ROOT, [("nonsense", "x")], None, str(Token(store.epoch, 0)))
            results, token = await authorizer.updates.create_acls(ROOT, new(entries), None, str(Token(store.epoch, 1)))
            assert (len(results), token) == (len(entries), Token(store.epoch, 1))


@in_virtual_time
async def test_what_is_no_token_or_of_another_epoch_is_refused_after_the_right_was_asked() -> None:
    async with authorizer_on(FakeStore(), OPTIONS) as authorizer:
        with pytest.raises(InvalidRequestException, match="`if_unchanged_since` is not a token"):
            await authorizer.updates.create_acls(ROOT, new([acl("a")]), None, "garbage")
        with pytest.raises(InvalidRequestException, match="`if_unchanged_since` is not a token"):
            await authorizer.updates.delete_acls(ROOT, [named("a")], None, "")
        with pytest.raises(TokenEpochMismatchException, match="if_unchanged_since"):
            await authorizer.updates.create_acls(ROOT, new([acl("a")]), None, f"{UUID(int=1)}:0")
        with pytest.raises(ClusterAuthorizationException):
            await authorizer.updates.create_acls(ALICE, new([acl("a")]), None, "garbage")
        with pytest.raises(InvalidRequestException, match="`if_unchanged_since` is not a token"):
            await authorizer.updates.alter_configs(ROOT, [("super.users", None)], None, "garbage")
        with pytest.raises(ClusterAuthorizationException):
            await authorizer.updates.alter_configs(ALICE, [("super.users", None)], None, "garbage")
