"""A replica without REST, and what tests of it say often, in short words."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from app.core.image import AuthorizerImage
from app.core.index.search import search
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from app.core.mutations import CreateAcls, DeleteAcls
from app.metrics.declared import Metrics
from app.runtime import pace
from app.runtime.authorizer import Authorizer
from app.runtime.options import RuntimeOptions
from app.runtime.readiness import State
from tests.contexts import Unchecked
from tests.fakes import FakeStore
from tests.klamm import until
from tests.updates import new, topic
from tests.virtual_time import VIRTUAL_CLOCK

ADDRESS = parse_address("10.0.0.1")
ROOT = Unchecked("User:admin", ADDRESS)
ALICE = Unchecked("User:alice", ADDRESS)
STARTUP = AuthorizerConfig(super_users=frozenset({"User:admin"}))
OPTIONS = RuntimeOptions(clock=VIRTUAL_CLOCK)


def acl(name: str, principal: str = "User:alice", *, allow: bool = True) -> AclBinding:
    return topic(name, principal) if allow else topic(name, principal)._replace(permission_type=AclPermissionType.DENY)


def cluster_acl(operation: AclOperation, principal: str = "User:alice") -> AclBinding:
    return acl("kafka-cluster", principal)._replace(resource_type=ResourceType.CLUSTER, operation=operation)


def create(*names: str) -> CreateAcls:
    return CreateAcls(new([acl(name) for name in names]), "User:admin")


def delete(*names: str) -> DeleteAcls:
    return DeleteAcls([named(name) for name in names], "User:admin")


def named(name: str) -> AclBindingFilter:
    return AclBindingFilter(resource_name=name, pattern_type=PatternType.LITERAL)


def names_in(image: AuthorizerImage) -> list[str]:
    return [each.binding.resource_name for some in search(image.index, AclBindingFilter()) for each in some]


def names_of(store: FakeStore) -> list[str]:
    return [row[5] for row in store.tables.rows()]


def may_read(authorizer: Authorizer, name: str, principal: str = "User:alice") -> bool:
    caller = authorizer.rights.authorization(Unchecked(principal, ADDRESS))
    return caller.decide(AclOperation.READ, ResourceType.TOPIC, name).allowed


@asynccontextmanager
async def authorizer_on(
    store: FakeStore,
    options: RuntimeOptions | None = None,
    startup: AuthorizerConfig = STARTUP,
    metrics: Metrics | None = None,
    *,
    ready: bool = True,
) -> AsyncIterator[Authorizer]:
    """It has loaded the store, unless `ready` is false: then it has begun to."""
    authorizer = Authorizer(store, store.another_feed(), startup, options or RuntimeOptions(), metrics)
    authorizer.open()
    try:
        if ready:
            await until_ready(authorizer)
        yield authorizer
    finally:
        await authorizer.close()


async def until_ready(authorizer: Authorizer) -> None:
    await until(lambda: authorizer.readiness.state is State.READY, "the replica is ready")


def unopened(store: FakeStore) -> Authorizer:
    """A replica that has not begun to load."""
    return Authorizer(store, store.another_feed(), STARTUP, OPTIONS)


def never_rests(authorizer: Authorizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another image at each breath."""
    breathe = pace.Pace.breathe

    async def restless(self: pace.Pace) -> None:
        authorizer._loader._publish(replace(authorizer.image))
        await breathe(self)

    monkeypatch.setattr(pace.Pace, "breathe", restless)
