"""history: what it shows, in pages, and what it never shows."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.core.kafka.bindings import NewAcl
from app.core.kafka.codes import CLUSTER_NAME
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import AlterConfigs, CreateAcls, DeleteAcls
from tests.klamm import ADMIN, ALICE, InProcess, acl, in_process
from tests.updates import binding

ENDS = datetime(2099, 1, 1, tzinfo=UTC)


async def changes(service: InProcess, **more: object) -> list[dict[str, Any]]:
    reply = await service.send("/v1/history", {"context": ADMIN, **more})
    assert reply.status_code == 200, reply.text
    found: list[dict[str, Any]] = reply.json()["changes"]
    return found


async def test_every_kind_of_change_says_what_was_before() -> None:
    async with in_process() as service:
        orders = binding(acl("orders"))
        service.store.commit([CreateAcls([NewAcl(orders)], "User:bob", comment="OPS-1")])
        service.store.commit([CreateAcls([NewAcl(orders, ENDS, "team")], "User:bob")])
        service.store.commit([DeleteAcls([AclBindingFilter(resource_name="orders")], "User:carol")])
        service.store.commit([AlterConfigs([("audit.level", "DEBUG")], "User:dave")])
        configured, deleted, changed, created = await changes(service)
    assert [each["change"] for each in (created, changed, deleted, configured)] == [
        "CREATED",
        "CHANGED",
        "DELETED",
        "CONFIGURED",
    ]
    assert (created["actor"], created["comment"], created["prior"]) == ("User:bob", "OPS-1", None)
    assert created["acl"]["resource_name"] == "orders"
    assert changed["prior"] == {"expires_at": None, "owner": None}
    assert (changed["acl"]["expires_at"], changed["acl"]["owner"]) == ("2099-01-01T00:00:00Z", "team")
    assert (deleted["actor"], deleted["acl"]["owner"]) == ("User:carol", "team")
    assert configured["acl"] is None
    assert configured["config"] == {"name": "audit.level", "value": "DEBUG", "prior_value": None}


async def test_pages_lead_to_the_end() -> None:
    async with in_process() as service:
        for at in range(5):
            await service.create(acl(f"orders-{at}"))
        seen, cursor = list[str](), None
        while True:
            reply = (await service.send("/v1/history", {"context": ADMIN, "limit": 2, "cursor": cursor})).json()
            seen += [each["acl"]["resource_name"] for each in reply["changes"]]
            cursor = reply["next_cursor"]
            if cursor is None:
                break
    assert seen == [f"orders-{at}" for at in reversed(range(5))]


async def test_filters_narrow_it_down() -> None:
    async with in_process() as service:
        await service.create(acl("orders"), acl("bills", "User:bob", "WRITE"))
        await service.configure("audit.level", "DEBUG")
        (bob,) = await changes(service, filter={"principal": "User:bob"})
        assert bob["acl"]["resource_name"] == "bills"
        assert len(await changes(service, filter={"resource_name": "orders", "pattern_type": "MATCH"})) == 1
        assert await changes(service, actor="User:nobody") == []
        assert len(await changes(service, since=bob["token"])) == 1
        assert len(await changes(service, until=bob["token"])) == 2
        assert len(await changes(service, filter={})) == 3


async def test_without_describe_nothing_is_told_and_without_describe_configs_no_property() -> None:
    async with in_process() as service:
        await service.configure("audit.level", "DEBUG")
        refusal = await service.send("/v1/history", {"context": ALICE})
        assert (refusal.status_code, refusal.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
        await service.create(acl(CLUSTER_NAME, operation="DESCRIBE", resource_type="CLUSTER"))
        reply = (await service.send("/v1/history", {"context": ALICE})).json()
        assert [each["change"] for each in reply["changes"]] == ["CREATED"]
        assert not reply["shows_configs"]
        await service.create(acl(CLUSTER_NAME, operation="DESCRIBE_CONFIGS", resource_type="CLUSTER"))
        reply = (await service.send("/v1/history", {"context": ALICE})).json()
        assert reply["shows_configs"]
        assert [each["change"] for each in reply["changes"]] == ["CREATED", "CREATED", "CONFIGURED"]


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"since": "yesterday"}, "`since`"),
        ({"since": "2026-11-23"}, "`since`"),
        ({"since": "2026-11-23T05:07:00"}, "`since`"),
        ({"until": "2026-13-23T05:07:00Z"}, "`until`"),
        ({"until": "0001-01-01T00:00:00+23:00"}, "`until`"),
        ({"until": ""}, "`until`"),
        ({"cursor": "x"}, "`cursor`"),
        ({"limit": 0}, "/limit"),
        ({"limit": 1_001}, "/limit"),
        ({"actor": 7}, "/actor"),
        ({"comment": "x" * 40_000}, "/comment"),
        ({"filter": {"resource_type": "TOPICS"}}, "/filter/resource_type"),
        ({"filter": {"resource_types": "TOPIC"}}, "/filter/resource_types"),
        ({"at": "2026-11-23T05:07:00Z"}, "/at"),
    ],
)
async def test_what_can_not_be_meant_is_refused_by_name(wrong: dict[str, object], word: str) -> None:
    async with in_process() as service:
        reply = await service.send("/v1/history", {"context": ADMIN, **wrong})
    assert reply.status_code == 400, reply.text
    assert word in reply.json()["detail"]
