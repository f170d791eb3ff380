"""start (KIP-504), and the order in which things stop."""

import asyncio
from dataclasses import replace

import pytest

from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import (
    AuthorizerNotReadyException,
    InconsistentClusterIdException,
    OffsetNotAvailableException,
    StoreUnavailableException,
)
from app.core.mutations import AlterConfigs
from app.core.token import Token
from app.runtime.readiness import Endpoint, StartRequest, State
from tests.contexts import Unchecked
from tests.fakes import FakeStore
from tests.klamm import until
from tests.updates import new
from tests.virtual_time import in_virtual_time, now
from tests.world import (
    ADDRESS,
    ALICE,
    OPTIONS,
    ROOT,
    STARTUP,
    acl,
    authorizer_on,
    may_read,
    names_in,
    names_of,
    until_ready,
)


def starting(*listeners: str, cluster_id: str | None = None) -> StartRequest:
    return StartRequest(cluster_id, 1, [Endpoint(name, "SASL_SSL", "broker", 9092) for name in listeners])


@in_virtual_time
async def test_start_answers_when_all_listeners_are_ready() -> None:
    store = FakeStore()
    store.unreachable = True
    startup = replace(STARTUP, early_start_listeners=frozenset({"CONTROLLER"}))
    async with authorizer_on(store, OPTIONS, startup=startup, ready=False) as authorizer:
        assert await authorizer.start(starting("CONTROLLER"), 60) == [("CONTROLLER", True)]
        assert now() < 0.01
        both = starting("CONTROLLER", "EXTERNAL", cluster_id="fake-cluster")
        assert await authorizer.start(both, 3) == [("CONTROLLER", True), ("EXTERNAL", False)]
        assert now() == pytest.approx(3, abs=0.1)
        waiting = asyncio.create_task(authorizer.start(both, 60))
        await asyncio.sleep(1)
        store.unreachable = False
        assert await waiting == [("CONTROLLER", True), ("EXTERNAL", True)]
        assert now() < 6
        assert await authorizer.start(both, 0) == [("CONTROLLER", True), ("EXTERNAL", True)]
        assert "listener/EXTERNAL" in {name for name, _, _ in authorizer.readiness.checks()}


@in_virtual_time
async def test_another_cluster_is_refused_as_soon_as_it_is_known() -> None:
    store = FakeStore()
    store.unreachable = True
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        waiting = asyncio.create_task(authorizer.start(starting("EXTERNAL", cluster_id="other"), 60))
        await asyncio.sleep(1)
        assert not waiting.done()
        store.unreachable = False
        with pytest.raises(InconsistentClusterIdException, match="`other`"):
            await waiting
        with pytest.raises(InconsistentClusterIdException):
            await authorizer.start(starting("EXTERNAL", cluster_id="other"), 60)
        assert await authorizer.start(starting("EXTERNAL"), 60) == [("EXTERNAL", True)]


@in_virtual_time
async def test_closing_lets_the_update_in_flight_be_seen_and_answered() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        store.hang("write")
        task = asyncio.create_task(authorizer.updates.create_acls(ROOT, new([acl("a")]), None))
        await asyncio.sleep(0.1)
        closing = asyncio.create_task(authorizer.close())
        await asyncio.sleep(0.1)
        assert authorizer.readiness.state is State.DRAINING
        store.hang("poll")
        store.release("write")
        await asyncio.sleep(0.5)
        assert names_of(store) == ["a"]
        assert not task.done()
        store.release("poll")
        _, token = await task
        assert token.offset == 1
        assert may_read(authorizer, "a")
        await closing
        assert store.closed == ["store", "feed"]
        with pytest.raises(StoreUnavailableException):
            await authorizer.updates.create_acls(ROOT, new([acl("b")]), None)
        with pytest.raises(OffsetNotAvailableException):
            await authorizer.wait_for(str(Token(store.epoch, 5)))


@in_virtual_time
async def test_closing_ends_waits_that_nothing_will_end() -> None:
    store = FakeStore()
    async with authorizer_on(store, replace(OPTIONS, request_timeout_s=100)) as authorizer:
        task = asyncio.create_task(authorizer.wait_for(str(Token(store.epoch, 5))))
        await asyncio.sleep(0.1)
        began_at = now()
        await authorizer.close()
        assert now() - began_at < 6
        with pytest.raises(OffsetNotAvailableException):
            await task
        assert now() - began_at < 6


@in_virtual_time
async def test_two_replicas_agree_after_updates_on_both() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as one, authorizer_on(store, OPTIONS) as other:
        work = [
            (one if number % 2 else other).updates.create_acls(ROOT, new([acl(f"t{number % 7}-{number}")]), None)
            for number in range(50)
        ]
        await asyncio.gather(*work)
        await until(lambda: one.image.token == other.image.token)
        assert names_in(one.image) == names_in(other.image) == names_of(store)


@in_virtual_time
async def test_a_config_from_the_store_governs_decisions() -> None:
    store = FakeStore()
    store.commit([AlterConfigs([("allow.everyone.if.no.acl.found", "true")], "User:admin")])
    async with authorizer_on(store, OPTIONS, startup=AuthorizerConfig(), ready=False) as authorizer:
        with pytest.raises(AuthorizerNotReadyException):
            authorizer.rights.authorization(ALICE)
        await until_ready(authorizer)
        assert may_read(authorizer, "anything")
        assert (
            authorizer.rights.authorization(Unchecked("User:x", ADDRESS))
            .decide(AclOperation.READ, ResourceType.GROUP, "g")
            .allowed
        )
