"""The KIP-504 face: who may, and in which order refusals come."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from app.core.context import RequestContext
from app.core.kafka.codes import AclOperation
from app.core.kafka.errors import (
    AuthorizerNotReadyException,
    ClusterAuthorizationException,
    ResourceNotFoundException,
    SecurityDisabledException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import CreateAcls, CreatedAcl
from app.core.token import Token
from app.runtime.authorizer import Authorizer
from app.runtime.readiness import State
from tests.contexts import GRANTED, Unchecked
from tests.fakes import FakeStore
from tests.klamm import until
from tests.updates import new
from tests.virtual_time import in_virtual_time
from tests.world import (
    ADDRESS,
    ALICE,
    OPTIONS,
    ROOT,
    STARTUP,
    acl,
    authorizer_on,
    cluster_acl,
    create,
    may_read,
    named,
    until_ready,
)


@in_virtual_time
async def test_a_fenced_image_answers_super_users_only() -> None:
    store = FakeStore()
    store.commit([create("a")])
    startup = replace(STARTUP, max_staleness_ms=3000)
    async with authorizer_on(store, OPTIONS, startup=startup, ready=False) as authorizer:
        await until_ready(authorizer)
        assert may_read(authorizer, "a")
        store.unreachable = True
        await until(lambda: authorizer.readiness.state is State.FENCED, limit_s=5)
        with pytest.raises(AuthorizerNotReadyException, match=r"max\.staleness\.ms"):
            authorizer.rights.authorization(ALICE)
        assert may_read(authorizer, "a", "User:admin")
        store.unreachable = False
        await until(lambda: not authorizer.readiness.fenced)
        assert may_read(authorizer, "a")


@in_virtual_time
async def test_without_an_authorizer_everything_is_allowed_and_acl_calls_are_refused() -> None:
    store = FakeStore()
    store.unreachable = True
    async with authorizer_on(store, replace(OPTIONS, enabled=False), ready=False) as authorizer:
        await asyncio.sleep(1)
        assert may_read(authorizer, "anything", "User:nobody")
        for call in acl_calls(authorizer, ALICE):
            with pytest.raises(SecurityDisabledException):
                await call()
        with pytest.raises(SecurityDisabledException):
            authorizer.get_acl(GRANTED, uuid4())


def acl_calls(authorizer: Authorizer, context: RequestContext) -> list[Callable[[], Awaitable[object]]]:
    async def get() -> object:
        return authorizer.get_acl(context, uuid4())

    return [
        lambda: authorizer.updates.create_acls(context, new([acl("x")]), None),
        lambda: authorizer.updates.delete_acls(context, [named("x")], None),
        lambda: authorizer.acls(context, AclBindingFilter(), 10, None),
        get,
    ]


@in_virtual_time
async def test_before_the_load_acl_calls_are_refused_to_super_users_too() -> None:
    store = FakeStore()
    store.unreachable = True
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        await asyncio.sleep(1)
        calls = acl_calls(authorizer, ROOT)
        calls += [lambda: authorizer.updates.alter_configs(ROOT, [("super.users", None)], None)]
        calls += [lambda: authorizer.wait_for(str(Token(store.epoch, 0)))]
        for call in calls:
            with pytest.raises(AuthorizerNotReadyException):
                await call()
        assert authorizer.acl_count(GRANTED) == -1
        assert store.groups == []


@in_virtual_time
async def test_without_the_right_on_the_cluster_every_refusal_is_the_same() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        calls = acl_calls(authorizer, ALICE)
        calls += [lambda: authorizer.updates.alter_configs(ALICE, [("nonsense", "x")], None)]
        calls += [lambda: authorizer.updates.create_acls(ALICE, [], None)]
        calls += [lambda: authorizer.updates.create_acls(ALICE, new([acl("")]), None)]
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
    store.commit([CreateAcls(new([cluster_acl(operation, who) for who, operation in rights.items()]), "User:admin")])
    async with authorizer_on(store, OPTIONS) as authorizer:

        async def configs(context: RequestContext) -> object:
            return authorizer.describe_configs(context)

        async def get(context: RequestContext) -> object:
            return authorizer.get_acl(context, next(iter(store.tables.acls.values())).id)

        calls: dict[str, Callable[[RequestContext], Awaitable[object]]] = {
            "create": lambda context: authorizer.updates.create_acls(context, new([acl("x")]), None),
            "delete": lambda context: authorizer.updates.delete_acls(context, [named("x")], None),
            "acls": lambda context: authorizer.acls(context, AclBindingFilter(), 10, None),
            "get": get,
            "alter configs": lambda context: authorizer.updates.alter_configs(context, [("audit.level", "INFO")], None),
            "describe configs": configs,
        }
        allowed: dict[str, set[str]] = {}
        for who in rights:
            for name, call in calls.items():
                try:
                    await call(Unchecked(who, ADDRESS))
                except ClusterAuthorizationException:
                    continue
                allowed.setdefault(who, set()).add(name)
        assert allowed == {
            "User:alter": {"create", "delete", "acls", "get"},  # ALTER implies DESCRIBE
            "User:describe": {"acls", "get"},
            "User:alterconfigs": {"alter configs", "describe configs"},  # the one implies the other
            "User:describeconfigs": {"describe configs"},
        }


@in_virtual_time
async def test_an_acl_is_found_by_its_id() -> None:
    store = FakeStore()
    async with authorizer_on(store, OPTIONS) as authorizer:
        results, _ = await authorizer.updates.create_acls(ROOT, new([acl("a")]), None)
        assert isinstance(results[0], CreatedAcl)
        for context in (ROOT, GRANTED):
            assert authorizer.get_acl(context, results[0].id).binding == acl("a")
        with pytest.raises(ResourceNotFoundException):
            authorizer.get_acl(GRANTED, uuid4())
