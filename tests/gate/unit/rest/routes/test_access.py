"""POST /v1/who-can and /v1/what-can: the rows, their pages, who may ask, and what is refused."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from app.rest.bodies.access import WhatCanResponse, WhoCanResponse
from tests.gate.unit.rest.test_bad_input import check_problem
from tests.klamm import ADMIN, ALICE, InProcess, acl, in_process

ORDERS = {"resource_type": "TOPIC", "resource_name": "orders"}
WHO: dict[str, Any] = {"context": ADMIN, "resource": ORDERS}
WHAT: dict[str, Any] = {"context": ADMIN, "principal": "User:alice"}
CALLS = {"/v1/who-can": WHO, "/v1/what-can": WHAT}
ACLS = [
    acl("orders"),
    acl("ord", operation="WRITE", pattern_type="PREFIXED", host="10.0.0.0/8"),
    acl("orders", host="10.1.0.0/16", permission_type="DENY"),
    acl("*", "User:*", "DESCRIBE"),
    acl("orders", "User:bob", permission_type="DENY"),
    acl("orders", "User:admin"),
]


async def ask(service: InProcess, path: str, **more: object) -> Any:  # noqa: ANN401 - JSON
    reply = await service.send(path, {**CALLS[path], **more})
    assert reply.status_code == 200, reply.text
    found, model = reply.json(), WhoCanResponse if path == "/v1/who-can" else WhatCanResponse
    assert msgspec.to_builtins(msgspec.convert(found, model)) == found
    return found


def who_told(found: Any) -> list[str]:  # noqa: ANN401 - JSON
    return [
        f"{row['principal']} {row['host']} +{','.join(row['operations'])} -{','.join(row['denied'])} {row['acl_count']}"
        for row in found["rows"]
    ]


def what_told(found: Any) -> list[str]:  # noqa: ANN401 - JSON
    return [
        f"{row['resource_type']} {row['pattern_type']} {row['resource_name']} {row['host']} "
        f"+{','.join(row['operations'])} -{','.join(row['denied'])} {row['acl_count']}/{row['cut_out_count']}"
        for row in found["rows"]
    ]


async def test_who_can_tells_principals_hosts_and_the_acls_that_give_it(service: InProcess) -> None:
    await service.create(*ACLS)
    found = await ask(service, "/v1/who-can")
    assert who_told(found) == [
        "User:* * +DESCRIBE - 1",
        "User:alice * +READ,DESCRIBE - 2",
        "User:alice 10.0.0.0/8 +READ,WRITE,DESCRIBE - 3",
        "User:alice 10.1.0.0/16 +WRITE,DESCRIBE -READ 4",
        "User:bob * +DESCRIBE -READ 2",
    ]
    denied = found["rows"][3]["acls"]
    assert [each["permission_type"] for each in denied] == ["DENY", "ALLOW", "ALLOW", "ALLOW"]
    assert denied[0] == (await service.client.get(f"/v1/acls/{denied[0]['id']}")).json()
    assert (found["super_users"], found["super_users_shown"]) == (["User:admin"], True)
    assert (found["allowed_by_default"], found["next_cursor"]) == (False, None)
    assert found["token"] == f"{service.store.epoch}:{len(ACLS)}"


async def test_who_can_of_one_operation_and_one_client(service: InProcess) -> None:
    await service.create(*ACLS)
    assert who_told(await ask(service, "/v1/who-can", operations=["WRITE"])) == ["User:alice 10.0.0.0/8 +WRITE - 1"]
    found = await ask(service, "/v1/who-can", operations=["READ"], host="10.1.2.3")
    assert who_told(found) == ["User:alice 10.1.0.0/16 + -READ 2", "User:bob * + -READ 1"]


async def test_what_can_tells_patterns_and_what_denies_cut_out(service: InProcess) -> None:
    await service.create(*ACLS, acl("orders", operation="WRITE", permission_type="DENY", host="10.2.2.2"))
    found = await ask(service, "/v1/what-can")
    assert what_told(found) == [
        "TOPIC LITERAL * * +DESCRIBE - 1/0",
        "TOPIC PREFIXED ord 10.0.0.0/8 +WRITE,DESCRIBE - 1/1",
        "TOPIC LITERAL orders * +READ,DESCRIBE - 1/1",
    ]
    assert found["rows"][1]["cut_out"][0]["host"] == "10.2.2.2"
    assert found["super_user"] is False
    here = await ask(service, "/v1/what-can", host="10.1.2.3")
    assert what_told(here) == [
        "TOPIC LITERAL * 10.1.2.3 +DESCRIBE - 1/0",
        "TOPIC PREFIXED ord 10.1.2.3 +WRITE,DESCRIBE - 1/0",
        "TOPIC LITERAL orders 10.1.2.3 +DESCRIBE -READ 2/0",
    ]


async def test_all_denies_that_cut_out_are_told_in_as_many_rows_as_it_takes(
    subtests: pytest.Subtests, service: InProcess
) -> None:
    for limit in [1, 2, 1_000]:
        with subtests.test(limit=limit):
            hosts = [f"10.0.0.{number}" for number in range(45)]
            denies = [acl("orders", "User:*", "ALL", host=host, permission_type="DENY") for host in hosts]
            await service.create(*denies, *ACLS)
            for more in ({}, {"principal": "User:bob"}):
                rows: list[Any] = []
                page: Any = {"next_cursor": None}
                while not rows or page["next_cursor"] is not None:
                    page = await ask(service, "/v1/what-can", limit=limit, cursor=page["next_cursor"], **more)
                    assert len(page["rows"]) <= limit
                    rows += page["rows"]
                of_all = [row for row in rows if row["resource_name"] == "*"]
                assert [(len(row["cut_out"]), row["cut_out_count"]) for row in of_all] == [(20, 45), (20, 45), (5, 45)]
                assert len({str({**row, "cut_out": []}) for row in of_all}) == 1
                assert sorted(each["host"] for row in of_all for each in row["cut_out"]) == sorted(hosts)


async def test_a_row_that_loses_denies_between_two_pages_goes_on_behind_those_that_were_told(
    service: InProcess,
) -> None:
    denies = [
        acl("orders", "User:*", "ALL", host=f"10.0.0.{number}", permission_type="DENY") for number in range(100, 145)
    ]
    await service.create(*denies, *ACLS)
    page = await ask(service, "/v1/what-can", limit=1)
    within = page["next_cursor"]
    told = [each["host"] for each in page["rows"][0]["cut_out"]]
    gone = {"resource_name": "orders", "host": "10.0.0.100", "permission_type": "DENY"}
    assert (await service.send("/v1/acls/delete", {"context": ADMIN, "filters": [gone]})).status_code == 200
    page = await ask(service, "/v1/what-can", limit=2, cursor=within)
    told += [each["host"] for row in page["rows"] for each in row["cut_out"]]
    assert told == [f"10.0.0.{number}" for number in range(100, 145)]
    gone = {"resource_name": "orders", "principal": "User:*"}
    assert (await service.send("/v1/acls/delete", {"context": ADMIN, "filters": [gone]})).status_code == 200
    page = await ask(service, "/v1/what-can", limit=1, cursor=within)
    assert what_told(page) == ["TOPIC PREFIXED ord 10.0.0.0/8 +WRITE,DESCRIBE - 1/0"]


async def test_a_super_user_has_no_rows_and_what_no_acl_is_on_is_said(service: InProcess) -> None:
    await service.create(*ACLS)
    assert (await ask(service, "/v1/what-can", principal="User:admin"))["super_user"] is True
    assert (await ask(service, "/v1/what-can", principal="User:admin"))["rows"] == []
    await service.configure("allow.everyone.if.no.acl.found", "true")
    other = {"resource_type": "GROUP", "resource_name": "orders"}
    assert [(await ask(service, "/v1/who-can", resource=each))["allowed_by_default"] for each in (ORDERS, other)] == [
        False,
        True,
    ]
    assert (await ask(service, "/v1/what-can"))["allowed_by_default"] is True


async def test_pages_put_together_are_the_whole(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in CALLS:
        for limit in [1, 2, 3]:
            with subtests.test(path=path, limit=limit):
                await service.create(*ACLS)
                whole = (await ask(service, path))["rows"]
                assert len(whole) >= 3
                rows, cursor = [], None
                for _ in range(len(whole) + 1):
                    page = await ask(service, path, limit=limit, cursor=cursor)
                    rows += page["rows"]
                    cursor = page["next_cursor"]
                    if cursor is None:
                        break
                    assert len(page["rows"]) == limit
                assert (rows, cursor) == (whole, None)


async def test_rows_say_when_the_last_allow_ends(service: InProcess) -> None:
    body = {
        "context": ADMIN,
        "bindings": [
            {**ORDERS, "principal": "User:alice", "operation": word, "permission_type": "ALLOW", "expires_at": end}
            for word, end in (("READ", "2097-01-01T00:00:00Z"), ("WRITE", "2098-01-01T00:00:00Z"))
        ],
    }
    assert (await service.send("/v1/acls", body)).status_code == 200
    # DESCRIBE comes with WRITE too, and so ends a year later than READ.
    for operations, end in ((["READ", "WRITE"], "2097"), (["WRITE", "DESCRIBE"], "2098"), (["DESCRIBE"], "2098")):
        (row,) = (await ask(service, "/v1/who-can", operations=operations))["rows"]
        assert row["expires_at"] == f"{end}-01-01T00:00:00Z"
    (row,) = (await ask(service, "/v1/what-can"))["rows"]
    assert row["expires_at"] == "2097-01-01T00:00:00Z"
    await service.create(acl("*", operation="ALL"))
    (row,) = (await ask(service, "/v1/who-can"))["rows"]
    assert row["expires_at"] is None


@pytest.mark.parametrize("path", CALLS)
async def test_without_describe_on_the_cluster_it_is_refused_before_any_look_up(service: InProcess, path: str) -> None:
    await service.create(*ACLS)
    for more in ({}, {"cursor": "garbage"}):
        problem = check_problem(await service.send(path, {**CALLS[path], "context": ALICE, **more}), 403)
        assert (problem["code"], problem["detail"]) == ("CLUSTER_AUTHORIZATION_FAILED", "cluster authorization failed")
    await service.create(acl("kafka-cluster", operation="DESCRIBE", resource_type="CLUSTER"))
    await ask(service, path, context=ALICE)


@pytest.mark.parametrize("path", CALLS)
async def test_without_an_authorizer_or_a_load_there_is_nothing_to_tell(path: str) -> None:
    async with in_process(enabled=False) as service:
        problem = check_problem(await service.send(path, CALLS[path]), 400)
        assert problem["code"] == "SECURITY_DISABLED"
    async with in_process(reachable=False) as service:
        problem = check_problem(await service.send(path, CALLS[path]), 503)
        assert problem["code"] == "AUTHORIZER_NOT_READY"


async def test_what_was_not_understood_is_refused_by_its_name(subtests: pytest.Subtests, service: InProcess) -> None:
    cases: Iterable[tuple[str, dict[str, Any], str, str]] = [
        ("/v1/who-can", {"resource": {**ORDERS, "resource_type": "TOPICS"}}, "/resource/resource_type", "TOPIC, GROUP"),
        ("/v1/who-can", {"resource": {**ORDERS, "resource_type": "ANY"}}, "/resource/resource_type", "TOPIC, GROUP"),
        ("/v1/who-can", {"resource": {"resource_type": "TOPIC"}}, "/resource/resource_name", ""),
        ("/v1/who-can", {"resource": None}, "/resource", ""),
        ("/v1/who-can", {"operations": ["READ", "read"]}, "/operations/1", "READ, WRITE"),
        ("/v1/who-can", {"operations": ["ALL"]}, "/operations/0", "leave out `operations`"),
        ("/v1/who-can", {"operations": ["READ"] * 17}, "/operations", ""),
        ("/v1/who-can", {"operations": "READ"}, "/operations", ""),
        ("/v1/who-can", {"host": "broker-1"}, "/host", "10.1.2.3"),
        ("/v1/who-can", {"host": "10.0.0.0/8"}, "/host", "10.1.2.3"),
        ("/v1/who-can", {"limit": 0}, "/limit", ""),
        ("/v1/who-can", {"limit": 1001}, "/limit", ""),
        ("/v1/what-can", {"principal": "alice"}, "/principal", "User:alice"),
        ("/v1/what-can", {"principal": None}, "/principal", ""),
        ("/v1/what-can", {"host": "*"}, "/host", "10.1.2.3"),
        ("/v1/what-can", {"limit": 0}, "/limit", ""),
        ("/v1/what-can", {"resource": ORDERS}, "/resource", ""),
    ]
    for path, more, pointer, detail in cases:
        with subtests.test(path=path, more=more, pointer=pointer, detail=detail):
            problem = check_problem(await service.send(path, {**CALLS[path], **more}), 400)
            assert problem["code"] == "INVALID_REQUEST"
            (error,) = problem["errors"]
            assert error["pointer"] == pointer
            assert detail in error["detail"]


@pytest.mark.parametrize("path", CALLS)
async def test_a_cursor_of_another_list_is_refused(service: InProcess, path: str) -> None:
    await service.create(*ACLS)
    other = next(each for each in CALLS if each != path)
    cursor = (await ask(service, other, limit=1))["next_cursor"]
    for each in ("garbage", cursor):
        problem = check_problem(await service.send(path, {**CALLS[path], "cursor": each}), 400)
        assert "`cursor`" in problem["detail"]
