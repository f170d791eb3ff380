"""authorizedOperations (KIP-430), authorizeByResourceType (KIP-504) and listGroups (KIP-231)."""

from typing import Any

import pytest

from tests.klamm import ADMIN, ALICE, InProcess, acl, in_process

NOT_TOLD = -2147483648


async def operations(service: InProcess, resource_type: str, name: str, context: object = ALICE) -> dict[str, Any]:
    body = {"context": context, "resources": [{"resource_type": resource_type, "resource_name": name}]}
    reply = await service.send("/v1/authorized-operations", body)
    assert reply.status_code == 200, reply.text
    (result,) = reply.json()["results"]
    assert (result.pop("resource_type"), result.pop("resource_name")) == (resource_type, name)
    return dict(result)


async def test_a_super_user_may_do_whatever_the_type_supports(service: InProcess) -> None:
    assert await operations(service, "TOPIC", "orders", ADMIN) == {
        "error_code": 0,
        "code": "NONE",
        "authorized_operations": 3576,
        "operations": ["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"],
    }


async def test_implied_operations_are_told(service: InProcess) -> None:
    await service.create(acl("orders"))
    result = await operations(service, "TOPIC", "orders")
    assert (result["authorized_operations"], result["operations"]) == (264, ["READ", "DESCRIBE"])


async def test_nothing_is_told_of_what_may_not_be_described(subtests: pytest.Subtests, service: InProcess) -> None:
    for resource_type, error_code, code in [
        ("TOPIC", 29, "TOPIC_AUTHORIZATION_FAILED"),
        ("GROUP", 30, "GROUP_AUTHORIZATION_FAILED"),
        ("TRANSACTIONAL_ID", 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("DELEGATION_TOKEN", 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED"),
        ("USER", 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED"),
        ("ANY", 42, "INVALID_REQUEST"),
        ("UNKNOWN", 42, "INVALID_REQUEST"),
        ("TOPICS", 42, "INVALID_REQUEST"),
        ("", 42, "INVALID_REQUEST"),
    ]:
        with subtests.test(resource_type=resource_type, error_code=error_code, code=code):
            assert await operations(service, resource_type, "orders") == {
                "error_code": error_code,
                "code": code,
                "authorized_operations": NOT_TOLD,
                "operations": [],
            }


async def test_other_rights_do_not_stand_in_for_describe(service: InProcess) -> None:
    await service.create(acl("orders", operation="CREATE"))
    assert (await operations(service, "TOPIC", "orders"))["code"] == "TOPIC_AUTHORIZATION_FAILED"


async def test_the_cluster_without_describe_has_no_operations_and_no_error(service: InProcess) -> None:
    await service.create(acl("kafka-cluster", operation="CREATE", resource_type="CLUSTER"))
    assert await operations(service, "CLUSTER", "kafka-cluster") == {
        "error_code": 0,
        "code": "NONE",
        "authorized_operations": 0,
        "operations": [],
    }


async def test_users_are_described_by_describe_tokens(service: InProcess) -> None:
    await service.create(acl("User:bob", operation="DESCRIBE_TOKENS", resource_type="USER"))
    result = await operations(service, "USER", "User:bob")
    assert (result["code"], result["authorized_operations"]) == ("NONE", 1 << 14)


async def test_a_refused_resource_does_not_hinder_its_neighbours(service: InProcess) -> None:
    await service.create(acl("a", operation="ALL", resource_type="GROUP"))
    resources = [{"resource_type": each, "resource_name": "a"} for each in ("GROUP", "NONE", "TOPIC", "GROUP")]
    reply = await service.send("/v1/authorized-operations", {"context": ALICE, "resources": resources})
    results = reply.json()["results"]
    assert [each["authorized_operations"] for each in results] == [3400, NOT_TOLD, NOT_TOLD, 3400]
    assert reply.json()["token"] == f"{service.store.epoch}:1"


async def by_type(service: InProcess, operation: str, resource_type: str) -> Any:  # noqa: ANN401 - JSON
    body = {"context": ALICE, "operation": operation, "resource_type": resource_type}
    return await service.send("/v1/authorize-by-resource-type", body)


async def test_any_allowed_resource_of_the_type_is_enough(service: InProcess) -> None:
    await service.create(acl("somewhere", operation="WRITE"))
    assert (await by_type(service, "WRITE", "TOPIC")).json() == {
        "result": "ALLOWED",
        "token": f"{service.store.epoch}:1",
    }
    assert (await by_type(service, "READ", "TOPIC")).json()["result"] == "DENIED"
    assert (await by_type(service, "WRITE", "GROUP")).json()["result"] == "DENIED"
    assert sum(service.metrics.decisions) == 3


@pytest.mark.parametrize(
    ("operation", "resource_type"), [("ANY", "TOPIC"), ("UNKNOWN", "TOPIC"), ("READ", "ANY"), ("READ", "UNKNOWN")]
)
async def test_filter_words_are_refused_by_resource_type(
    service: InProcess, operation: str, resource_type: str
) -> None:
    reply = await by_type(service, operation, resource_type)
    assert (reply.status_code, reply.json()["code"]) == (400, "INVALID_REQUEST")


async def test_both_unknown_words_are_named(service: InProcess) -> None:
    problem = (await by_type(service, "R", "T")).json()
    assert [each["pointer"] for each in problem["errors"]] == ["/operation", "/resource_type"]


async def groups(service: InProcess, *names: str) -> list[str]:
    reply = await service.send("/v1/list-groups", {"context": ALICE, "groups": names})
    assert reply.status_code == 200
    assert set(reply.json()) == {"groups", "token"}
    return list(reply.json()["groups"])


async def test_groups_that_may_not_be_described_are_left_out_without_an_error(service: InProcess) -> None:
    await service.create(
        acl("b", resource_type="GROUP"), acl("d-", operation="DESCRIBE", resource_type="GROUP", pattern_type="PREFIXED")
    )
    assert await groups(service, "d-2", "a", "b", "c", "d-1", "b") == ["d-2", "b", "d-1", "b"]
    assert await groups(service) == []


async def test_who_may_describe_the_cluster_sees_every_group(service: InProcess) -> None:
    await service.create(
        acl("kafka-cluster", operation="DESCRIBE", resource_type="CLUSTER"),
        acl("x", operation="ALL", resource_type="GROUP", permission_type="DENY"),
    )
    assert await groups(service, "x", "", "y") == ["x", "", "y"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/authorized-operations", {"resources": []}),
        ("/v1/authorize-by-resource-type", {"operation": "READ", "resource_type": "TOPIC"}),
        ("/v1/list-groups", {"groups": []}),
    ],
)
async def test_before_the_first_load_only_super_users_get_a_decision(
    unloaded: InProcess, path: str, body: dict[str, Any]
) -> None:
    reply = await unloaded.send(path, {**body, "context": ALICE})
    assert (reply.status_code, reply.json()["code"], reply.headers["retry-after"]) == (503, "AUTHORIZER_NOT_READY", "1")
    reply = await unloaded.send(path, {**body, "context": ADMIN})
    assert (reply.status_code, reply.json()["token"]) == (200, None)


async def test_without_an_authorizer_everyone_may_do_everything() -> None:
    async with in_process(enabled=False) as service:
        assert (await operations(service, "GROUP", "g"))["authorized_operations"] == 3400
        assert (await by_type(service, "READ", "TOPIC")).json()["result"] == "ALLOWED"
        assert await groups(service, "a", "b") == ["a", "b"]
