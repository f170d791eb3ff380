"""Other content types, methods, paths and parameters than there are: a clear 4xx, and nothing told of the inside."""

import json

import pytest

from tests.e2e.bodies import BODIES, JSON_TYPE, refusal, send
from tests.e2e.service import Service

every_route = pytest.mark.parametrize("path", BODIES)


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


@every_route
def test_another_content_type_is_refused(patient: Service, path: str) -> None:
    content = json.dumps(BODIES[path]).encode()
    for value in TYPES:
        headers = [(b"content-type", value.encode("latin-1"))]
        problem = refusal(patient.http.post(path, content=content, headers=headers), 415, "INVALID_REQUEST")
        assert "application/json" in problem["detail"]
    refusal(patient.http.post(path, content=content), 415, "INVALID_REQUEST")
    refusal(send(patient, path, content, content_encoding="gzip"), 415, "INVALID_REQUEST")
    refusal(send(patient, path, content, content_encoding="br"), 415, "INVALID_REQUEST")


@every_route
def test_other_spellings_of_the_content_type_are_fine(patient: Service, path: str) -> None:
    content = json.dumps(BODIES[path]).encode()
    for value in ("APPLICATION/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"'):
        assert send(patient, path, content, content_type=value).status_code == 200
    assert send(patient, path, content, content_encoding="identity").status_code == 200


@every_route
def test_other_methods_are_refused_naming_those_that_there_are(patient: Service, path: str) -> None:
    gets = path == "/v1/configs"
    for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW"):
        reply = patient.http.request(method, path, headers=JSON_TYPE)
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
def test_what_is_read_can_not_be_written(patient: Service, path: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        reply = patient.http.request(method, path, json={})
        problem = refusal(reply, 405, "INVALID_REQUEST")
        assert "GET" in problem["detail"]
        assert "GET" in reply.headers["allow"]


PATHS = [
    "/v1", "/v1/", "/v2/authorize", "/authorize", "/v1/authorize/", "//v1/authorize", "/v1//authorize",
    "/V1/AUTHORIZE", "/v1/authorize%2F", "/v1/%61uthorize/x", "/v1/authorize;x", "/v1/acls/",
    "/v1/acls/x/y", "/v1/acl", "/openapi.json/", "/docs/", "/redoc", "/favicon.ico", "/v1/../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd", "/livez/", "/readyz/", "/readyz/a/b", "/metrics/x", "/" + "x" * 8_000, "/%ff%fe",
    "/v1/explain/x",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_leads_nowhere_is_not_found(patient: Service, path: str) -> None:
    for method in ("GET", "POST"):
        reply = patient.http.request(method, path, json={} if method == "POST" else None)
        problem = refusal(reply, 404, "RESOURCE_NOT_FOUND")
        assert problem["error_code"] == 91
        assert len(problem["detail"]) < 1000


@pytest.mark.parametrize(
    "path", ["/%00", "/v1/authorize%00", "/v1/authorize%0d%0aX: y", "/readyz/%0a%0d", "/readyz/%1b[31m"]
)
def test_a_path_with_a_control_character_is_refused(patient: Service, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        reply = patient.http.request(method, path, json={} if method == "POST" else None)
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


@pytest.mark.parametrize("acl_id", IDS)
def test_an_id_that_is_none_is_not_found(patient: Service, acl_id: str) -> None:
    reply = patient.http.get(f"/v1/acls/{acl_id}")
    assert reply.status_code in (400, 404)
    refusal(reply, reply.status_code, "INVALID_REQUEST" if reply.status_code == 400 else "RESOURCE_NOT_FOUND")


def test_a_listener_name_that_is_none_of_ours_is_answered(patient: Service) -> None:
    for name in ("A", "a" * 249, "%e2%80%a8", "%20", "%f0%9f%98%80", "%ff", "[31m"):
        reply = patient.http.get(f"/readyz/{name}?verbose")
        assert reply.status_code == 200
        assert len(reply.text.splitlines()) == 2
    refusal(patient.http.get("/readyz/" + "a" * 250), 400, "INVALID_REQUEST")


def test_query_parameters_that_there_are_not_do_no_harm(patient: Service) -> None:
    for path in ("/livez", "/readyz", "/v1/acls/count", "/v1/configs"):
        for query in ("x=1", "verbose", "verbose=%00", "verbose&verbose", "%ff", "=" * 1000):
            assert patient.http.get(f"{path}?{query}").status_code == 200


def test_what_is_refused_tells_nothing_of_the_inside(patient: Service) -> None:
    told: list[str] = []
    for path, body in BODIES.items():
        bodies = (b"{", json.dumps({**body, "bogus": 1}).encode())
        told += [send(patient, path, content).text for content in bodies]
    told += [patient.http.get(path).text for path in ("/nowhere", "/v1/acls/x")]
    for text in told:
        for word in ("Traceback", "pydantic", "msgspec", "asyncpg", "app.", "Exception", "site-packages", ".py"):
            assert word not in text
