"""Bodies that are too large or hold too much: a clear 4xx on every route, at little cost."""

import json
import re
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.bodies import BODIES, LARGE, pointers, refusal, send
from tests.e2e.raw import forget_peak, peak_bytes
from tests.e2e.service import Json, Service, action, binding, context

MIB = 1024 * 1024
LIMITS = {path: (8 if path in LARGE else 1) * MIB for path in BODIES}

every_route = pytest.mark.parametrize("path", BODIES)


@every_route
def test_16_levels_are_not_too_deep(patient: Service, path: str) -> None:
    text = json.dumps(BODIES[path])
    problem = refusal(send(patient, path, f'{text[:-1]},"n":{"[" * 15}{"]" * 15}}}'.encode()), 400, "INVALID_REQUEST")
    # It is read to its end: what is wrong with it is the field.
    assert pointers(problem) == {"/n"}


@every_route
def test_valid_json_in_an_unusual_dress_is_fine(patient: Service, path: str) -> None:
    text = json.dumps(BODIES[path])
    escaped = "".join(f"\\u{ord(each):04x}" if each.isalpha() else each for each in text)
    quoted = json.dumps(BODIES[path]).replace("/", "\\/")
    for content in (f"\r\n {text}\t", json.dumps(BODIES[path], indent=8), quoted):
        assert send(patient, path, content.encode()).status_code == 200
    if all(word not in text for word in ("true", "false", "null")):
        assert send(patient, path, escaped.encode()).status_code == 200


def padded(path: str, size: int) -> bytes:
    """The route's valid body with white space up to this size."""
    text = json.dumps(BODIES[path]).encode()
    return text[:-1] + b" " * (size - len(text)) + text[-1:]


def chunks_of(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), 65_536):
        yield content[start : start + 65_536]


@every_route
def test_a_body_may_be_as_large_as_the_limit_and_no_larger(patient: Service, path: str) -> None:
    limit = LIMITS[path]
    for content in (padded(path, limit), chunks_of(padded(path, limit))):
        assert send(patient, path, content).status_code == 200
    for larger in (limit + 1, limit + 300_000):
        for content in (padded(path, larger), chunks_of(padded(path, larger))):
            problem = refusal(send(patient, path, content), 413, "INVALID_REQUEST")
            assert str(limit) in problem["detail"]


TOO_MANY: list[tuple[str, str, object]] = [
    ("/v1/authorize", "actions", action("orders")),
    ("/v1/authorized-operations", "resources", {"resource_type": "TOPIC", "resource_name": "orders"}),
    ("/v1/list-groups", "groups", "group"),
    ("/v1/configs", "configs", {"name": "audit.level", "value": "INFO"}),
    ("/v1/start", "endpoints", BODIES["/v1/start"]["endpoints"][0]),
]


@pytest.mark.parametrize(("path", "field", "entry"), TOO_MANY)
def test_1000_entries_are_answered_and_1001_are_not(patient: Service, path: str, field: str, entry: object) -> None:
    assert patient.http.post(path, json={**BODIES[path], field: [entry] * 1000}).status_code == 200
    problem = refusal(patient.http.post(path, json={**BODIES[path], field: [entry] * 1001}), 400, "INVALID_REQUEST")
    assert pointers(problem) == {f"/{field}"}
    assert "1000" in problem["detail"]


@pytest.mark.parametrize(("path", "field", "entry"), TOO_MANY)
def test_no_entries_at_all_are_answered(patient: Service, path: str, field: str, entry: object) -> None:
    assert entry
    assert patient.http.post(path, json={**BODIES[path], field: []}).status_code == 200


WIDE: dict[str, Callable[[str], str]] = {
    "half a million wrong entries": lambda text: _with_entries(text, "0", 450_000),
    "90,000 entries of an unknown field": lambda text: _with_entries(text, '{"x":0}', 90_000),
    "100,000 unknown fields": lambda text: text[:-1] + "".join(f',"{n}":0' for n in range(80_000)) + "}",
    "a late NUL": lambda text: f'{text[:-1]},"n":[{"0," * 450_000}"\\u0000"]}}',
}


@every_route
@pytest.mark.parametrize("what", WIDE)
def test_a_body_of_very_many_faults_costs_little(patient: Service, path: str, what: str) -> None:
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
    return {"context": context(), "bindings": [binding(f"topic-{n}") for n in range(count)]}


def test_the_larger_limit_is_for_acls_only(patient: Service) -> None:
    assert len(json.dumps(body_of_many(10_000))) > MIB
    names = [action("x" * 1200) for _ in range(1000)]
    problem = refusal(
        patient.http.post("/v1/authorize", json={"context": context(), "actions": names}), 413, "INVALID_REQUEST"
    )
    assert problem["error_code"] == 42
