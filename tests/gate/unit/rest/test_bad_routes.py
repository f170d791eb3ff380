"""Other content types, methods, paths and parameters than there are: a clear 4xx, and nothing told of the inside."""

import json
from collections.abc import AsyncIterator

import pytest

from app.rest.app import AppOptions
from app.rest.openapi import build_openapi
from tests.bodies import BODIES, JSON_TYPE, refusal
from tests.klamm import InProcess, in_process


@pytest.fixture
async def documented() -> AsyncIterator[InProcess]:
    """With the document and the page made of it."""
    async with in_process(around=AppOptions(document=build_openapi)) as service:
        yield service


TYPES = [
    "text/plain",
    "text/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "application/json5",
    "application/xml",
    "application/problem+json",
    "application/json; charset=utf-16",
    "application/json; charset=iso-8859-1",
    "application/json, text/plain",
    "json",
    "",
    "*/*",
    "\xff",
]


async def test_another_content_type_is_refused(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            content = json.dumps(BODIES[path]).encode()
            for value in TYPES:
                headers = [(b"content-type", value.encode("latin-1"))]
                problem = refusal(
                    await service.client.post(path, content=content, headers=headers), 415, "INVALID_REQUEST"
                )
                assert "application/json" in problem["detail"]
            refusal(await service.client.post(path, content=content), 415, "INVALID_REQUEST")
            refusal(await service.send(path, content, **{"content-encoding": "gzip"}), 415, "INVALID_REQUEST")
            refusal(await service.send(path, content, **{"content-encoding": "br"}), 415, "INVALID_REQUEST")


async def test_other_spellings_of_the_content_type_are_fine(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            content = json.dumps(BODIES[path]).encode()
            for value in ("APPLICATION/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"'):
                assert (await service.send(path, content, **{"content-type": value})).status_code == 200
            assert (await service.send(path, content, **{"content-encoding": "identity"})).status_code == 200


async def test_other_methods_are_refused_naming_those_that_there_are(
    subtests: pytest.Subtests, service: InProcess
) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            gets = path == "/v1/configs"
            for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW"):
                reply = await service.client.request(method, path, headers=JSON_TYPE)
                if method == "GET" and gets:
                    assert reply.status_code == 200
                    continue
                assert reply.status_code in ((400, 405) if method == "BREW" else (405,)), method
                if reply.status_code == 405:
                    assert "POST" in reply.headers["allow"]
                    assert reply.headers["content-type"] == "application/problem+json"


GETS = [
    "/livez",
    "/readyz",
    "/readyz/A",
    "/startupz",
    "/metrics",
    "/",
    "/openapi.json",
    "/docs",
    "/v1/acls/count",
    f"/v1/acls/{'0' * 8}-{'0' * 4}-{'0' * 4}-{'0' * 4}-{'0' * 12}",
]


@pytest.mark.parametrize("path", GETS)
async def test_what_is_read_can_not_be_written(documented: InProcess, path: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        reply = await documented.client.request(method, path, json={})
        problem = refusal(reply, 405, "INVALID_REQUEST")
        assert "GET" in problem["detail"]
        assert "GET" in reply.headers["allow"]


async def test_a_parameter_that_there_is_not_is_refused_by_its_name(
    subtests: pytest.Subtests, service: InProcess
) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            reply = await service.client.post(f"{path}?timeout_ms=9&colour=red", json=BODIES[path])
            detail = refusal(reply, 400, "INVALID_REQUEST")["detail"]
            assert (
                detail == "query parameter `timeout_ms`: there is no such parameter; leave it out, this path takes none"
            )
            assert (await service.client.post(f"{path}?", json=BODIES[path])).status_code == 200


@pytest.mark.parametrize("path", ["/v1/acls/count", "/v1/configs"])
async def test_a_parameter_that_is_misspelt_is_not_passed_over(service: InProcess, path: str) -> None:
    reply = await service.client.get(f"{path}?at_leats=x")
    detail = refusal(reply, 400, "INVALID_REQUEST")["detail"]
    assert "`at_leats`: there is no such parameter; leave it out, or send one of at_least" in detail
    assert detail.endswith("did you mean at_least?"), detail
    long = refusal(await service.client.get(f"{path}?{'x' * 7_000}"), 400, "INVALID_REQUEST")
    assert len(long["detail"]) < 1000


PATHS = [
    "/v1", "/v1/", "/v2/authorize", "/authorize", "/v1/authorize/", "//v1/authorize", "/v1//authorize",
    "/V1/AUTHORIZE", "/v1/authorize%2F", "/v1/%61uthorize/x", "/v1/authorize;x", "/v1/acls/",
    "/v1/acls/x/y", "/v1/acl", "/openapi.json/", "/docs/", "/redoc", "/favicon.ico", "/v1/../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd", "/livez/", "/readyz/", "/readyz/a/b", "/metrics/x", "/" + "x" * 8_000, "/%ff%fe",
    "/v1/explain/x",
]  # fmt: skip


async def test_a_path_that_leads_nowhere_is_not_found(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in PATHS:
        with subtests.test(path=path):
            for method in ("GET", "POST"):
                reply = await service.client.request(method, path, json={} if method == "POST" else None)
                problem = refusal(reply, 404, "RESOURCE_NOT_FOUND")
                assert problem["error_code"] == 91
                assert len(problem["detail"]) < 1000


OPA_PATH = "/v1/data/kafka/authz/allow"


@pytest.mark.parametrize("path", [OPA_PATH, f"{OPA_PATH}/", f"{OPA_PATH}/N8y9FMl7QB26hMWHgGI3gA", f"{OPA_PATH}?pretty"])
async def test_the_path_of_opas_plugin_is_gone_and_says_where_to_go(documented: InProcess, path: str) -> None:
    for method in ("POST", "GET", "PUT"):
        reply = await documented.client.request(method, path, json={"input": {}})
        assert "docs/migration.md" in refusal(reply, 410, "RESOURCE_NOT_FOUND")["detail"]
    assert "kafka/authz" not in (await documented.client.get("/openapi.json")).text


@pytest.mark.parametrize(
    "path", [f"{OPA_PATH}ed", f"/{OPA_PATH}", "/v1/data", "/v1/data/kafka/authz", OPA_PATH.upper()]
)
async def test_paths_beside_that_of_opas_plugin_are_not_found(service: InProcess, path: str) -> None:
    refusal(await service.client.post(path, json={"input": {}}), 404, "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize(
    "path", ["/%00", "/v1/authorize%00", "/v1/authorize%0d%0aX: y", "/readyz/%0a%0d", "/readyz/%1b[31m"]
)
async def test_a_path_with_a_control_character_is_refused(service: InProcess, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        reply = await service.client.request(method, path, json={} if method == "POST" else None)
        assert "control character" in refusal(reply, 400, "INVALID_REQUEST")["detail"]


IDS = [
    "x",
    "0",
    "count2",
    "00000000-0000-0000-0000-00000000000g",
    "00000000000000000000000000000000",
    "%00",
    "%0a",
    "🙂",
]


async def test_an_id_that_is_none_is_not_found(subtests: pytest.Subtests, service: InProcess) -> None:
    for acl_id in IDS:
        with subtests.test(acl_id=acl_id):
            reply = await service.client.get(f"/v1/acls/{acl_id}")
            assert reply.status_code in (400, 404)
            refusal(reply, reply.status_code, "INVALID_REQUEST" if reply.status_code == 400 else "RESOURCE_NOT_FOUND")


async def test_a_listener_name_that_is_none_of_ours_is_answered(service: InProcess) -> None:
    for name in ("A", "a" * 249, "%e2%80%a8", "%20", "%f0%9f%98%80", "%ff", "[31m"):
        reply = await service.client.get(f"/readyz/{name}?verbose")
        assert reply.status_code == 200
        assert len(reply.text.splitlines()) == 2
    refusal(await service.client.get("/readyz/" + "a" * 250), 400, "INVALID_REQUEST")


async def test_who_probes_may_send_parameters_of_its_own(documented: InProcess) -> None:
    for path in ("/livez", "/readyz", "/readyz/A", "/startupz", "/metrics", "/", "/openapi.json"):
        for query in ("x=1", "verbose", "verbose=%00", "verbose&verbose", "%ff", "=" * 1000):
            assert (await documented.client.get(f"{path}?{query}")).status_code == 200


async def test_what_is_refused_tells_nothing_of_the_inside(service: InProcess) -> None:
    told: list[str] = []
    for path, body in BODIES.items():
        bodies = (b"{", json.dumps({**body, "bogus": 1}).encode())
        told += [(await service.send(path, content)).text for content in bodies]
    told += [(await service.client.get(path)).text for path in ("/nowhere", "/v1/acls/x")]
    for text in told:
        for word in ("Traceback", "pydantic", "msgspec", "asyncpg", "app.", "Exception", "site-packages", ".py"):
            assert word not in text
