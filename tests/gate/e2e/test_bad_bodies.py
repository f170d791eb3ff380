"""Bad bodies over a socket: a smoke test of every route, and how large a body may be.

What takes very many faults is in tests/proof/e2e/test_bad_bodies.py; all else that may be wrong with a body is asked in
process: tests/gate/unit/rest/test_bad_*.py and test_strict_json.py.
"""

import json
from collections.abc import Iterator

import pytest

from tests.bodies import BODIES, LARGE, pointers, refusal
from tests.klamm import Json, Process, acl, action, context

MIB = 1024 * 1024
LIMITS = {path: (8 if path in LARGE else 1) * MIB for path in BODIES}


def test_every_route_refuses_over_the_socket_what_it_refuses_in_process(
    service: Process, subtests: pytest.Subtests
) -> None:
    for path, body in BODIES.items():
        with subtests.test(path):
            check_refusals(service, path, body)


def check_refusals(service: Process, path: str, body: Json) -> None:
    valid = json.dumps(body).encode()
    assert service.send(path, valid).status_code == 200
    for content in (b"", valid[:-1], b"\xff", b"[]"):
        refusal(service.send(path, content), 400, "INVALID_REQUEST")
    for changed in ({**body, "bogus": 1}, {**body, "bogus": "\x00"}):
        problem = refusal(service.http.post(path, json=changed), 400, "INVALID_REQUEST")
        assert pointers(problem) == {"/bogus"}
    refusal(service.send(path, valid, content_type="text/plain"), 415, "INVALID_REQUEST")
    refusal(service.send(path, valid, content_encoding="gzip"), 415, "INVALID_REQUEST")
    refusal(service.send(path, valid[:-1] + b" " * LIMITS[path] + b"}"), 413, "INVALID_REQUEST")
    refusal(service.http.put(path, json=body), 405, "INVALID_REQUEST")
    refusal(service.http.post(f"{path}/x", json=body), 404, "RESOURCE_NOT_FOUND")


def padded(path: str, size: int) -> bytes:
    """The route's valid body with white space up to this size."""
    text = json.dumps(BODIES[path]).encode()
    return text[:-1] + b" " * (size - len(text)) + text[-1:]


def chunks_of(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), 65_536):
        yield content[start : start + 65_536]


@pytest.mark.parametrize("path", ["/v1/authorize", "/v1/acls"])
def test_a_body_may_be_as_large_as_the_limit_and_no_larger(service: Process, path: str) -> None:
    limit = LIMITS[path]
    for content in (padded(path, limit), chunks_of(padded(path, limit))):
        assert service.send(path, content).status_code == 200
    for larger in (limit + 1, limit + 300_000):
        for content in (padded(path, larger), chunks_of(padded(path, larger))):
            problem = refusal(service.send(path, content), 413, "INVALID_REQUEST")
            assert str(limit) in problem["detail"]


def body_of_many(count: int) -> Json:
    return {"context": context(), "bindings": [acl(f"topic-{n}") for n in range(count)]}


def test_the_larger_limit_is_for_acls_only(service: Process) -> None:
    assert len(json.dumps(body_of_many(10_000))) > MIB
    names = [action("x" * 1200) for _ in range(1000)]
    problem = refusal(
        service.http.post("/v1/authorize", json={"context": context(), "actions": names}), 413, "INVALID_REQUEST"
    )
    assert problem["error_code"] == 42
