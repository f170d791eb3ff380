"""Bad input, over every route that takes a body: a clear 4xx, never a 5xx (DESIGN: REST contract)."""

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from app.rest.app import ROUTES
from app.rest.bodies.reading import MAX_ACLS_BODY_BYTES, MAX_BODY_BYTES
from tests.klamm import ADMIN, READ_ORDERS, InProcess

BINDING = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "principal": "User:a",
    "operation": "READ",
    "permission_type": "ALLOW",
}
ENDPOINT = {"listener_name": "A", "security_protocol": "SSL", "host": "h", "port": 1}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/authorize": {"context": ADMIN, "actions": [READ_ORDERS]},
    "/v1/authorized-operations": {
        "context": ADMIN,
        "resources": [{"resource_type": "TOPIC", "resource_name": "orders"}],
    },
    "/v1/authorize-by-resource-type": {"context": ADMIN, "operation": "READ", "resource_type": "TOPIC"},
    "/v1/list-groups": {"context": ADMIN, "groups": ["g"]},
    "/v1/explain": {"context": ADMIN, "actions": [READ_ORDERS]},
    "/v1/acls": {"context": ADMIN, "bindings": [BINDING]},
    "/v1/acls/delete": {"context": ADMIN, "filters": [{"resource_name": "orders"}]},
    "/v1/acls/search": {"context": ADMIN, "filter": {"resource_name": "orders"}},
    "/v1/who-can": {"context": ADMIN, "resource": {"resource_type": "TOPIC", "resource_name": "orders"}},
    "/v1/what-can": {"context": ADMIN, "principal": "User:bob"},
    "/v1/history": {"context": ADMIN},
    "/v1/start": {"broker_id": 1, "endpoints": [ENDPOINT]},
    "/v1/configs": {"context": ADMIN, "configs": [{"name": "audit.level", "value": "INFO"}]},
}
LARGE = ("/v1/acls", "/v1/acls/delete")
WITH_CONTEXT = [path for path, body in BODIES.items() if "context" in body]
LISTS = {
    "/v1/authorize": "actions",
    "/v1/authorized-operations": "resources",
    "/v1/list-groups": "groups",
    "/v1/start": "endpoints",
    "/v1/configs": "configs",
}


def raw(path: str, **changes: object) -> bytes:
    """The route's valid body, changed."""
    return json.dumps({**BODIES[path], **changes}).encode()


def check_problem(reply: Any, status: int) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Every refusal has the one shape."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = reply.json()
    assert set(problem) - {"errors"} == {"type", "title", "status", "detail", "code", "error_code", "retriable"}
    assert problem["status"] == status
    assert problem["detail"]
    return problem


def test_every_route_with_a_body_is_on_the_list() -> None:
    posts = [route.path for route in ROUTES if "POST" in route.methods and route.include_in_schema]
    assert sorted(posts) == sorted(BODIES)


async def test_the_clean_body_is_answered(subtests: pytest.Subtests, service: InProcess) -> None:
    for path, body in BODIES.items():
        with subtests.test(path=path):
            reply = await service.send(path, body)
            assert reply.status_code == 200, reply.text


async def test_bodies_that_mean_nothing(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        for body in [
            b"",
            b" ",
            b"{",
            b"nonsense",
            b"[]",
            b"null",
            b"true",
            b'"text"',
            b"17",
            b"NaN",
            b"{}",
            b"{} {}",
            b"\xff\xfe",
            b"\x00",
            b"[" * 90_000,
            b'{"a":' * 90_000,
            b'{"a":' + b"9" * 10_000 + b"}",
            b'{"context":1e999}',
            b'{"\\ud800":1}',
            b'{"\\u0000":1}',
            b'{"a":"\\ud800\\ud800"}',
        ]:
            with subtests.test(path=path, body=body):
                problem = check_problem(await service.send(path, body), 400)
                assert problem["code"] == "INVALID_REQUEST"


async def test_encodings_other_than_plain_utf_8(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            text = raw(path).decode()
            for body in (
                text.encode("utf-8-sig"),
                text.encode("utf-16"),
                text.encode("utf-16-be"),
                text.encode("utf-32"),
            ):
                check_problem(await service.send(path, body), 400)


async def test_a_key_that_comes_twice(subtests: pytest.Subtests, service: InProcess) -> None:
    for path, body in BODIES.items():
        with subtests.test(path=path):
            key = next(iter(body))
            again = raw(path)[:-1] + f', "{key}": {json.dumps(body[key])}}}'.encode()
            problem = check_problem(await service.send(path, again), 400)
            assert problem["errors"] == [
                {"pointer": f"/{key}", "detail": "the key appears more than once; send it once"}
            ]


async def test_a_key_of_the_context_that_comes_twice(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in WITH_CONTEXT:
        with subtests.test(path=path):
            body = raw(path).replace(
                b'"principal": "User:admin"', b'"principal": "User:admin", "principal": "User:admin"'
            )
            problem = check_problem(await service.send(path, body), 400)
            assert problem["errors"][0]["pointer"] == "/context/principal"


async def test_an_unknown_field(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            problem = check_problem(await service.send(path, raw(path, actionz=1)), 400)
            assert problem["errors"] == [{"pointer": "/actionz", "detail": "there is no such field; remove it"}]


async def test_a_context_that_names_nobody(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in WITH_CONTEXT:
        for context, pointer in [
            ({"principal": "User:a\x00", "client_address": "::1"}, "/context/principal"),
            ({"principal": "User:\ud800", "client_address": "::1"}, "/context/principal"),
            ({"principal": "admin", "client_address": "::1"}, "/context/principal"),
            ({"principal": "", "client_address": "::1"}, "/context/principal"),
            ({"principal": None, "client_address": "::1"}, "/context/principal"),
            ({"principal": "User:admin"}, "/context/client_address"),
            ({"principal": "User:admin", "client_address": "example.org"}, "/context/client_address"),
            ({"principal": "User:admin", "client_address": "010.0.0.1"}, "/context/client_address"),
            ({"principal": "User:admin", "client_address": ["::1"]}, "/context/client_address"),
            ({**ADMIN, "request_type": "1"}, "/context/request_type"),
            ({**ADMIN, "request_type": True}, "/context/request_type"),
            ({**ADMIN, "request_type": 40_000}, "/context/request_type"),
            ({**ADMIN, "correlation_id": 2**31}, "/context/correlation_id"),
            ({**ADMIN, "correlation_id": 10**30}, "/context/correlation_id"),
            ({**ADMIN, "client_id": 5}, "/context/client_id"),
            ({**ADMIN, "super": True}, "/context/super"),
            (None, "/context"),
            ([], "/context"),
        ]:
            with subtests.test(path=path, context=context, pointer=pointer):
                problem = check_problem(await service.send(path, raw(path, context=context)), 400)
                assert [each["pointer"] for each in problem["errors"]] == [pointer]


async def test_a_missing_field(subtests: pytest.Subtests, service: InProcess) -> None:
    for path, body in BODIES.items():
        with subtests.test(path=path):
            for key in body:
                lacking = {name: value for name, value in body.items() if name != key}
                problem = check_problem(await service.send(path, lacking), 400)
                assert problem["errors"] == [{"pointer": f"/{key}", "detail": "the field is missing; send it"}]


@pytest.mark.parametrize(("path", "field"), LISTS.items())
async def test_lists_hold_a_thousand_entries_at_most(service: InProcess, path: str, field: str) -> None:
    entries = BODIES[path][field]
    assert (await service.send(path, raw(path, **{field: []}))).status_code == 200
    assert (await service.send(path, raw(path, **{field: entries * 1000}))).status_code == 200
    problem = check_problem(await service.send(path, raw(path, **{field: entries * 1001})), 400)
    assert [each["pointer"] for each in problem["errors"]] == [f"/{field}"]
    assert "1000" in problem["detail"]


async def test_a_body_that_is_too_large(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            bound = MAX_ACLS_BODY_BYTES if path in LARGE else MAX_BODY_BYTES
            fits = raw(path) + b" " * (bound - len(raw(path)))
            assert (await service.send(path, fits)).status_code == 200
            check_problem(await service.send(path, fits + b" "), 413)


async def test_a_stream_that_is_too_large(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):

            async def chunks() -> AsyncIterator[bytes]:
                for _ in range(130):
                    yield b" " * 65_536

            reply = await service.client.post(path, content=chunks(), headers={"content-type": "application/json"})
            check_problem(reply, 413)


async def test_a_field_that_is_none(subtests: pytest.Subtests, service: InProcess) -> None:
    cases: Iterable[tuple[str, dict[str, object], str]] = [
        ("/v1/authorized-operations", {"resources": [{"resource_type": "TOPIC"}]}, "/resources/0/resource_name"),
        ("/v1/authorized-operations", {"resources": [1]}, "/resources/0"),
        ("/v1/list-groups", {"groups": [None]}, "/groups/0"),
        ("/v1/list-groups", {"groups": "g"}, "/groups"),
        ("/v1/acls", {"bindings": [{**BINDING, "host": None}]}, "/bindings/0/host"),
        ("/v1/acls", {"bindings": [BINDING, {**BINDING, "operation": 3}]}, "/bindings/1/operation"),
        ("/v1/acls", {"bindings": [{**BINDING, "hosts": "*"}]}, "/bindings/0/hosts"),
        ("/v1/acls", {"timeout_ms": -1}, "/timeout_ms"),
        ("/v1/acls", {"timeout_ms": 1.5}, "/timeout_ms"),
        ("/v1/acls/delete", {"filters": [{"principal": 1}]}, "/filters/0/principal"),
        ("/v1/acls/delete", {"filters": {}}, "/filters"),
        ("/v1/acls/delete", {"timeout_ms": 300_001}, "/timeout_ms"),
        ("/v1/acls/search", {"limit": 0}, "/limit"),
        ("/v1/acls/search", {"limit": 1001}, "/limit"),
        ("/v1/acls/search", {"limit": True}, "/limit"),
        ("/v1/acls/search", {"cursor": 1}, "/cursor"),
        ("/v1/acls/search", {"filter": {"operation": "FOO"}}, "/filter/operation"),
        ("/v1/acls/search", {"filter": {"pattern_type": ""}}, "/filter/pattern_type"),
        ("/v1/authorize-by-resource-type", {"operation": "FOO"}, "/operation"),
        ("/v1/authorize-by-resource-type", {"resource_type": "topic"}, "/resource_type"),
        ("/v1/start", {"broker_id": "1"}, "/broker_id"),
        ("/v1/start", {"broker_id": 2**31}, "/broker_id"),
        ("/v1/start", {"endpoints": [{**ENDPOINT, "port": 65_536}]}, "/endpoints/0/port"),
        ("/v1/start", {"wait_ms": 10**9}, "/wait_ms"),
        ("/v1/configs", {"configs": [{"name": "audit.level"}]}, "/configs/0/value"),
        ("/v1/configs", {"configs": [{"name": None, "value": "x"}]}, "/configs/0/name"),
    ]
    for path, changes, pointer in cases:
        with subtests.test(path=path, changes=changes, pointer=pointer):
            problem = check_problem(await service.send(path, raw(path, **changes)), 400)
            assert [each["pointer"] for each in problem["errors"]] == [pointer]


async def test_a_path_with_a_method_that_it_does_not_take(subtests: pytest.Subtests, service: InProcess) -> None:
    for method, path, allow in [
        ("GET", "/v1/authorize", "POST"),
        ("PUT", "/v1/authorize", "POST"),
        ("GET", "/v1/authorized-operations", "POST"),
        ("DELETE", "/v1/acls", "POST"),
        ("GET", "/v1/acls/delete", "POST"),
        ("GET", "/v1/acls/search", "POST"),
        ("POST", "/v1/acls/count", "GET"),
        ("DELETE", "/v1/acls/6f1f9a52-2a9f-4d2c-8f46-0a3a4f2f8b6d", "GET"),
        ("PATCH", "/v1/configs", "GET, POST"),
        ("POST", "/livez", "GET"),
        ("POST", "/readyz", "GET"),
        ("POST", "/readyz/A", "GET"),
        ("POST", "/startupz", "GET"),
        ("POST", "/metrics", "GET"),
        ("POST", "/", "GET"),
    ]:
        with subtests.test(method=method, path=path, allow=allow):
            reply = await service.client.request(method, path)
            check_problem(reply, 405)
            assert reply.headers["allow"] == allow


async def test_a_path_that_leads_nowhere(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in [
        *("/v1", "/v1/authorize/", "/v1/acls/", "/v1/acls/not-a-uuid", "/v2/authorize", "/x" * 500),
        *("/docs", "/openapi.json", "/index", "/index.html"),
    ]:
        with subtests.test(path=path):
            for method in ("GET", "POST"):
                problem = check_problem(await service.client.request(method, path), 404)
                assert problem["code"] == "RESOURCE_NOT_FOUND"
