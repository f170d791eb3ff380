"""The OPA door's refusals: whatever is no decision is plain text that nobody could take for one."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.types import Message, Scope

from app.rest.bodies.opa import OPA_DEADLINE_S
from app.rest.bodies.reading import MAX_BODY_BYTES
from app.rest.http.admission import BOUNDS
from app.rest.routes import opa
from tests.cases import each_case
from tests.unit.regressions.guarded import guarded
from tests.unit.rest.harness import Service, serving
from tests.unit.rest.opa_bodies import (
    HEADER,
    NEAR_PATHS,
    OPA_PATH,
    REFUSED,
    ask,
    ask_in_vain,
    asked,
    by_type,
    check_plain,
    decision_of,
    refusal_of,
    with_context,
)

_WHOLE = {"type": "http.request", "body": json.dumps(asked()).encode(), "more_body": False}


@each_case(
    "path",
    [
        "/v1/data",
        "/v1/data/",
        "/v1/data/kafka",
        "/v1/data/kafka/authz",
        f"{OPA_PATH}/",
        f"{OPA_PATH}/a/b",
        f"{OPA_PATH}/a/",
        f"{OPA_PATH}ed",
        "/v1/data/other",
    ],
)
@each_case("method", ["POST", "GET", "DELETE"])
async def test_there_is_nothing_else_below_opa_s_root(service: Service, method: str, path: str) -> None:
    reply = await service.client.request(method, path, json=asked())
    assert refusal_of(reply) == (404, "RESOURCE_NOT_FOUND")


@each_case("path", NEAR_PATHS)
@each_case("method", ["POST", "GET"])
async def test_what_is_nearly_opa_s_is_refused_in_plain_text(service: Service, method: str, path: str) -> None:
    # As uvicorn decodes it; httpx would resolve the dots.
    (start, body) = await call(service, _WHOLE, path=unquote(path), method=method)
    assert (start["status"], body["body"]) == (404, b"RESOURCE_NOT_FOUND")
    check_plain(dict(start["headers"])[b"content-type"].decode(), body["body"])


@each_case("path", ["/v1/database", "/v1/data-x", "/v2/data", "/v1/dat", "/data", "/v1/x/data", "/v1/%"])
async def test_what_only_begins_alike_is_not_opa_s(service: Service, path: str) -> None:
    reply = await service.post(path, asked())
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")


@each_case("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])
@each_case("path", [OPA_PATH, f"{OPA_PATH}/cluster"])
async def test_it_answers_post_alone(service: Service, method: str, path: str) -> None:
    reply = await service.client.request(method, path, json=asked())
    assert refusal_of(reply) == (405, "INVALID_REQUEST")
    assert reply.headers["allow"] == "POST"


async def test_before_the_first_load_only_super_users_are_answered(unloaded: Service) -> None:
    assert await ask(unloaded, asked(principal="admin"))
    assert await ask(unloaded, by_type(principal="admin"))
    for body in (asked(), by_type()):
        reply = await unloaded.post(OPA_PATH, body)
        assert refusal_of(reply) == (503, "AUTHORIZER_NOT_READY")
        assert reply.headers["retry-after"] == "1"


async def test_without_an_authorizer_everything_is_allowed() -> None:
    async with serving(enabled=False) as service:
        assert await ask(service, asked())
        assert await ask(service, by_type())


def _without(*path: str) -> dict[str, Any]:
    body = asked()
    at = body
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    return body


@each_case(
    "body",
    [
        {},
        {"input": {}},
        {"input": None},
        {"result": True},
        _without("input", "action"),
        _without("input", "action", "operation"),
        _without("input", "action", "resourcePattern"),
        _without("input", "action", "resourcePattern", "name"),
        _without("input", "requestContext"),
        _without("input", "requestContext", "principal"),
        _without("input", "requestContext", "principal", "name"),
        _without("input", "requestContext", "clientAddress"),
        asked("LATER"),
        asked("read"),
        asked(type_="LATER"),
        asked(name=None),  # type: ignore[arg-type]  # that is the point
        asked(resourceReferenceCount=2**31),
        asked(resourceReferenceCount="1"),
        asked(logIfAllowed="yes"),
        with_context(header={"name": {**HEADER, "requestApiKey": 2**15}}),
        with_context(header=[]),
        with_context(listenerName=1),
        asked(later=[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]),
    ],
)
async def test_a_body_that_asks_nothing_is_refused(service: Service, body: object) -> None:
    assert await ask_in_vain(service, body) == REFUSED


@each_case(
    "text",
    [
        b"",
        b" ",
        b"{",
        b"null",
        b"true",
        b"[]",
        b'"input"',
        b"\xef\xbb\xbf{}",
        b"\xff",
        json.dumps(asked()).encode()[:-1],
        json.dumps(asked()).encode() + b"{}",
        json.dumps(asked()).encode().replace(b'"alice"', b'"alice", "name": "admin"'),
        json.dumps(asked()).encode().replace(b'"alice"', b'"admin", "n\\u0061me": "alice"'),
        json.dumps(asked()).encode().replace(b'{"input"', b'{"later": {"a": 1, "a": 2}, "input"'),
        json.dumps(asked()).encode().replace(b'"alice"', b'"ali\\u0000ce"'),
        json.dumps(asked()).encode().replace(b'"alice"', b'"ali\\ud800ce"'),
        json.dumps(asked()).encode().replace(b'"alice"', b'"ali\xffce"'),
        json.dumps(asked(later=1)).encode().replace(b'"later": 1', b'"later": NaN'),
        json.dumps(asked(later=1)).encode().replace(b'"later": 1', b'"later": 1e999'),
        json.dumps(asked(later=1)).encode().replace(b'"later": 1', b'"later": ' + b"[" * 50_000),
        json.dumps(asked()).encode().replace(b'"headerVersion": 2', b'"headerVersion": ' + b"[" * 50_000),
    ],
)
async def test_bodies_are_read_strictly(service: Service, text: bytes) -> None:
    assert refusal_of(await service.post_raw(OPA_PATH, text)) == REFUSED


async def test_a_body_s_headers_are_held_to_the_bounds_of_all_bodies(service: Service) -> None:
    body = json.dumps(asked()).encode()
    for headers, refusal in (
        ({"content-type": "text/plain"}, (415, "INVALID_REQUEST")),
        ({"content-encoding": "gzip"}, (415, "INVALID_REQUEST")),
    ):
        assert refusal_of(await service.post_raw(OPA_PATH, body, **headers)) == refusal
    too_large = await service.post_raw(OPA_PATH, body + b" " * MAX_BODY_BYTES)
    assert refusal_of(too_large) == (413, "INVALID_REQUEST")
    large = await service.post(OPA_PATH, asked(later="x" * (MAX_BODY_BYTES // 2)))
    assert not decision_of(large)


async def test_a_fault_is_told_to_the_log_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> object:
        raise TimeoutError("password in here")

    monkeypatch.setattr(service.authorizer.rights, "authorization", broken)
    for body in (asked(), by_type()):
        assert await ask_in_vain(service, body) == (500, "UNKNOWN_SERVER_ERROR")
    assert "password in here" in caplog.text


async def test_a_refusal_says_why_in_the_log_and_not_too_often(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = iter([10.0, 10.2, 10.9, 11.1])
    monkeypatch.setattr(opa, "_REFUSALS", opa._Refusals(lambda: next(now)))
    for operation in ("ONE", "TWO", "THREE", "FOUR"):
        await ask_in_vain(service, asked(operation))
    first, last = (vars(each) for each in caplog.records if each.message == "opa_refused")
    assert "`ONE`" in first["why"]
    assert "`FOUR`" in last["why"]
    assert [(each["code"], each["others"]) for each in (first, last)] == [(REFUSED[1], 0), (REFUSED[1], 2)]


async def call(service: Service, *messages: Message, path: str = OPA_PATH, **scope: Any) -> list[Message]:  # noqa: ANN401 - ASGI
    """What the application sends for these messages of a server, after which none comes."""
    incoming, sent = list(messages), list[Message]()

    async def receive() -> Message:
        if not incoming:
            await asyncio.Event().wait()
        return incoming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    whole: Scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers, **scope}
    await service.app(whole, receive, send)
    return sent


async def test_a_body_that_does_not_come_is_given_up_at_the_deadline(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opa, "OPA_DEADLINE_S", 0.05)
    start, body = await call(service, {"type": "http.request", "body": b"{", "more_body": True})
    assert (start["status"], body["body"]) == (504, b"REQUEST_TIMED_OUT")


async def test_the_deadline_counts_from_when_the_request_was_read(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opa, "OPA_DEADLINE_S", 3_600.0)
    long_ago: dict[str, Any] = {"klamm.began": time.monotonic() - 3_601}
    async with asyncio.timeout(60):
        start, body = await call(service, {"type": "http.request", "body": b"{", "more_body": True}, **long_ago)
    assert (start["status"], body["body"]) == (504, b"REQUEST_TIMED_OUT")


async def test_a_wait_that_ends_by_itself_is_no_deadline(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise TimeoutError

    monkeypatch.setattr(opa, "decide", broken)
    assert await ask_in_vain(service, asked()) == (500, "UNKNOWN_SERVER_ERROR")


async def test_what_can_be_decided_at_once_is_whatever_the_time(service: Service) -> None:
    long_ago: dict[str, Any] = {"klamm.began": time.monotonic() - OPA_DEADLINE_S - 1}
    start, body = await call(service, _WHOLE, **long_ago)
    assert (start["status"], body["body"]) == (200, b'{"result":false}')


async def test_nobody_is_answered_who_has_left(service: Service) -> None:
    assert await call(service, {"type": "http.disconnect"}) == []


async def test_callers_are_told_apart_and_refused_in_plain_text(tmp_path: Path) -> None:
    async with guarded(tmp_path) as it:
        orders, alice = asked(principal="orders-1"), asked()
        assert refusal_of(await it.post(None, OPA_PATH, orders)) == (401, "SASL_AUTHENTICATION_FAILED")
        wrong = await it.post(None, OPA_PATH, orders, authorization="Bearer wrong")
        assert refusal_of(wrong) == (401, "SASL_AUTHENTICATION_FAILED")
        for caller, body, refusal in (
            ("prometheus", orders, (403, "CLUSTER_AUTHORIZATION_FAILED")),
            ("sidecar", alice, (403, "CLUSTER_AUTHORIZATION_FAILED")),
            ("sidecar", by_type(), (403, "CLUSTER_AUTHORIZATION_FAILED")),
            ("anyone", asked(principal="admin"), (403, "CLUSTER_AUTHORIZATION_FAILED")),
        ):
            assert refusal_of(await it.post(caller, OPA_PATH, body)) == refusal
        assert not decision_of(await it.post("sidecar", OPA_PATH, orders))
        assert not decision_of(await it.post("anyone", OPA_PATH, alice))


async def test_browsers_are_refused_in_plain_text(service: Service) -> None:
    reply = await service.post(OPA_PATH, asked(), origin="http://evil.example.com")
    assert refusal_of(reply) == (403, "CLUSTER_AUTHORIZATION_FAILED")


async def test_overload_is_refused_in_plain_text(tmp_path: Path) -> None:
    async with guarded(tmp_path) as it:
        pool = it.admission.pools["decisions"]
        for _ in range(BOUNDS["decisions"].places):
            await pool.enter(0, None)
        reply = await it.post("anyone", OPA_PATH, asked())
        assert refusal_of(reply) == (429, "OVERLOADED")
        assert reply.headers["retry-after"] == "1"
