"""Published faults of OpenFGA, each shown not to be Klamm's: what is listed, and what that costs."""

import asyncio
import gc
import json
import logging
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.operations import supported_operations
from app.core.token import Token
from tests.bodies import BODIES
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, Json, acl

MIB = 1024 * 1024


def group(name: str, operation: str = "DESCRIBE") -> dict[str, str]:
    return {"operation": operation, "resource_type": "GROUP", "resource_name": name}


WORLD = [
    acl("team-", operation="ALL", resource_type="GROUP", pattern_type="PREFIXED"),
    acl("team-b", operation="DESCRIBE", resource_type="GROUP", permission_type="DENY"),
    acl("lone", resource_type="GROUP"),
    acl("*", "User:*", "DELETE", resource_type="GROUP", host="10.9.9.9"),
    acl("*", operation="ALTER_CONFIGS"),
    acl("o", operation="WRITE", pattern_type="PREFIXED"),
    acl("orders", "User:*", "WRITE", permission_type="DENY"),
    acl("orders.eu", "Group:x", "ALL"),
    acl("kafka-cluster", operation="CREATE", resource_type="CLUSTER"),
    acl("kafka-cluster", operation="DESCRIBE", resource_type="CLUSTER", permission_type="DENY", host="10.9.9.9"),
    acl("tx", operation="DESCRIBE", resource_type="TRANSACTIONAL_ID"),
]
NAMES = ("team-", "team-a", "team-b", "lone", "other", "o", "orders", "orders.eu", "tx", "kafka-cluster", "*")
CALLERS = [
    {"principal": principal, "client_address": address}
    for principal in ("User:alice", "User:bob", "Group:x", "User:*")
    for address in ("10.1.2.3", "10.9.9.9")
]


async def single(service: InProcess, context: Json, actions: Sequence[Json]) -> list[bool]:
    return [result == "ALLOWED" for result in await service.authorize(context, *actions)]


async def test_cve_2025_48371_list_groups_shows_what_single_questions_allow(
    subtests: pytest.Subtests, service: InProcess
) -> None:
    for context in CALLERS:
        with subtests.test(context=context):
            await service.create(*WORLD)
            shown = (await service.send("/v1/list-groups", {"context": context, "groups": NAMES})).json()["groups"]
            cluster = {"operation": "DESCRIBE", "resource_type": "CLUSTER", "resource_name": "kafka-cluster"}
            everything, *each = await single(service, context, [cluster, *map(group, NAMES)])
            assert shown == [name for name, may in zip(NAMES, each, strict=True) if may or everything]


async def test_cve_2022_23542_operations_that_are_listed_are_those_that_are_allowed(
    subtests: pytest.Subtests, service: InProcess
) -> None:
    for context in CALLERS:
        with subtests.test(context=context):
            await service.create(*WORLD)
            for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID):
                names = ("kafka-cluster",) if kind is ResourceType.CLUSTER else NAMES
                resources = [{"resource_type": kind.name, "resource_name": name} for name in names]
                reply = await service.send("/v1/authorized-operations", {"context": context, "resources": resources})
                operations = supported_operations(kind)
                for resource, result in zip(resources, reply.json()["results"], strict=True):
                    actions = [{**resource, "operation": operation.name} for operation in operations]
                    may = await single(service, context, actions)
                    allowed = [operation for operation, yes in zip(operations, may, strict=True) if yes]
                    described = AclOperation.DESCRIBE in allowed
                    assert set(result["operations"]) == ({each.name for each in allowed} if described else set())


# resources


async def test_cve_2023_45810_lists_leave_nothing_behind(service: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    # pytest keeps what is logged, and httpx' lines hold their replies.
    for logger in (None, "httpx", "httpcore"):
        caplog.set_level(logging.CRITICAL, logger)
    await service.create(*(acl(f"topic-{n}") for n in range(300)))
    unlogged = {**READ_ORDERS, "log_if_denied": False}
    bodies = [
        ("/v1/acls/search", {"context": ADMIN, "filter": {"principal": "User:alice"}, "limit": 20}),
        ("/v1/acls/search", {"context": ADMIN, "filter": {"operation": "DELETE"}}),
        ("/v1/list-groups", {"context": ALICE, "groups": [f"g-{n}" for n in range(100)]}),
        ("/v1/authorize", {"context": ALICE, "actions": [unlogged] * 100}),
    ]

    async def rounds(count: int) -> None:
        for _ in range(count):
            for path, body in bodies:
                assert (await service.send(path, body)).status_code == 200

    await rounds(10)
    tasks = len(asyncio.all_tasks())
    tracemalloc.start()
    await rounds(5)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    await rounds(40)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    # The loader's own come and go.
    assert len(asyncio.all_tasks()) <= tasks + 2
    # 160 calls: a kilobyte kept of each would show.
    assert after - before < 100_000


async def test_cve_2023_45810_a_list_is_never_longer_than_its_page(service: InProcess) -> None:
    await service.create(*(acl(f"topic-{n}") for n in range(1_500)))
    body = {"context": ADMIN, "filter": {}}
    sizes: list[int] = []
    cursor = None
    while cursor is not None or not sizes:
        page = (await service.send("/v1/acls/search", {**body, "limit": 1_000, "cursor": cursor})).json()
        sizes.append(len(page["acls"]))
        cursor = page["next_cursor"]
    assert sizes == [1_000, 500]
    assert (await service.send("/v1/acls/search", {**body, "limit": 1_001})).status_code == 400
    assert len((await service.send("/v1/acls/search", body)).json()["acls"]) <= 1_000


async def test_cve_2023_43645_nothing_recurses_as_deep_as_a_body_says(
    subtests: pytest.Subtests, service: InProcess
) -> None:
    for levels in [17, 900, 100_000]:
        for path in BODIES:
            with subtests.test(levels=levels, path=path):
                text = json.dumps(BODIES[path])
                for inner in ("[" * levels + "]" * levels, '{"a":' * levels + "1" + "}" * levels, '[{"a":' * levels):
                    reply = await service.send(path, f'{text[:-1]},"n":{inner}}}'.encode())
                    assert (reply.status_code, reply.json()["code"]) == (400, "INVALID_REQUEST")
                    assert "deep" in reply.json()["detail"] or "many values" in reply.json()["detail"]


async def test_cve_2023_35933_a_long_search_lets_others_in_between(service: InProcess) -> None:
    """A list that looks at everything and finds nothing must not hold up whoever asks meanwhile."""
    await service.create(*(acl(f"topic-{n}") for n in range(10_000)))
    order: list[str] = []

    async def ask(what: str, path: str, body: dict[str, Any]) -> None:
        assert (await service.send(path, body)).status_code == 200
        order.append(what)

    await asyncio.gather(
        ask("search", "/v1/acls/search", {"context": ADMIN, "filter": {"operation": "DELETE"}}),
        *(ask("authorize", "/v1/authorize", {"context": ALICE, "actions": [READ_ORDERS]}) for _ in range(3)),
    )
    assert order[-1] == "search"


async def test_openfga_pr_2425_nobody_waits_for_others_with_the_store_in_hand(service: InProcess) -> None:
    """Calls that held a connection waited for ones that needed one."""
    created = [
        service.send("/v1/acls", {"context": ADMIN, "bindings": [_json_of(f"topic-{n}-{m}") for m in range(5)]})
        for n in range(100)
    ]
    offset = service.store.tables.last_offset + 500
    token = str(Token(service.store.epoch, offset))
    waiting = [
        service.send("/v1/authorize", {"context": ALICE, "actions": [READ_ORDERS], "at_least": token})
        for _ in range(100)
    ]
    async with asyncio.timeout(30):
        replies = await asyncio.gather(*waiting, *created)
    assert {reply.status_code for reply in replies} == {200}
    deleted = await service.send("/v1/acls/delete", {"context": ADMIN, "filters": [{"principal": "User:alice"}]})
    assert len(deleted.json()["results"][0]["matches"]) == 500


def _json_of(name: str) -> dict[str, str]:
    return {
        "resource_type": "TOPIC",
        "resource_name": name,
        "principal": "User:alice",
        "operation": "READ",
        "permission_type": "ALLOW",
    }
