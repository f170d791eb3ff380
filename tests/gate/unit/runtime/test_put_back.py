"""A store that comes back as it was before: what this process remembers is the only witness."""

import asyncio
from dataclasses import replace

import pytest

from app.core.continuity import FeedPosition
from app.core.kafka.errors import RequestTimedOutException, TokenEpochMismatchException
from app.core.token import Token
from tests.fakes import FakeStore
from tests.klamm import until
from tests.updates import new
from tests.virtual_time import in_virtual_time
from tests.world import OPTIONS, ROOT, acl, authorizer_on, create, may_read, named, names_in


@in_virtual_time
async def test_the_same_copy_put_back_again_and_again_never_brings_an_epoch_back() -> None:
    store = FakeStore()
    store.commit([create("kept")])
    copied = store.epoch
    lost: list[Token] = []
    async with authorizer_on(store, OPTIONS) as authorizer:
        for number in range(4):
            _, token = await authorizer.updates.create_acls(ROOT, new([acl(f"lost-{number}")]), None)
            lost.append(token)
            store.restore(1, new_epoch=False)
            store.epoch = copied
            await until(lambda: names_in(authorizer.image) == ["kept"])
            await until(lambda: authorizer.image.epoch not in {copied, *(each.epoch for each in lost)})
            for each in lost:
                with pytest.raises(TokenEpochMismatchException):
                    await authorizer.wait_for(str(each))
    assert len({each.epoch for each in lost}) == 4


@in_virtual_time
async def test_a_replica_that_was_there_before_and_one_that_came_between_agree_on_one_epoch() -> None:
    store = FakeStore()
    store.commit([create("kept")])
    copied = store.epoch
    async with authorizer_on(store, OPTIONS) as one:
        store.commit([create("lost")])
        store.begin_epoch()
        await until(lambda: one.image.epoch == store.epoch)
        async with authorizer_on(store, OPTIONS) as other:
            store.restore(1, new_epoch=False)
            store.epoch = copied
            await until(lambda: names_in(one.image) == names_in(other.image) == ["kept"])
            await until(lambda: one.image.token == other.image.token)
            await asyncio.sleep(10)
            loads = one.metrics.image_loads, other.metrics.image_loads
            await asyncio.sleep(60)
            assert (one.metrics.image_loads, other.metrics.image_loads) == loads
            assert one.image.epoch == other.image.epoch == store.epoch != copied


@pytest.mark.parametrize("by", ["records", "a snapshot"])
@in_virtual_time
async def test_an_offset_that_is_used_again_does_not_stand_for_an_update_that_was_lost(by: str) -> None:
    store = FakeStore()
    store.commit([create("kept")])
    async with authorizer_on(store, replace(OPTIONS, poll_s=100, poll_timeout_s=100)) as authorizer:
        store.hang("poll")
        store.disconnect()
        await asyncio.sleep(1)
        updating = asyncio.create_task(authorizer.updates.create_acls(ROOT, new([acl("mine")]), 90))
        await until(lambda: store.tables.last_offset == 2)
        await asyncio.sleep(1)
        # Written by somebody who knows nothing of what was lost.
        store.restore(1, new_epoch=False)
        store.commit([create("other")])
        store.commit([create("another")])
        if by == "a snapshot":
            store.trim(2)
        store.release("poll")
        with pytest.raises(RequestTimedOutException, match="restored to before"):
            await updating
        await until(lambda: names_in(authorizer.image) == ["another", "kept", "other"])


@in_virtual_time
async def test_a_token_of_a_history_that_is_seen_to_be_lost_is_not_answered_from_its_image() -> None:
    store = FakeStore()
    store.commit([create("kept"), create("lost")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        lost = str(authorizer.image.token)
        store.hang("snapshot")
        store.restore(1, new_epoch=False)
        await until(lambda: store.epoch != authorizer.image.epoch)
        assert may_read(authorizer, "lost")
        assert not authorizer.has_reached(lost)
        store.release("snapshot")
        with pytest.raises(TokenEpochMismatchException):
            await authorizer.wait_for(lost)


@in_virtual_time
async def test_a_store_that_can_not_be_told_is_followed_all_the_same_and_its_first_update_tells_it() -> None:
    class ReadOnly(FakeStore):
        def begin_epoch_if_lost(self, lost: FeedPosition) -> None:
            """As PostgreSQL does where nothing may be written: nothing."""

    store = ReadOnly()
    store.commit([create("kept"), create("lost")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        lost = authorizer.image.token
        assert lost is not None
        store.restore(1, new_epoch=False)
        await until(lambda: names_in(authorizer.image) == ["kept"])
        store.commit([create("found")])
        await until(lambda: names_in(authorizer.image) == ["found", "kept"])
        await asyncio.sleep(60)
        assert authorizer.metrics.image_loads == 2
        assert store.epoch == lost.epoch

        _, token = await authorizer.updates.delete_acls(ROOT, [named("nothing")], None)

        assert token == Token(store.epoch, 2)
        assert token.epoch != lost.epoch
