"""POST /v1/explain: who may ask, what is refused, the documented shape, and that it is no decision."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from app.rest.bodies.explain import MAX_ACTIONS, Explanation
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl, in_process
from tests.updates import binding, create

BOB = {"principal": "User:bob", "client_address": "10.1.2.3"}


async def explain(service: InProcess, *actions: object, context: object = ADMIN, **more: object) -> Any:  # noqa: ANN401 - JSON
    body = {"context": context, "actions": actions or [READ_ORDERS], **more}
    reply = await service.send("/v1/explain", body)
    assert reply.status_code == 200, reply.text
    for each in reply.json()["results"]:
        assert msgspec.to_builtins(msgspec.convert(each, Explanation)) == each
        assert list(each) == list(Explanation.__struct_fields__)
    return reply.json()


async def refused(service: InProcess, status: int, code: str, **body: object) -> Any:  # noqa: ANN401 - JSON
    reply = await service.send("/v1/explain", {"context": ADMIN, "actions": [READ_ORDERS], **body})
    assert (reply.status_code, reply.json()["code"]) == (status, code), reply.text
    return reply.json()


async def test_what_is_denied_is_explained(service: InProcess) -> None:
    await service.create(acl("orders", "User:bob", host="10.9.9.9"))
    reply = await explain(service, about=BOB)
    (found,) = reply["results"]
    missed = found["near_misses"][0]["acl"]
    assert found == {
        "result": "DENIED",
        "rule": "DefaultDeny",
        "acl": None,
        "matching_acls": [],
        "matching_acl_count": 0,
        "near_misses": [
            {"acl": missed, "missed": ["host"], "detail": "would match if the client's address were `10.9.9.9`"}
        ],
        "smallest_acl": {
            "resource_type": "TOPIC",
            "resource_name": "orders",
            "pattern_type": "LITERAL",
            "principal": "User:bob",
            "host": "10.1.2.3",
            "operation": "READ",
            "permission_type": "ALLOW",
        },
        "denying_acls": [],
        "denying_acl_count": 0,
        "acl_needed_besides": None,
        "note": None,
    }
    assert missed == (await service.client.get(f"/v1/acls/{missed['id']}")).json()
    assert reply["token"] == f"{service.store.epoch}:1"


async def test_the_advice_can_be_sent_to_create_acls(service: InProcess) -> None:
    (found,) = (await explain(service, about=BOB))["results"]
    reply = await service.send("/v1/acls", {"context": ADMIN, "bindings": [found["smallest_acl"]]})
    assert reply.json()["results"][0]["created"]
    (found,) = (await explain(service, about=BOB, at_least=reply.json()["token"]))["results"]
    assert (found["result"], found["rule"], found["matching_acl_count"]) == ("ALLOWED", "MatchingAcl", 1)
    assert found["acl"] == found["matching_acls"][0]
    assert found["acl"]["id"] == reply.json()["results"][0]["id"]


async def test_a_deny_is_named_with_what_it_takes_besides(service: InProcess) -> None:
    await service.create(acl("ord", "User:*", "ALL", pattern_type="PREFIXED", permission_type="DENY"))
    (found,) = (await explain(service, about=BOB))["results"]
    assert (found["result"], found["smallest_acl"], found["denying_acl_count"]) == ("DENIED", None, 1)
    assert found["denying_acls"] == [found["acl"]]
    assert found["acl_needed_besides"]["resource_name"] == "orders"


async def test_without_about_it_is_about_who_asks(service: InProcess) -> None:
    await service.create(acl("orders"))
    for about in ({}, {"about": None}, {"about": ALICE}):
        (found,) = (await explain(service, context=ALICE, **about))["results"]
        assert found["result"] == "ALLOWED"
    (found,) = (await explain(service))["results"]
    assert found["rule"] == "SuperUser"


async def test_whoever_may_not_describe_the_cluster_asks_about_itself_alone(service: InProcess) -> None:
    await service.create(acl("orders", "User:bob"))
    problem = await refused(service, 403, "CLUSTER_AUTHORIZATION_FAILED", context=ALICE, about=BOB)
    assert problem["detail"] == "cluster authorization failed"
    nobody = {"principal": "User:nobody", "client_address": "10.1.2.3"}
    assert await refused(service, 403, "CLUSTER_AUTHORIZATION_FAILED", context=ALICE, about=nobody) == problem
    assert (await explain(service, context=ALICE))["results"][0]["near_misses"] == []
    await service.create(acl("kafka-cluster", operation="DESCRIBE", resource_type="CLUSTER"))
    assert (await explain(service, context=ALICE, about=BOB))["results"][0]["result"] == "ALLOWED"
    (miss,) = (await explain(service, context=ALICE))["results"][0]["near_misses"]
    assert miss["missed"] == ["principal"]


async def test_answers_come_in_order_at_one_offset(service: InProcess) -> None:
    await service.create(acl("a"), acl("b", operation="WRITE"))
    actions = [
        {"operation": operation, "resource_type": "TOPIC", "resource_name": name}
        for name in "abc"
        for operation in ("READ", "WRITE")
    ]
    reply = await explain(service, *actions, context=ALICE)
    words = [each["result"] for each in reply["results"]]
    assert words == ["ALLOWED", "DENIED", "DENIED", "ALLOWED", "DENIED", "DENIED"]
    assert reply["token"] == f"{service.store.epoch}:2"
    assert words == await service.authorize(ALICE, *actions)


async def test_it_is_no_decision(service: InProcess) -> None:
    await service.configure("audit.level", "TRACE")
    await explain(service, about=BOB)
    await explain(service)
    assert sum(service.metrics.decisions) == 0
    assert service.metrics.http_requests["explain"][1] == 2
    assert service.audit_lines() == []


async def test_no_more_actions_than_can_be_explained_at_once(service: InProcess) -> None:
    assert len((await explain(service, *[READ_ORDERS] * MAX_ACTIONS))["results"]) == MAX_ACTIONS
    problem = await refused(service, 400, "INVALID_REQUEST", actions=[READ_ORDERS] * (MAX_ACTIONS + 1))
    assert problem["errors"] == [
        {"pointer": "/actions", "detail": "there are too many entries; send at most 100 and split the rest"}
    ]
    assert (await service.send("/v1/explain", {"context": ADMIN, "actions": []})).json()["results"] == []


async def test_what_is_wrong_is_named(subtests: pytest.Subtests, service: InProcess) -> None:
    cases: Iterable[tuple[dict[str, Any], str]] = [
        ({"about": {"principal": "bob", "client_address": "10.1.2.3"}}, "/about/principal"),
        ({"about": {"principal": "User:bob", "client_address": "localhost"}}, "/about/client_address"),
        ({"about": {"principal": "User:bob"}}, "/about/client_address"),
        ({"about": {**BOB, "listener_name": "A"}}, "/about/listener_name"),
        ({"about": "User:bob"}, "/about"),
        ({"context": {**ADMIN, "client_address": "localhost"}}, "/context/client_address"),
        ({"context": {**ADMIN, "principal": "admin"}}, "/context/principal"),
        ({"actions": [{**READ_ORDERS, "operation": "read"}]}, "/actions/0/operation"),
        ({"actions": [READ_ORDERS, {**READ_ORDERS, "resource_type": "QUEUE"}]}, "/actions/1/resource_type"),
        ({"actions": [{**READ_ORDERS, "pattern_type": "PREFIXED"}]}, "/actions/0/pattern_type"),
        ({"actions": None}, "/actions"),
    ]
    for body, pointer in cases:
        with subtests.test(body=body, pointer=pointer):
            problem = await refused(service, 400, "INVALID_REQUEST", **body)
            assert [each["pointer"] for each in problem["errors"]] == [pointer]


async def test_a_token_is_waited_for(service: InProcess) -> None:
    epoch = service.store.epoch
    assert (await explain(service, at_least=f"{epoch}:0"))["token"] == f"{epoch}:0"
    service.give_up_soon()
    problem = await refused(service, 503, "OFFSET_NOT_AVAILABLE", at_least=f"{epoch}:7")
    assert problem["retriable"]
    await refused(service, 400, "INVALID_REQUEST", at_least="garbage")
    other = "00000000-0000-0000-0000-000000000000:0"
    await refused(service, 409, "TOKEN_EPOCH_MISMATCH", at_least=other)


async def test_whoever_waits_for_a_token_takes_no_place_from_others(service: InProcess) -> None:
    pools = service.metrics.admission_requests
    seen: list[tuple[int, int]] = []
    wait_for = service.authorizer.wait_for

    async def noted(at_least: str | None, timeout_s: float | None = None) -> None:
        seen.append((pools["lists"][0], pools["waiting"][0]))
        await wait_for(at_least, timeout_s)

    service.authorizer.wait_for = noted  # type: ignore[method-assign]  # it looks, and is else the same
    service.give_up_soon()
    await refused(service, 503, "OFFSET_NOT_AVAILABLE", at_least=f"{service.store.epoch}:7")
    assert seen == [(0, 1)]
    assert (pools["lists"][0], pools["waiting"][0]) == (0, 0)


async def test_before_the_first_load_only_super_users_are_explained(unloaded: InProcess) -> None:
    await refused(unloaded, 503, "AUTHORIZER_NOT_READY", about=ALICE)
    await refused(unloaded, 503, "AUTHORIZER_NOT_READY", context=ALICE)
    reply = await explain(unloaded)
    assert (reply["results"][0]["rule"], reply["token"]) == ("SuperUser", None)


async def test_without_an_authorizer_everything_is_allowed_and_it_is_said_why() -> None:
    async with in_process(enabled=False) as service:
        service.store.commit([create(binding(acl("orders", permission_type="DENY")))])
        await service.caught_up()
        (found,) = (await explain(service, context=ALICE))["results"]
        assert (found["result"], found["matching_acls"]) == ("ALLOWED", [])
        assert "`authorizer.enabled` is false" in found["note"]
