"""A valid body of every route that takes one, and the shape that every refusal has."""

from typing import Any

import httpx

from tests.klamm import SUPER_USER, Json, acl, action, context

ENDPOINT = {"listener_name": "PLAINTEXT", "security_protocol": "SSL", "host": "broker-1", "port": 9092}
_CALLER = context(SUPER_USER, "10.1.2.3", listener_name="A", security_protocol="SSL", client_id="c")

BODIES: dict[str, Json] = {
    "/v1/authorize": {"context": {**_CALLER, "request_type": 3}, "actions": [action("orders", pattern_type="LITERAL")]},
    "/v1/authorized-operations": {
        "context": _CALLER,
        "resources": [{"resource_type": "TOPIC", "resource_name": "orders"}],
    },
    "/v1/authorize-by-resource-type": {"context": _CALLER, "operation": "READ", "resource_type": "TOPIC"},
    "/v1/list-groups": {"context": _CALLER, "groups": ["group"]},
    "/v1/explain": {
        "context": _CALLER,
        "actions": [action("orders", pattern_type="LITERAL")],
        "about": {"principal": "User:bob", "client_address": "10.1.2.3"},
    },
    "/v1/acls": {"context": _CALLER, "bindings": [acl("orders", pattern_type="LITERAL", host="*")]},
    "/v1/acls/delete": {"context": _CALLER, "filters": [{"resource_name": "nobody made this", "resource_type": "ANY"}]},
    "/v1/acls/search": {"context": _CALLER, "filter": {"resource_name": "orders"}, "limit": 10},
    "/v1/who-can": {
        "context": _CALLER,
        "resource": {"resource_type": "TOPIC", "resource_name": "orders"},
        "operations": ["READ"],
        "host": "10.1.2.3",
        "limit": 10,
    },
    "/v1/what-can": {"context": _CALLER, "principal": "User:bob", "host": "10.1.2.3", "limit": 10},
    "/v1/history": {
        "context": _CALLER,
        "filter": {"resource_name": "orders", "resource_type": "TOPIC"},
        "actor": SUPER_USER,
        "comment": "OPS",
        "since": "2026-11-23T05:07:00.5+01:00",
        "until": "2099-12-31T18:00:00Z",
        "limit": 10,
    },
    "/v1/start": {"broker_id": 1, "endpoints": [ENDPOINT], "wait_ms": 0},
    "/v1/configs": {"context": _CALLER, "configs": [{"name": "audit.level", "value": "INFO"}]},
}
"""Each is answered with 200, and changes nothing that another test looks at."""

LARGE = ("/v1/acls", "/v1/acls/delete")
"""Where a body may have 8 MiB; elsewhere 1 MiB."""

JSON_TYPE = {"content-type": "application/json"}

_PROBLEM = {"type", "title", "status", "detail", "code", "error_code", "retriable"}


def problem_in(reply: httpx.Response) -> Json:
    """The problem+json of a refusal, of the one shape that all have."""
    assert reply.headers["content-type"] == "application/problem+json", reply.text
    problem: Json = reply.json()
    assert set(problem) - {"errors"} == _PROBLEM, problem
    assert problem["status"] == reply.status_code
    assert problem["type"] == f"urn:klamm:error:{problem['code']}"
    assert problem["detail"]
    assert ("retry-after" in reply.headers) == (reply.status_code in (429, 503))
    for error in problem.get("errors", ()):
        assert set(error) == {"pointer", "detail"}
        assert error["detail"]
    return problem


def refusal(reply: httpx.Response, status: int, code: str) -> Json:
    """The same, with this status and this code."""
    assert reply.status_code == status, reply.text
    problem = problem_in(reply)
    assert problem["code"] == code, problem
    return problem


def pointers(problem: dict[str, Any]) -> set[str]:
    """The fields that a refusal names."""
    return {error["pointer"] for error in problem.get("errors", ())}
