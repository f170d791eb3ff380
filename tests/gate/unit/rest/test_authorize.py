"""POST /v1/authorize: results, tokens, refusals, audit and metrics."""

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import pytest
from starlette.types import Message, Scope

from app.core.token import Token
from app.rest.bodies.reading import MAX_BODY_BYTES
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, acl, in_process
from tests.updates import binding, create

WRITE_ORDERS = {**READ_ORDERS, "operation": "WRITE"}


async def call(service: InProcess, *messages: Message, path: str = "/v1/authorize") -> list[Message]:
    """What the application sends for these messages of a server, called as a server does."""
    incoming, sent = list(messages), list[Message]()

    async def receive() -> Message:
        if not incoming:
            await asyncio.Event().wait()
        return incoming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    await service.app(scope, receive, send)
    return sent


def body_with(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A valid body with other or (None) without parts."""
    body = {"context": ALICE, "actions": [READ_ORDERS], **changes}
    return {key: value for key, value in body.items() if value is not None}


async def test_results_come_in_the_order_of_the_actions(service: InProcess) -> None:
    await service.create(acl("orders"), acl("pre", operation="ALL", pattern_type="PREFIXED"))
    reply = await service.post(
        "/v1/authorize",
        {"context": ALICE, "actions": [READ_ORDERS, WRITE_ORDERS, {**WRITE_ORDERS, "resource_name": "prefix"}]},
    )
    assert reply == {"results": ["ALLOWED", "DENIED", "ALLOWED"], "token": f"{service.store.epoch}:2"}


async def test_no_actions_give_no_results(service: InProcess) -> None:
    assert await service.authorize(ALICE) == []


async def test_the_answer_says_how_long_it_is(service: InProcess) -> None:
    reply = await service.send("/v1/authorize", body_with())
    assert reply.headers["content-type"] == "application/json"
    assert int(reply.headers["content-length"]) == len(reply.content)


async def test_odd_operations_and_types_are_answered_as_kafka_answers_them(service: InProcess) -> None:
    await service.create(acl("all", operation="ALL"), acl("read"))
    odd = [
        {"operation": operation, "resource_type": "TOPIC", "resource_name": name}
        for operation in ("ALL", "ANY", "UNKNOWN")
        for name in ("all", "read")
    ]
    odd += [{"operation": "READ", "resource_type": each, "resource_name": "all"} for each in ("ANY", "UNKNOWN")]
    results = await service.authorize(ALICE, *odd)
    assert results == ["ALLOWED", "DENIED"] * 3 + ["DENIED"] * 2


async def test_addresses_are_compared_as_java_prints_them(service: InProcess) -> None:
    await service.create(acl("orders", host="0:0:0:0:0:0:0:1"), acl("orders", operation="WRITE", host="10.0.0.1"))
    loopback = {**ALICE, "client_address": "::1"}
    mapped = {**ALICE, "client_address": "::ffff:10.0.0.1"}
    assert await service.authorize(loopback, READ_ORDERS) == ["ALLOWED"]
    assert await service.authorize(mapped, WRITE_ORDERS) == ["ALLOWED"]


async def test_a_batch_is_answered_at_the_offset_that_its_token_names(service: InProcess) -> None:
    first = (await service.post("/v1/authorize", {"context": ALICE, "actions": []}))["token"]
    await service.create(acl("orders"))
    second = await service.post("/v1/authorize", {"context": ALICE, "actions": [READ_ORDERS], "at_least": first})
    assert (first, second["token"]) == (f"{service.store.epoch}:0", f"{service.store.epoch}:1")
    assert second["results"] == ["ALLOWED"]


async def test_a_token_is_waited_for(service: InProcess) -> None:
    token = str(Token(service.store.epoch, 1))
    asking = asyncio.create_task(service.authorize(ALICE, READ_ORDERS, at_least=token))
    await asyncio.sleep(0.01)
    assert not asking.done()
    await service.create(acl("orders"))
    assert await asking == ["ALLOWED"]


async def test_no_token_is_waited_for_if_it_is_null(service: InProcess) -> None:
    assert await service.authorize(ALICE, READ_ORDERS, at_least=None) == ["DENIED"]


async def test_a_token_that_does_not_come_is_refused_as_unavailable(service: InProcess) -> None:
    service.give_up_soon()
    reply = await service.send("/v1/authorize", body_with(at_least=str(Token(service.store.epoch, 99))))
    assert (reply.status_code, reply.json()["code"], reply.headers["retry-after"]) == (503, "OFFSET_NOT_AVAILABLE", "1")
    assert reply.json()["retriable"]


async def test_a_token_of_another_epoch_is_a_conflict(service: InProcess) -> None:
    reply = await service.send("/v1/authorize", body_with(at_least=str(Token(uuid4(), 0))))
    assert (reply.status_code, reply.json()["code"]) == (409, "TOKEN_EPOCH_MISMATCH")


async def test_a_token_made_of_garbage_is_refused(subtests: pytest.Subtests, service: InProcess) -> None:
    for garbage in [
        "",
        "x",
        "1:2",
        "\\u00e9:1",
        "7d18338e-476d-4a79-b308-bf04937c7d91:-1",
        "7d18338e-476d-4a79-b308-bf04937c7d91:1 ",
    ]:
        with subtests.test(garbage=garbage):
            reply = await service.send("/v1/authorize", body_with(at_least=garbage))
            assert (reply.status_code, reply.json()["code"]) == (400, "INVALID_REQUEST")


async def test_before_the_first_load_only_super_users_are_answered(unloaded: InProcess) -> None:
    assert await unloaded.post("/v1/authorize", {"context": ADMIN, "actions": [READ_ORDERS]}) == {
        "results": ["ALLOWED"],
        "token": None,
    }
    reply = await unloaded.send("/v1/authorize", body_with())
    problem = reply.json()
    assert (reply.status_code, problem["code"], problem["error_code"]) == (503, "AUTHORIZER_NOT_READY", -1)
    assert (reply.headers["retry-after"], problem["retriable"]) == ("1", True)


async def test_without_an_authorizer_everything_is_allowed() -> None:
    async with in_process(enabled=False) as service:
        service.store.commit([create(binding(acl("orders", permission_type="DENY")))])
        await service.caught_up()
        assert await service.authorize(ALICE, READ_ORDERS, WRITE_ORDERS) == ["ALLOWED", "ALLOWED"]


async def test_changed_super_users_count_from_their_offset_on(service: InProcess) -> None:
    await service.configure("super.users", "User:alice")
    assert await service.authorize(ALICE, READ_ORDERS) == ["ALLOWED"]
    assert await service.authorize(ADMIN, READ_ORDERS) == ["DENIED"]


async def test_bad_fields_are_named(subtests: pytest.Subtests, service: InProcess) -> None:
    cases: Iterable[tuple[dict[str, Any], list[str]]] = [
        ({"actions": [{**READ_ORDERS, "operation": "read"}]}, ["/actions/0/operation"]),
        ({"actions": [READ_ORDERS, {**READ_ORDERS, "resource_type": "TOPICS"}]}, ["/actions/1/resource_type"]),
        ({"actions": [{**READ_ORDERS, "pattern_type": "PREFIXED"}]}, ["/actions/0/pattern_type"]),
        ({"actions": [{**READ_ORDERS, "pattern_type": "FOO"}]}, ["/actions/0/pattern_type"]),
        (
            {"actions": [{"operation": "", "resource_type": "", "resource_name": "", "pattern_type": ""}]},
            ["/actions/0/operation", "/actions/0/resource_type", "/actions/0/pattern_type"],
        ),
        ({"actions": [{**READ_ORDERS, "resource_name": None}]}, ["/actions/0/resource_name"]),
        ({"actions": [{"operation": "READ"}]}, ["/actions/0/resource_type"]),
        ({"actions": [{**READ_ORDERS, "extra": 1}]}, ["/actions/0/extra"]),
        ({"actions": [{**READ_ORDERS, "resource_reference_count": True}]}, ["/actions/0/resource_reference_count"]),
        ({"actions": [{**READ_ORDERS, "resource_reference_count": 2**31}]}, ["/actions/0/resource_reference_count"]),
        ({"actions": [{**READ_ORDERS, "log_if_denied": 0}]}, ["/actions/0/log_if_denied"]),
        ({"actions": {}}, ["/actions"]),
        ({"actions": [READ_ORDERS] * 1001}, ["/actions"]),
        ({"actions": None}, ["/actions"]),
        ({"context": {**ALICE, "principal": "alice"}}, ["/context/principal"]),
        ({"context": {**ALICE, "client_address": "localhost"}}, ["/context/client_address"]),
        ({"context": {**ALICE, "client_address": ""}}, ["/context/client_address"]),
        ({"context": {**ALICE, "client_address": "10.0.0.0/8"}}, ["/context/client_address"]),
        ({"context": {**ALICE, "request_type": 2**15}}, ["/context/request_type"]),
        ({"context": {**ALICE, "request_version": -(2**15) - 1}}, ["/context/request_version"]),
        ({"context": {**ALICE, "correlation_id": 1.5}}, ["/context/correlation_id"]),
        ({"context": "User:alice"}, ["/context"]),
        ({"at_least": 1}, ["/at_least"]),
        ({"a/b~": 1}, ["/a~1b~0"]),
    ]
    for changes, pointers in cases:
        with subtests.test(changes=changes, pointers=pointers):
            reply = await service.send("/v1/authorize", body_with(**changes))
            problem = reply.json()
            assert (reply.status_code, problem["code"]) == (400, "INVALID_REQUEST")
            assert [each["pointer"] for each in problem["errors"]] == pointers
            assert all(each["detail"] for each in problem["errors"])


async def test_the_first_words_of_a_huge_value_are_enough_for_its_refusal(service: InProcess) -> None:
    reply = await service.send("/v1/authorize", body_with(actions=[{**READ_ORDERS, "operation": "x" * 100_000}]))
    assert reply.status_code == 400
    assert len(reply.content) < 2000


async def test_a_body_in_chunks_is_answered(service: InProcess) -> None:
    body = json.dumps(body_with()).encode()
    sent = await call(
        service,
        {"type": "http.request", "body": body[:20], "more_body": True},
        {"type": "http.request", "body": body[20:], "more_body": False},
    )
    assert [sent[0]["status"], json.loads(sent[1]["body"])["results"]] == [200, ["DENIED"]]


@pytest.mark.parametrize("more_body", [True, False])
async def test_a_body_that_gave_no_length_is_cut_off_at_the_bound(service: InProcess, more_body: bool) -> None:  # noqa: FBT001 - a parameter
    sent = await call(service, {"type": "http.request", "body": b" " * (MAX_BODY_BYTES + 1), "more_body": more_body})
    assert sent[0]["status"] == 413


async def test_nobody_is_answered_who_has_left(service: InProcess) -> None:
    assert await call(service, {"type": "http.disconnect"}) == []


async def test_an_unexpected_fault_is_told_to_the_log_alone(
    service: InProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("password in here")

    monkeypatch.setattr(service.authorizer.rights, "authorization", broken)
    reply = await service.send("/v1/authorize", body_with())
    problem = reply.json()
    assert (reply.status_code, problem["code"], problem["retriable"]) == (500, "UNKNOWN_SERVER_ERROR", False)
    assert "password" not in reply.text
    assert reply.headers["x-request-id"] == problem["detail"].split("`")[1]
    record = next(each for each in caplog.records if each.message == "request_failed")
    assert record.exc_info is not None
    assert "password in here" in caplog.text


async def test_denied_actions_are_audited_at_info(service: InProcess) -> None:
    await service.create(acl("orders"), acl("*", "User:*", "WRITE", permission_type="DENY"))
    context = {**ALICE, "request_type": 0, "client_address": "::1"}
    quiet = {**WRITE_ORDERS, "log_if_denied": False}
    counted = {**WRITE_ORDERS, "resource_reference_count": 7}
    await service.authorize(context, READ_ORDERS, WRITE_ORDERS, quiet, counted)
    lines = service.audit_lines()
    assert [line.split("]", 1)[1].split(" based on rule ")[0] for line in lines] == [
        " INFO Principal = User:alice is Denied operation = WRITE from host = 0:0:0:0:0:0:0:1 "
        f"on resource = Topic:LITERAL:orders for request = Produce with resourceRefCount = {count}"
        for count in (1, 7)
    ]
    assert "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=*, " in lines[0]


@pytest.mark.parametrize(
    ("level", "logged"),
    [
        ("TRACE", ["DEBUG r1", "TRACE r2", "INFO w1", "TRACE w2"]),
        ("DEBUG", ["DEBUG r1", "INFO w1"]),
        ("INFO", ["INFO w1"]),
        ("WARN", []),
        ("OFF", []),
    ],
)
async def test_the_audit_level_changes_while_the_service_runs(
    service: InProcess, level: str, logged: list[str]
) -> None:
    await service.create(acl("r1"), acl("r2"))
    await service.authorize(ALICE, READ_ORDERS)
    await service.configure("audit.level", level)
    await service.authorize(
        ALICE,
        {**READ_ORDERS, "resource_name": "r1", "log_if_denied": False},
        {**READ_ORDERS, "resource_name": "r2", "log_if_allowed": False},
        {**WRITE_ORDERS, "resource_name": "w1", "log_if_allowed": False},
        {**WRITE_ORDERS, "resource_name": "w2", "log_if_denied": False},
    )
    found = [re.search(r"\] (\w+) .* Topic:LITERAL:(\w+) ", line) for line in service.audit_lines()[1:]]
    assert [" ".join(each.groups()) for each in found if each] == logged


async def test_denied_actions_that_nobody_wants_logged_leave_no_line(service: InProcess) -> None:
    await service.authorize(ALICE, {**READ_ORDERS, "log_if_denied": False})
    assert service.audit_lines() == []


async def test_an_allowed_action_names_its_acl_in_the_audit(service: InProcess) -> None:
    await service.create(acl("orders"))
    await service.configure("audit.level", "DEBUG")
    await service.authorize(ALICE, READ_ORDERS)
    assert "is Allowed operation = READ" in service.audit_lines()[0]
    assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW))" in service.audit_lines()[0]


async def test_names_from_callers_cannot_forge_audit_lines(service: InProcess) -> None:
    await service.authorize(ALICE, {**READ_ORDERS, "resource_name": "a\nINFO Principal = User:admin is Allowed\x1b[0m"})
    (line,) = service.audit_lines()
    assert "Topic:LITERAL:a\\u000aINFO Principal = User:admin is Allowed\\u001b[0m for request" in line


async def test_decisions_and_requests_are_counted(service: InProcess) -> None:
    await service.create(acl("orders"))
    await service.authorize(ALICE, READ_ORDERS, WRITE_ORDERS, READ_ORDERS)
    await service.send("/v1/authorize", {})
    page = (await service.client.get("/metrics")).text
    assert 'klamm_decisions_total{result="ALLOWED",rule="MatchingAcl"} 2.0' in page
    assert 'klamm_decisions_total{result="DENIED",rule="DefaultDeny"} 1.0' in page
    assert 'klamm_http_requests_total{operation="authorize",status="2xx"} 1.0' in page
    assert 'klamm_http_requests_total{operation="authorize",status="4xx"} 1.0' in page
    assert 'klamm_http_request_duration_seconds_count{operation="authorize"} 2.0' in page
    assert "alice" not in page
    assert "orders" not in page
