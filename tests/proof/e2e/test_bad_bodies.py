"""Bad bodies over a real socket: a smoke test of every route, and what a body that is too much may cost.

All else that may be wrong with a body is asked in process: tests/gate/unit/rest/test_bad_*.py and test_strict_json.py.
"""

import json
import re
from collections.abc import Callable, Iterator

import pytest

from tests.bodies import BODIES, LARGE, pointers, refusal, send
from tests.klamm import Json, Process, acl, action, context
from tests.proof.e2e.raw import forget_peak, peak_bytes

MIB = 1024 * 1024
LIMITS = {path: (8 if path in LARGE else 1) * MIB for path in BODIES}

each_limit = pytest.mark.parametrize("path", ["/v1/authorize", "/v1/acls"])


@pytest.mark.parametrize("path", BODIES)
def test_every_route_refuses_over_the_socket_what_it_refuses_in_process(patient: Process, path: str) -> None:
    body = BODIES[path]
    valid = json.dumps(body).encode()
    assert send(patient, path, valid).status_code == 200
    for content in (b"", valid[:-1], b"\xff", b"[]"):
        refusal(send(patient, path, content), 400, "INVALID_REQUEST")
    for changed in ({**body, "bogus": 1}, {**body, "bogus": "\x00"}):
        problem = refusal(patient.http.post(path, json=changed), 400, "INVALID_REQUEST")
        assert pointers(problem) == {"/bogus"}
    refusal(send(patient, path, valid, content_type="text/plain"), 415, "INVALID_REQUEST")
    refusal(send(patient, path, valid, content_encoding="gzip"), 415, "INVALID_REQUEST")
    refusal(send(patient, path, valid[:-1] + b" " * LIMITS[path] + b"}"), 413, "INVALID_REQUEST")
    refusal(patient.http.put(path, json=body), 405, "INVALID_REQUEST")
    refusal(patient.http.post(f"{path}/x", json=body), 404, "RESOURCE_NOT_FOUND")


def padded(path: str, size: int) -> bytes:
    """The route's valid body with white space up to this size."""
    text = json.dumps(BODIES[path]).encode()
    return text[:-1] + b" " * (size - len(text)) + text[-1:]


def chunks_of(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), 65_536):
        yield content[start : start + 65_536]


@each_limit
def test_a_body_may_be_as_large_as_the_limit_and_no_larger(patient: Process, path: str) -> None:
    limit = LIMITS[path]
    for content in (padded(path, limit), chunks_of(padded(path, limit))):
        assert send(patient, path, content).status_code == 200
    for larger in (limit + 1, limit + 300_000):
        for content in (padded(path, larger), chunks_of(padded(path, larger))):
            problem = refusal(send(patient, path, content), 413, "INVALID_REQUEST")
            assert str(limit) in problem["detail"]


WIDE: dict[str, Callable[[str], str]] = {
    "half a million wrong entries": lambda text: _with_entries(text, "0", 450_000),
    "90,000 entries of an unknown field": lambda text: _with_entries(text, '{"x":0}', 90_000),
    "100,000 unknown fields": lambda text: text[:-1] + "".join(f',"{n}":0' for n in range(80_000)) + "}",
    "a late NUL": lambda text: f'{text[:-1]},"n":[{"0," * 450_000}"\\u0000"]}}',
}


@each_limit
@pytest.mark.parametrize("what", WIDE)
def test_a_body_of_very_many_faults_costs_little(patient: Process, path: str, what: str) -> None:
    """Each error found costs a kilobyte and a moment: nobody's answer waits for half a million of them."""
    content = WIDE[what](json.dumps(BODIES[path])).encode()
    forget_peak(patient)
    before = peak_bytes(patient)
    problem = refusal(send(patient, path, content), 400, "INVALID_REQUEST")
    assert len(pointers(problem)) <= 20
    assert peak_bytes(patient) < before + 150 * MIB


def _with_entries(text: str, entry: str, count: int) -> str:
    """The body with this as the entries of all of its lists, or else of one more."""
    many = f"[{','.join([entry] * count)}]"
    lists = re.sub(r"\[.*?\]", lambda _: many, text)
    return lists if lists != text else f'{text[:-1]},"n":{many}}}'


def body_of_many(count: int) -> Json:
    return {"context": context(), "bindings": [acl(f"topic-{n}") for n in range(count)]}


def test_the_larger_limit_is_for_acls_only(patient: Process) -> None:
    assert len(json.dumps(body_of_many(10_000))) > MIB
    names = [action("x" * 1200) for _ in range(1000)]
    problem = refusal(
        patient.http.post("/v1/authorize", json={"context": context(), "actions": names}), 413, "INVALID_REQUEST"
    )
    assert problem["error_code"] == 42
