"""createAcls, deleteAcls, acls, getAcl and aclCount over HTTP (KIP-140)."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.klamm import ADMIN, ALICE, InProcess, acl, in_process

BINDING = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission_type": "ALLOW",
}
NO_COLON = (
    "Could not parse principal from `alice` (no colon is present separating the principal type from the principal name)"
)
NO_TERMS = {"expires_at": None, "owner": None}
CALLS: dict[str, dict[str, Any]] = {
    "/v1/acls": {"bindings": [BINDING]},
    "/v1/acls/delete": {"filters": [{}]},
    "/v1/acls/search": {"filter": {}},
}


async def create(service: InProcess, *bindings: object, status: int = 200, **more: object) -> Any:  # noqa: ANN401 - JSON
    reply = await service.send("/v1/acls", {"context": ADMIN, "bindings": bindings, **more})
    assert reply.status_code == status, reply.text
    return reply.json()


async def delete(service: InProcess, *filters: object) -> Any:  # noqa: ANN401 - JSON
    reply = await service.send("/v1/acls/delete", {"context": ADMIN, "filters": filters})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def search(service: InProcess, acl_filter: object, **more: object) -> Any:  # noqa: ANN401 - JSON
    reply = await service.send("/v1/acls/search", {"context": ADMIN, "filter": acl_filter, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_a_new_acl_gets_an_id_and_counts_at_once(service: InProcess) -> None:
    reply = await create(service, BINDING)
    (result,) = reply["results"]
    assert UUID(result.pop("id"))
    assert result == {"error_code": 0, "code": "NONE", "error_message": None, "created": True}
    assert reply["token"] == f"{service.store.epoch}:1"
    action = {"operation": "READ", "resource_type": "TOPIC", "resource_name": "orders"}
    assert await service.authorize(ALICE, action) == ["ALLOWED"]


async def test_an_acl_that_exists_keeps_its_id(service: InProcess) -> None:
    (first, twin) = (await create(service, BINDING, BINDING))["results"]
    (again,) = (await create(service, BINDING))["results"]
    assert first["id"] == twin["id"] == again["id"]
    assert [first["created"], again["created"]] == [True, False]


async def test_pattern_type_and_host_have_defaults(service: InProcess) -> None:
    short = {key: value for key, value in BINDING.items() if key not in ("pattern_type", "host")}
    await create(service, short)
    (acl,) = (await search(service, {}))["acls"]
    assert {key: acl[key] for key in BINDING} == BINDING


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_type": "TOPICS"}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": ""}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": "ANY"}, "resourceType must not be ANY"),
        ({"pattern_type": "FOO"}, "Invalid patternType UNKNOWN"),
        ({"pattern_type": "MATCH"}, "patternType must not be MATCH"),
        ({"operation": "read"}, "Invalid operation UNKNOWN"),
        ({"permission_type": "GRANT"}, "Invalid permissionType UNKNOWN"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        (
            {"resource_type": "CLUSTER"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            {"principal": "alice"},
            NO_COLON,
        ),
        ({"host": ""}, "Host pattern cannot be null or empty"),
        ({"host": "10.0.0.0/33"}, "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]"),
    ],
)
async def test_a_refused_binding_does_not_hinder_its_neighbours(
    service: InProcess, changes: dict[str, str], message: str
) -> None:
    results = (await create(service, {**BINDING, **changes}, BINDING))["results"]
    assert results[0] == {
        "error_code": 42,
        "code": "INVALID_REQUEST",
        "error_message": message,
        "id": None,
        "created": False,
    }
    assert results[1]["created"]


async def test_ten_thousand_new_acls_are_the_most_in_one_call(service: InProcess) -> None:
    many = [{**BINDING, "resource_name": f"t{n}"} for n in range(10_000)]
    results = (await create(service, *many, many[0], timeout_ms=60_000))["results"]
    assert len(results) == 10_001
    assert results[0]["id"] == results[-1]["id"]
    other = [{**each, "operation": "WRITE"} for each in many]
    problem = await create(service, *other, {**BINDING, "operation": "ALTER"}, status=400, timeout_ms=60_000)
    assert (problem["code"], problem["error_code"]) == ("POLICY_VIOLATION", 44)
    assert problem["detail"] == "Unable to perform excessively large batch operation."
    reply = await service.send(
        "/v1/acls/delete", {"context": ADMIN, "filters": [{}, {"resource_name": "t0"}], "timeout_ms": 60_000}
    )
    assert (reply.status_code, reply.json()["code"]) == (400, "INVALID_REQUEST")
    assert reply.json()["detail"] == "Cannot remove more than 10000 acls in a single delete operation."


async def test_what_filters_match_is_told_filter_by_filter(service: InProcess) -> None:
    ids = [each["id"] for each in (await create(service, BINDING, {**BINDING, "resource_name": "p"}))["results"]]
    reply = await delete(service, {"resource_name": "orders"}, {"resource_type": "TOPIC"}, {"resource_name": "none"})
    matches = [[match["id"] for match in result["matches"]] for result in reply["results"]]
    assert matches == [ids[:1], ids, []]
    whole = {"error_code": 0, "code": "NONE", "error_message": None}
    assert reply["results"][0] == {**whole, "matches": [{**whole, "id": ids[0], **BINDING, **NO_TERMS}]}
    assert (await search(service, {}))["acls"] == []


async def test_a_refused_filter_does_not_hinder_its_neighbours(service: InProcess) -> None:
    await create(service, BINDING)
    results = (await delete(service, {"operation": "FOO"}, {"resource_type": ""}, {}))["results"]
    assert [(each["code"], each["error_message"], len(each["matches"])) for each in results] == [
        ("INVALID_REQUEST", "Unknown entryFilter.", 0),
        ("INVALID_REQUEST", "Unknown patternFilter.", 0),
        ("NONE", None, 1),
    ]


async def test_a_field_that_is_null_or_any_stands_for_all(service: InProcess) -> None:
    await create(service, BINDING)
    everything = dict.fromkeys(BINDING)
    words = {key: "ANY" for key in BINDING if key.endswith(("type", "operation"))}
    for acl_filter in ({}, everything, words, {"pattern_type": "MATCH", "resource_name": "orders"}):
        assert len((await search(service, acl_filter))["acls"]) == 1
    for acl_filter in ({"resource_name": ""}, {"host": "10.0.0.1"}, {"operation": "ALL"}):
        assert (await search(service, acl_filter))["acls"] == []


async def test_acls_come_in_pages_and_in_order(service: InProcess) -> None:
    await service.create(*(acl(name) for name in ("d", "b", "a", "c", "e")))
    names, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = await search(service, {}, limit=2, cursor=cursor)
        names += [acl["resource_name"] for acl in page["acls"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert (names, pages) == (["a", "b", "c", "d", "e"], 3)
    assert page["token"] == f"{service.store.epoch}:5"


async def test_an_unknown_word_in_a_search_is_named(service: InProcess) -> None:
    reply = await service.send(
        "/v1/acls/search", {"context": ADMIN, "filter": {"resource_type": "T", "permission_type": "A"}}
    )
    assert reply.status_code == 400
    assert [each["pointer"] for each in reply.json()["errors"]] == ["/filter/resource_type", "/filter/permission_type"]


async def test_kafkas_own_word_for_unknown_is_refused_in_a_search(service: InProcess) -> None:
    reply = await service.send("/v1/acls/search", {"context": ADMIN, "filter": {"operation": "UNKNOWN"}})
    assert (reply.status_code, reply.json()["detail"]) == (400, "Unknown entryFilter.")


async def test_one_acl_is_shown_by_its_id(service: InProcess) -> None:
    (result,) = (await create(service, BINDING))["results"]
    reply = await service.client.get(f"/v1/acls/{result['id']}")
    assert (reply.status_code, reply.json()) == (200, {"id": result["id"], **BINDING, **NO_TERMS})
    assert (await service.client.get(f"/v1/acls/{result['id'].upper()}")).json()["id"] == result["id"]


async def test_an_id_that_nothing_has_is_not_found(service: InProcess) -> None:
    reply = await service.client.get(f"/v1/acls/{uuid4()}")
    assert (reply.status_code, reply.json()["code"]) == (404, "RESOURCE_NOT_FOUND")


async def test_acls_are_counted(service: InProcess, unloaded: InProcess) -> None:
    await service.create(acl("a"), acl("b"))
    assert (await service.client.get("/v1/acls/count")).json() == {"acl_count": 2}
    assert (await unloaded.client.get("/v1/acls/count")).json() == {"acl_count": -1}


@pytest.mark.parametrize(("path", "body"), CALLS.items())
async def test_who_lacks_the_right_on_the_cluster_learns_nothing(
    service: InProcess, path: str, body: dict[str, Any]
) -> None:
    await service.create(acl("orders"))
    other = {"filter": {"resource_name": "none"}} if path.endswith("search") else {key: list[object]() for key in body}
    replies = [await service.send(path, {**each, "context": ALICE}) for each in (body, other)]
    assert [each.status_code for each in replies] == [403, 403]
    assert replies[0].content == replies[1].content
    assert (replies[0].json()["code"], replies[0].json()["error_code"]) == ("CLUSTER_AUTHORIZATION_FAILED", 31)
    assert len(service.store.tables.acls) == 1


@pytest.mark.parametrize(
    ("path", "operation"), [("/v1/acls", "ALTER"), ("/v1/acls/delete", "ALTER"), ("/v1/acls/search", "DESCRIBE")]
)
async def test_the_right_on_the_cluster_is_enough(service: InProcess, path: str, operation: str) -> None:
    await service.create(acl("kafka-cluster", operation=operation, resource_type="CLUSTER"))
    assert (await service.send(path, {**CALLS[path], "context": ALICE})).status_code == 200


@pytest.mark.parametrize(("path", "body"), CALLS.items())
async def test_before_the_first_load_not_even_super_users_touch_acls(
    unloaded: InProcess, path: str, body: dict[str, Any]
) -> None:
    reply = await unloaded.send(path, {**body, "context": ADMIN})
    assert (reply.status_code, reply.json()["code"]) == (503, "AUTHORIZER_NOT_READY")


@pytest.mark.parametrize(("path", "body"), CALLS.items())
async def test_without_an_authorizer_there_are_no_acls(path: str, body: dict[str, Any]) -> None:
    async with in_process(enabled=False) as service:
        reply = await service.send(path, {**body, "context": ADMIN})
        assert (reply.status_code, reply.json()["code"], reply.json()["error_code"]) == (400, "SECURITY_DISABLED", 54)


async def test_a_store_that_cannot_be_reached_is_told_with_a_time_to_retry(service: InProcess) -> None:
    service.store.unreachable = True
    service.give_up_soon()
    reply = await service.send("/v1/acls", {"context": ADMIN, "bindings": [BINDING]})
    assert (reply.status_code, reply.json()["code"], reply.headers["retry-after"]) == (503, "STORE_UNAVAILABLE", "1")
    assert reply.json()["retriable"]


async def test_a_deadline_that_passes_leaves_the_outcome_unknown(service: InProcess) -> None:
    service.store.hang("write")
    reply = await service.send("/v1/acls", {"context": ADMIN, "bindings": [BINDING], "timeout_ms": 500})
    service.store.release("write")
    assert (reply.status_code, reply.json()["code"], reply.json()["error_code"]) == (504, "REQUEST_TIMED_OUT", 7)
    assert "unknown" in reply.json()["detail"]
