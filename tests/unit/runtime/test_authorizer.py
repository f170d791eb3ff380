"""The KIP-504 face: who may, in which order refusals come, tokens, start and close."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from app.core.authorize import RequestContext
from app.core.codes import AclOperation, ResourceType
from app.core.configs import CONFIG_NAMES, AuthorizerConfig
from app.core.errors import (
    ApiException,
    AuthorizerNotReadyException,
    ClusterAuthorizationException,
    InconsistentClusterIdException,
    InvalidRequestException,
    OffsetNotAvailableException,
    PolicyViolationException,
    RequestTimedOutException,
    ResourceNotFoundException,
    SecurityDisabledException,
    StoreUnavailableException,
    TokenEpochMismatchException,
    UnknownServerException,
)
from app.core.filters import AclBindingFilter
from app.core.mutations import AlterConfigs, AlterConfigsOutcome, CreateAcls, CreatedAcl
from app.core.token import Token
from app.runtime.authorizer import Authorizer, ConfigEntry
from app.runtime.readiness import Endpoint, StartRequest, State
from tests.fakes import FakeStore
from tests.unit.runtime.world import (
    ADDRESS,
    ALICE,
    OPTIONS,
    ROOT,
    STARTUP,
    acl,
    cluster_acl,
    create,
    may_read,
    named,
    names_in,
    names_of,
    replica,
    running,
    serving,
    until,
    until_ready,
)
from tests.virtual_time import in_virtual_time, now

REFUSAL = InvalidRequestException("this entry is refused by an earlier hand")


def starting(*listeners: str, cluster_id: str | None = None) -> StartRequest:
    return StartRequest(cluster_id, 1, [Endpoint(name, "SASL_SSL", "broker", 9092) for name in listeners])


# decisions


@in_virtual_time
async def test_a_fenced_image_answers_super_users_only() -> None:
    store = FakeStore()
    store.commit([create("a")])
    startup = replace(STARTUP, max_staleness_ms=3000)
    async with running(replica(store, startup=startup)) as authorizer:
        await until_ready(authorizer)
        assert may_read(authorizer, "a")
        store.unreachable = True
        await until(lambda: authorizer.readiness.state is State.FENCED, 5)
        with pytest.raises(AuthorizerNotReadyException, match="max.staleness.ms"):
            authorizer.authorization("User:alice", ADDRESS)
        assert may_read(authorizer, "a", "User:root")
        store.unreachable = False
        await until(lambda: not authorizer.readiness.fenced)
        assert may_read(authorizer, "a")


@in_virtual_time
async def test_without_an_authorizer_everything_is_allowed_and_acl_calls_are_refused() -> None:
    store = FakeStore()
    store.unreachable = True
    async with running(replica(store, replace(OPTIONS, enabled=False))) as authorizer:
        await asyncio.sleep(1)
        assert may_read(authorizer, "anything", "User:nobody")
        for call in acl_calls(authorizer, ALICE):
            with pytest.raises(SecurityDisabledException):
                await call()
        with pytest.raises(SecurityDisabledException):
            authorizer.get_acl(None, uuid4())


def acl_calls(authorizer: Authorizer, context: RequestContext) -> list[Callable[[], Awaitable[object]]]:
    async def get() -> object:
        return authorizer.get_acl(context, uuid4())

    return [
        lambda: authorizer.create_acls(context, [acl("x")], None),
        lambda: authorizer.delete_acls(context, [named("x")], None),
        lambda: authorizer.acls(context, AclBindingFilter(), 10, None),
        get,
    ]


@in_virtual_time
async def test_before_the_load_acl_calls_are_refused_to_super_users_too() -> None:
    store = FakeStore()
    store.unreachable = True
    async with running(replica(store)) as authorizer:
        await asyncio.sleep(1)
        calls = acl_calls(authorizer, ROOT)
        calls += [lambda: authorizer.alter_configs(ROOT, [("super.users", None)], None)]
        calls += [lambda: authorizer.wait_for(str(Token(store.epoch, 0)))]
        for call in calls:
            with pytest.raises(AuthorizerNotReadyException):
                await call()
        assert authorizer.acl_count() == -1
        assert store.groups == []


@in_virtual_time
async def test_without_the_right_on_the_cluster_every_refusal_is_the_same() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        calls = acl_calls(authorizer, ALICE)
        calls += [lambda: authorizer.alter_configs(ALICE, [("nonsense", "x")], None)]
        calls += [lambda: authorizer.create_acls(ALICE, [], None)]
        calls += [lambda: authorizer.create_acls(ALICE, [acl("")], None)]
        calls += [lambda: authorizer.acls(ALICE, AclBindingFilter(), 0, "garbage")]
        texts = set()
        for call in calls:
            with pytest.raises(ClusterAuthorizationException) as refusal:
                await call()
            texts.add(refusal.value.message)
        with pytest.raises(ClusterAuthorizationException) as refusal:
            authorizer.describe_configs(ALICE)
        texts.add(refusal.value.message)
        assert len(texts) == 1
        assert len(store.groups) == 0


@in_virtual_time
async def test_each_call_needs_its_own_right() -> None:
    store = FakeStore()
    rights = {
        "User:alter": AclOperation.ALTER,
        "User:describe": AclOperation.DESCRIBE,
        "User:alterconfigs": AclOperation.ALTER_CONFIGS,
        "User:describeconfigs": AclOperation.DESCRIBE_CONFIGS,
    }
    store.commit([CreateAcls([cluster_acl(operation, who) for who, operation in rights.items()], "User:root")])
    async with serving(store) as authorizer:

        async def configs(context: RequestContext) -> object:
            return authorizer.describe_configs(context)

        async def get(context: RequestContext) -> object:
            return authorizer.get_acl(context, next(iter(store.tables.acls.values())).id)

        calls: dict[str, Callable[[RequestContext], Awaitable[object]]] = {
            "create": lambda context: authorizer.create_acls(context, [acl("x")], None),
            "delete": lambda context: authorizer.delete_acls(context, [named("x")], None),
            "acls": lambda context: authorizer.acls(context, AclBindingFilter(), 10, None),
            "get": get,
            "alter configs": lambda context: authorizer.alter_configs(context, [("audit.level", "INFO")], None),
            "describe configs": configs,
        }
        allowed: dict[str, set[str]] = {}
        for who in rights:
            for name, call in calls.items():
                try:
                    await call(RequestContext(who, ADDRESS))
                except ClusterAuthorizationException:
                    continue
                allowed.setdefault(who, set()).add(name)
        assert allowed == {
            "User:alter": {"create", "delete", "acls", "get"},  # ALTER implies DESCRIBE
            "User:describe": {"acls", "get"},
            "User:alterconfigs": {"alter configs", "describe configs"},  # the one implies the other
            "User:describeconfigs": {"describe configs"},
        }


# updates


@in_virtual_time
async def test_created_acls_are_durable_and_visible_here_when_the_call_returns() -> None:
    store = FakeStore()
    store.notify_lost = True
    async with serving(store) as authorizer:
        began_at = now()
        results, token = await authorizer.create_acls(ROOT, [acl("a"), acl("a"), acl("b")], None)
        assert now() - began_at < 0.1
        assert may_read(authorizer, "a")
        assert [isinstance(each, CreatedAcl) and each.created for each in results] == [True, False, True]
        assert token == authorizer.image.token
        assert authorizer.acl_count() == 2
        assert store.tables.records[0].actor == "User:root"
        metrics = authorizer.metrics
        assert sum(metrics.create_acls_local_time.counts) == sum(metrics.create_acls_remote_time.counts) == 1
        assert sum(metrics.delete_acls_local_time.counts) == 0


@in_virtual_time
async def test_deleted_acls_are_gone_when_the_call_returns() -> None:
    store = FakeStore()
    store.commit([create("a", "b")])
    async with serving(store) as authorizer:
        results, token = await authorizer.delete_acls(ROOT, [named("a"), named("nothing"), named("a")], None)
        assert not may_read(authorizer, "a")
        assert [[each.binding for each in some] for some in results if isinstance(some, list)] == [
            [acl("a")],
            [],
            [acl("a")],
        ]
        assert token.offset == 3
        assert sum(authorizer.metrics.delete_acls_local_time.counts) == 1
        assert sum(authorizer.metrics.delete_acls_remote_time.counts) == 1


@in_virtual_time
async def test_refused_entries_stay_in_their_places_and_are_not_written() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        entries = [acl("a"), REFUSAL, acl("b", "no colon"), acl("c"), acl("")]
        results, _ = await authorizer.create_acls(ROOT, entries, None)
        assert [type(each) for each in results] == [
            CreatedAcl,
            *[InvalidRequestException] * 2,
            CreatedAcl,
            REFUSAL.__class__,
        ]
        assert results[1] is REFUSAL
        assert names_of(store) == ["a", "c"]
        bad = AclBindingFilter(operation=AclOperation.UNKNOWN)
        deleted, _ = await authorizer.delete_acls(ROOT, [REFUSAL, bad, named("a")], None)
        assert [isinstance(each, ApiException) for each in deleted] == [True, True, False]
        assert names_of(store) == ["c"]


@in_virtual_time
async def test_without_a_valid_entry_nothing_is_written() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        token = authorizer.image.token
        assert await authorizer.create_acls(ROOT, [REFUSAL], None) == ([REFUSAL], token)
        assert await authorizer.delete_acls(ROOT, [REFUSAL], None) == ([REFUSAL], token)
        assert await authorizer.alter_configs(ROOT, [], None) == ([], token)
        assert await authorizer.create_acls(ROOT, [], None) == ([], token)
        assert store.groups == []


@in_virtual_time
async def test_too_many_new_acls_are_refused_whole() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        with pytest.raises(PolicyViolationException, match="excessively large"):
            await authorizer.create_acls(ROOT, [acl(str(number)) for number in range(10_001)], None)
        assert names_of(store) == []


@in_virtual_time
async def test_an_update_waits_no_longer_than_the_caller_and_never_shorter_than_zero() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        store.unreachable = True
        for timeout_s, took_s in ((None, 5.0), (1.5, 1.5), (-1.0, 0.0), (1e9, 300.0)):
            began_at = now()
            with pytest.raises(StoreUnavailableException, match="was not written"):
                await authorizer.create_acls(ROOT, [acl("a")], timeout_s)
            assert now() - began_at == pytest.approx(took_s, abs=0.01)


@in_virtual_time
async def test_a_write_that_this_image_does_not_show_in_time_is_told_as_such() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        store.hang("poll")
        with pytest.raises(RequestTimedOutException, match="is written") as refusal:
            await authorizer.create_acls(ROOT, [acl("a")], 1)
        assert names_of(store) == ["a"]
        store.release("poll")
        token = refusal.value.message.split("`")[1]
        await authorizer.wait_for(token)
        assert may_read(authorizer, "a")


@in_virtual_time
async def test_a_write_into_another_epoch_than_the_images_returns_when_the_image_is_there() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        store.hang("write")
        task = asyncio.create_task(authorizer.create_acls(ROOT, [acl("b")], None))
        await asyncio.sleep(0.1)
        store.restore(1)
        store.release("write")
        _, token = await task
        assert token.epoch == store.epoch
        assert may_read(authorizer, "b")


@in_virtual_time
async def test_a_store_that_answers_to_something_else_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    async with serving(store) as authorizer:

        async def confused(mutations: list[Any]) -> object:
            return replace(store.commit(mutations), outcomes=[AlterConfigsOutcome()])

        monkeypatch.setattr(store, "write", confused)
        with pytest.raises(UnknownServerException):
            await authorizer.create_acls(ROOT, [acl("a")], None)


# configuration


@in_virtual_time
async def test_configs_are_altered_in_the_feed_and_described_with_their_source() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        changes = [("super.users", "User:root;User:eve"), ("nonsense", "x"), ("max.staleness.ms", "soon")]
        results, token = await authorizer.alter_configs(ROOT, changes, None)
        assert [result is None for result in results] == [True, False, False]
        assert token.offset == 1
        assert may_read(authorizer, "a", "User:eve")
        entries = {entry.name: entry for entry in authorizer.describe_configs(ROOT)}
        assert list(entries) == list(CONFIG_NAMES)
        assert entries["super.users"] == ConfigEntry("super.users", "User:root;User:eve", "STORE")
        assert entries["allow.everyone.if.no.acl.found"].source == "STARTUP"
        await authorizer.alter_configs(ROOT, [("super.users", None)], None)
        assert not may_read(authorizer, "a", "User:eve")
        assert authorizer.describe_configs(None)[0] == ConfigEntry("super.users", "User:root", "STARTUP")


@in_virtual_time
async def test_configs_reach_another_replica_at_the_same_offset_as_the_acls_around_them() -> None:
    store = FakeStore()
    async with serving(store) as one, serving(store) as other:
        await one.create_acls(ROOT, [acl("a")], None)
        _, token = await one.alter_configs(ROOT, [("super.users", "User:eve")], None)
        await other.wait_for(str(token))
        assert other.image.config == one.image.config
        assert other.image.token == token


# lists


@in_virtual_time
async def test_an_acl_is_found_by_its_id() -> None:
    store = FakeStore()
    async with serving(store) as authorizer:
        results, _ = await authorizer.create_acls(ROOT, [acl("a")], None)
        assert isinstance(results[0], CreatedAcl)
        for context in (ROOT, None):
            assert authorizer.get_acl(context, results[0].id).binding == acl("a")
        with pytest.raises(ResourceNotFoundException):
            authorizer.get_acl(None, uuid4())


# tokens


@in_virtual_time
async def test_at_least_is_never_answered_from_before_it() -> None:
    store = FakeStore()
    store.notify_lost = True
    async with serving(store) as one, serving(store) as other:
        for number in range(200):
            _, token = await one.create_acls(ROOT, [acl(f"t{number}")], None)
            began_at = now()
            await other.wait_for(str(token))
            assert may_read(other, f"t{number}")
            # The hint is lost, yet nobody waits for the next second.
            assert now() - began_at < 0.1


@in_virtual_time
async def test_a_token_that_is_passed_or_absent_costs_no_suspension() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        for at_least in (None, str(authorizer.image.token), str(Token(store.epoch, 0))):
            waiting = authorizer.wait_for(at_least)
            with pytest.raises(StopIteration):
                waiting.send(None)


@in_virtual_time
async def test_a_token_that_is_not_reached_in_time_is_told() -> None:
    store = FakeStore()
    async with serving(store, replace(OPTIONS, request_timeout_s=2)) as authorizer:
        began_at = now()
        with pytest.raises(OffsetNotAvailableException):
            await authorizer.wait_for(str(Token(store.epoch, 1)))
        assert now() - began_at == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("garbage", ["", "x", "1:2", f"{uuid4()}:-1", f"{uuid4()}:1 ", f"{uuid4()}:{1 << 63}"])
@in_virtual_time
async def test_garbage_is_no_token(garbage: str) -> None:
    async with serving(FakeStore()) as authorizer:
        with pytest.raises(InvalidRequestException):
            await authorizer.wait_for(garbage)


@in_virtual_time
async def test_tokens_of_an_epoch_that_is_over_are_refused_and_unknown_ones_make_us_look() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with serving(store) as authorizer:
        old = str(authorizer.image.token)
        store.notify_lost = True
        store.restore(0)
        store.commit([create("b")])
        new = str(Token(store.epoch, 1))
        began_at = now()
        with pytest.raises(TokenEpochMismatchException):
            await authorizer.wait_for(new)
        await until(lambda: authorizer.image.epoch == store.epoch)
        assert now() - began_at < 0.1
        await authorizer.wait_for(new)
        with pytest.raises(TokenEpochMismatchException):
            await authorizer.wait_for(old)


# start and close


@in_virtual_time
async def test_start_answers_when_all_listeners_are_ready() -> None:
    store = FakeStore()
    store.unreachable = True
    startup = replace(STARTUP, early_start_listeners=frozenset({"CONTROLLER"}))
    async with running(replica(store, startup=startup)) as authorizer:
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
    async with running(replica(store)) as authorizer:
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
    async with serving(store) as authorizer:
        store.hang("write")
        task = asyncio.create_task(authorizer.create_acls(ROOT, [acl("a")], None))
        await asyncio.sleep(0.1)
        closing = asyncio.create_task(authorizer.close())
        await asyncio.sleep(0.1)
        assert authorizer.readiness.state is State.DRAINING
        store.release("write")
        _, token = await task
        assert token.offset == 1
        assert may_read(authorizer, "a")
        await closing
        assert store.closed == ["store", "feed"]
        with pytest.raises(StoreUnavailableException):
            await authorizer.create_acls(ROOT, [acl("b")], None)
        with pytest.raises(OffsetNotAvailableException):
            await authorizer.wait_for(str(Token(store.epoch, 5)))


@in_virtual_time
async def test_closing_ends_waits_that_nothing_will_end() -> None:
    store = FakeStore()
    async with serving(store, replace(OPTIONS, request_timeout_s=100)) as authorizer:
        task = asyncio.create_task(authorizer.wait_for(str(Token(store.epoch, 5))))
        await asyncio.sleep(0.1)
        began_at = now()
        await authorizer.close()
        assert now() - began_at < 6
        with pytest.raises(OffsetNotAvailableException):
            await task


@in_virtual_time
async def test_two_replicas_agree_after_updates_on_both() -> None:
    store = FakeStore()
    async with serving(store) as one, serving(store) as other:
        work = [
            (one if number % 2 else other).create_acls(ROOT, [acl(f"t{number % 7}-{number}")], None)
            for number in range(50)
        ]
        await asyncio.gather(*work)
        await until(lambda: one.image.token == other.image.token)
        assert names_in(one.image) == names_in(other.image) == names_of(store)


@in_virtual_time
async def test_a_config_from_the_store_governs_decisions() -> None:
    store = FakeStore()
    store.commit([AlterConfigs([("allow.everyone.if.no.acl.found", "true")], "User:root")])
    async with running(replica(store, startup=AuthorizerConfig())) as authorizer:
        with pytest.raises(AuthorizerNotReadyException):
            authorizer.authorization("User:alice", ADDRESS)
        await until_ready(authorizer)
        assert may_read(authorizer, "anything")
        assert authorizer.authorization("User:x", ADDRESS).decide(AclOperation.READ, ResourceType.GROUP, "g").allowed
