"""Bodies that are no JSON, too deep, too large or too many: a clear 4xx on every route, at little cost."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.bodies import BODIES, LARGE, pointers, refusal, send
from tests.e2e.service import Json, Service, action, binding, context

MIB = 1024 * 1024
LIMITS = {path: (8 if path in LARGE else 1) * MIB for path in BODIES}

every_route = pytest.mark.parametrize("path", BODIES)


# Each makes bytes of a route's valid body.
ENCODED: dict[str, Callable[[str], bytes]] = {
    "nothing": lambda _: b"",
    "white space": lambda _: b" \r\n\t ",
    "a NUL": lambda _: b"\x00",
    "a byte order mark": lambda text: text.encode("utf-8-sig"),
    "a byte order mark at the end": lambda text: text.encode() + b"\xef\xbb\xbf",
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, big end first": lambda text: text.encode("utf-16-be"),
    "UTF-16, little end first": lambda text: text.encode("utf-16-le"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "UTF-32, little end first": lambda text: text.encode("utf-32-le"),
    "UTF-7": lambda _: b"+AHsAfQ-",
    "latin 1 in a text": lambda text: text.replace(":", ': "\xe4", "', 1).encode("latin-1"),
    "an overlong NUL in a text": lambda text: text.encode().replace(b'"', b'"\xc0\x80', 1),
    "an encoded surrogate in a text": lambda text: text.encode().replace(b'"', b'"\xed\xa0\x80', 1),
    "beyond Unicode in a text": lambda text: text.encode().replace(b'"', b'"\xf5\x80\x80\x80', 1),
    "a cut character at the end": lambda text: text.encode() + b"\xe2\x82",
    "the first half": lambda text: text[: len(text) // 2].encode(),
    "all but the last brace": lambda text: text[:-1].encode(),
    "one brace too many": lambda text: f"{text}}}".encode(),
    "two bodies": lambda text: f"{text}{text}".encode(),
    "two bodies on two lines": lambda text: f"{text}\n{text}".encode(),
    "a body in a list": lambda text: f"[{text}]".encode(),
    "a body in a text": lambda text: json.dumps(text).encode(),
    "a comma too many": lambda text: f"{text[:-1]},}}".encode(),
    "a comment": lambda text: f"{text}//".encode(),
    "a form": lambda _: b"context=1&actions=2",
    "null": lambda _: b"null",
    "a number": lambda _: b"17",
    "a text": lambda _: b'"text"',
    "a list": lambda _: b"[]",
    "NaN": lambda _: b"NaN",
    "an empty object": lambda _: b"{}",
    "a number of 100,000 digits": lambda text: f'{text[:-1]},"n":{"9" * 100_000}}}'.encode(),
    "a fraction of 100,000 digits": lambda text: f'{text[:-1]},"n":1.{"9" * 100_000}}}'.encode(),
    "17 levels of lists": lambda text: f'{text[:-1]},"n":{"[" * 16}{"]" * 16}}}'.encode(),
    "17 levels of objects": lambda text: (
        f'{text[:-1]},"n":{chr(123) + (chr(34) + "a" + chr(34) + ":{") * 15}{"}" * 17}'.encode()
    ),
    "100,000 lists": lambda _: b"[" * 100_000,
    "100,000 lists that end": lambda _: b"[" * 100_000 + b"]" * 100_000,
    "100,000 lists in a field": lambda text: f'{text[:-1]},"n":{"[" * 100_000}{"]" * 100_000}}}'.encode(),
    "100,000 objects": lambda _: b'{"a":' * 100_000,
    "100,000 objects that end": lambda _: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "100,000 brackets that don't match": lambda _: b"[{" * 50_000,
    "closing brackets": lambda _: b"]" * 100_000,
    "half a million commas": lambda _: b'{"a":[' + b"," * 500_000 + b"]}",
    "half a million zeros": lambda _: b'{"a":[' + b"0," * 450_000 + b"0]}",
    "100,000 keys": lambda text: (text[:-1] + "".join(f',"{n}":0' for n in range(90_000)) + "}").encode(),
    "one key 60,000 times": lambda text: (text[:-1] + ',"k":0' * 60_000 + "}").encode(),
    "a megabyte of quotes": lambda _: b'"' * 900_000,
    "a megabyte of backslashes": lambda _: b'{"a":"' + b"\\" * 900_000,
}


@every_route
def test_a_body_that_is_no_valid_json_is_refused(patient: Service, path: str) -> None:
    text = json.dumps(BODIES[path])
    faults = []
    for what, make in ENCODED.items():
        reply = send(patient, path, make(text))
        if reply.status_code != 400:
            faults.append(f"{what}: {reply.status_code} {reply.text[:300]}")
        else:
            assert len(refusal(reply, 400, "INVALID_REQUEST")["detail"]) < 1000, what
    assert faults == []


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
    assert "1001" in problem["detail"]
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
    process = Path(f"/proc/{patient.process.pid}")
    (process / "clear_refs").write_text("5", encoding="ascii")  # the peak of memory begins anew
    before = peak_bytes(process)
    problem = refusal(send(patient, path, content), 400, "INVALID_REQUEST")
    assert len(pointers(problem)) <= 20
    assert peak_bytes(process) < before + 150 * MIB


def peak_bytes(process: Path) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024


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
