"""authorizeByResourceType on a replica that follows its store: one offset, short steps, and an end to it."""

import asyncio

import pytest

from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import InvalidRequestException, OffsetNotAvailableException
from app.core.mutations import CreateAcls
from app.core.token import Token
from app.core.verdicts import Verdict
from app.runtime import deciding
from app.runtime.authorizer import Authorizer
from app.runtime.deciding import by_resource_type
from tests.fakes import FakeStore
from tests.klamm import until
from tests.updates import new
from tests.virtual_time import in_virtual_time
from tests.world import ALICE, OPTIONS, acl, authorizer_on, create, delete, never_rests

WRITE, TOPIC = AclOperation.WRITE, ResourceType.TOPIC


def many(count: int) -> FakeStore:
    store = FakeStore()
    store.commit([create(*(f"t{number:05}" for number in range(count)))])
    return store


def writable(name: str) -> CreateAcls:
    return CreateAcls(new([acl(name)._replace(operation=WRITE)]), "User:admin")


async def ask(authorizer: Authorizer, operation: AclOperation = WRITE) -> tuple[Verdict, Token | None]:
    return await by_resource_type(authorizer._loader, lambda: authorizer.rights.authorization(ALICE), operation, TOPIC)


@in_virtual_time
async def test_it_answers_as_in_one_go_and_names_the_offset() -> None:
    store = many(3)
    async with authorizer_on(store, OPTIONS) as authorizer:
        assert await ask(authorizer) == (Verdict.DEFAULT_DENY, authorizer.image.token)
        assert await ask(authorizer, AclOperation.READ) == (Verdict.ALLOWED_BY_ACL, authorizer.image.token)
        with pytest.raises(InvalidRequestException):
            await ask(authorizer, AclOperation.ANY)


@pytest.mark.usefixtures("breathless")
@in_virtual_time
async def test_many_patterns_are_looked_at_while_others_get_their_turns() -> None:
    async with authorizer_on(many(2_000), OPTIONS) as authorizer:
        task = asyncio.create_task(ask(authorizer))
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 15
        assert (await task)[0] is Verdict.DEFAULT_DENY


@pytest.mark.usefixtures("breathless")
@in_virtual_time
async def test_what_changes_meanwhile_is_in_the_answer_or_behind_its_token() -> None:
    store = many(2_000)
    async with authorizer_on(store, OPTIONS) as authorizer:
        before = authorizer.image.offset
        task = asyncio.create_task(ask(authorizer))
        await asyncio.sleep(0)
        store.commit([writable("t00000")])
        verdict, token = await task
        assert token is not None
        assert verdict is (Verdict.ALLOWED_BY_ACL if token.offset > before else Verdict.DEFAULT_DENY)
        assert (await ask(authorizer))[0] is Verdict.ALLOWED_BY_ACL
        store.commit([delete("t00000")])
        written = token.offset + 1
        await until(lambda: authorizer.image.offset > written)
        assert (await ask(authorizer))[0] is Verdict.DEFAULT_DENY


@pytest.mark.usefixtures("breathless")
@in_virtual_time
async def test_a_store_that_never_rests_is_looked_at_in_one_go_if_that_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with authorizer_on(many(2_000), OPTIONS) as authorizer:
        never_rests(authorizer, monkeypatch)
        assert await ask(authorizer) == (Verdict.DEFAULT_DENY, authorizer.image.token)


@pytest.mark.usefixtures("breathless")
@in_virtual_time
async def test_no_look_in_one_go_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "_MOST_STEPS_AT_ONCE", 3)
    async with authorizer_on(many(2_000), OPTIONS) as authorizer:
        assert (await ask(authorizer))[0] is Verdict.DEFAULT_DENY
        never_rests(authorizer, monkeypatch)
        with pytest.raises(OffsetNotAvailableException, match="try again"):
            await ask(authorizer)
