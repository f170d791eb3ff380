"""Bad fields on every route that takes a body: a clear 400 with the field named."""

import json

import pytest

from tests.bodies import BODIES, JSON_TYPE, pointers, refusal
from tests.gate.unit.rest.spoiling import changed, documented_posts, places, pointer, schema_of, spoiled
from tests.klamm import InProcess, Json


def test_every_route_with_a_body_is_on_the_list() -> None:
    assert documented_posts() == set(BODIES)


async def test_every_spoiled_body_is_refused_naming_the_field(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            bodies = list(spoiled(path))
            assert len(bodies) > 50
            faults = []
            for each in bodies:
                reply = await service.client.post(path, content=each.content, headers=JSON_TYPE)
                named = pointers(refusal(reply, 400, "INVALID_REQUEST")) if reply.status_code == 400 else None
                if named is None or (each.field is not None and named != {each.field}):
                    faults.append(f"{each.field}: {each.what}: {reply.status_code} {reply.text[:300]}")
                # The words of the libraries inside don't name the way out.
                faults += [
                    f"{each.what}: {reply.text}" for word in ("Input should", "Expected `") if word in reply.text
                ]
            assert faults == []


async def test_several_faults_are_all_named(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            body = BODIES[path]
            wrong: set[str] = set()
            for place, value in places(BODIES[path]):
                if isinstance(value, str) and schema_of(path, place):
                    body = changed(body, place, lambda _: "\x00")
                    wrong.add(pointer(place))
            problem = refusal(await service.client.post(path, json=body), 400, "INVALID_REQUEST")
            assert pointers(problem) == wrong
            assert f"({len(wrong) - 1} more)" in problem["detail"]


async def test_of_many_unknown_fields_the_first_is_named(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            body = {**BODIES[path], **{f"field-{n}": n for n in range(500)}}
            problem = refusal(await service.client.post(path, json=body), 400, "INVALID_REQUEST")
            assert pointers(problem) == {"/field-0"}


async def test_a_field_whose_name_is_hostile_is_named_safely(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            for name in ("/~", "x" * 100_000, "\n\r\x1b[31m", "\u202e", "😀", "<script>", '"', "%s{0}", ""):
                problem = refusal(
                    await service.client.post(path, json={**BODIES[path], name: 1}), 400, "INVALID_REQUEST"
                )
                [named] = pointers(problem)
                assert named == "/" + name[:100].replace("~", "~0").replace("/", "~1")
                assert len(problem["detail"]) < 1000
            for name in ('"a\\u0000"', '"\\ud800"'):
                text = json.dumps(BODIES[path])[:-1] + f",{name}:1}}"
                reply = await service.client.post(path, content=text, headers=JSON_TYPE)
                assert len(pointers(refusal(reply, 400, "INVALID_REQUEST"))) == 1


CALLERS: dict[str, tuple[Json, str]] = {
    "no colon": ({"principal": "alice"}, "/context/principal"),
    "an empty principal": ({"principal": ""}, "/context/principal"),
    "a host name": ({"client_address": "localhost"}, "/context/client_address"),
    "an empty address": ({"client_address": ""}, "/context/client_address"),
    "a range": ({"client_address": "10.0.0.0/8"}, "/context/client_address"),
    "an octet too large": ({"client_address": "10.0.0.256"}, "/context/client_address"),
    "a short form": ({"client_address": "10.1"}, "/context/client_address"),
    "octal": ({"client_address": "010.0.0.1"}, "/context/client_address"),
    "a number as address": ({"client_address": "2130706433"}, "/context/client_address"),
    "brackets": ({"client_address": "[::1]"}, "/context/client_address"),
    "a port": ({"client_address": "10.0.0.1:9092"}, "/context/client_address"),
    "Java's toString": ({"client_address": "/10.0.0.1"}, "/context/client_address"),
    "a space": ({"client_address": " 10.0.0.1"}, "/context/client_address"),
    "a line feed": ({"client_address": "10.0.0.1\n"}, "/context/client_address"),
    "digits of another script": ({"client_address": "\u0661\u0660.\u0660.\u0660.\u0661"}, "/context/client_address"),
    "nine groups": ({"client_address": "1:2:3:4:5:6:7:8:9"}, "/context/client_address"),
    "two gaps": ({"client_address": "1::2::3"}, "/context/client_address"),
    "an empty zone": ({"client_address": "fe80::1%"}, "/context/client_address"),
    "a hostile zone": ({"client_address": "fe80::1%a b"}, "/context/client_address"),
    "a megabyte of it": ({"client_address": "1" * 900_000}, "/context/client_address"),
    "an API key of 32 bits": ({"request_type": 32_768}, "/context/request_type"),
    "a version of 32 bits": ({"request_version": -32_769}, "/context/request_version"),
    "a correlation id of 64 bits": ({"correlation_id": 2**31}, "/context/correlation_id"),
}


async def test_a_caller_that_is_none_is_refused_on_every_route(subtests: pytest.Subtests, service: InProcess) -> None:
    for what, (spoiling, where) in CALLERS.items():
        with subtests.test(what=what):
            for path, body in BODIES.items():
                if "context" in body:
                    bad = {**body, "context": {**body["context"], **spoiling}}
                    problem = refusal(await service.client.post(path, json=bad), 400, "INVALID_REQUEST")
                    assert pointers(problem) == {where}
                    assert len(problem["detail"]) < 1000


NUMBERS_OUT_OF_RANGE: list[tuple[str, Json, str]] = [
    ("/v1/acls", {"timeout_ms": -1}, "/timeout_ms"),
    ("/v1/acls", {"timeout_ms": 300_001}, "/timeout_ms"),
    ("/v1/acls/delete", {"timeout_ms": -1}, "/timeout_ms"),
    ("/v1/configs", {"timeout_ms": 300_001}, "/timeout_ms"),
    ("/v1/acls/search", {"timeout_ms": -1}, "/timeout_ms"),
    ("/v1/acls/search", {"timeout_ms": 300_001}, "/timeout_ms"),
    ("/v1/acls/search", {"limit": 0}, "/limit"),
    ("/v1/acls/search", {"limit": -1}, "/limit"),
    ("/v1/acls/search", {"limit": 1_001}, "/limit"),
    ("/v1/start", {"wait_ms": -1}, "/wait_ms"),
    ("/v1/start", {"wait_ms": 300_001}, "/wait_ms"),
    ("/v1/start", {"broker_id": -(2**31) - 1}, "/broker_id"),
    ("/v1/start", {"endpoints": [{**BODIES["/v1/start"]["endpoints"][0], "port": 65_536}]}, "/endpoints/0/port"),
    ("/v1/start", {"endpoints": [{**BODIES["/v1/start"]["endpoints"][0], "port": -1}]}, "/endpoints/0/port"),
]


async def test_a_number_out_of_range_is_named(subtests: pytest.Subtests, service: InProcess) -> None:
    for path, change, where in NUMBERS_OUT_OF_RANGE:
        with subtests.test(path=path, change=change, where=where):
            problem = refusal(await service.client.post(path, json={**BODIES[path], **change}), 400, "INVALID_REQUEST")
            assert pointers(problem) == {where}
            assert "at least" in problem["detail"] or "at most" in problem["detail"]


async def test_16_levels_are_not_too_deep(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            text = json.dumps(BODIES[path])
            problem = refusal(
                await service.send(path, f'{text[:-1]},"n":{"[" * 15}{"]" * 15}}}'.encode()), 400, "INVALID_REQUEST"
            )
            # It is read to its end: what is wrong with it is the field.
            assert pointers(problem) == {"/n"}


async def test_valid_json_in_an_unusual_dress_is_fine(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in BODIES:
        with subtests.test(path=path):
            text = json.dumps(BODIES[path])
            escaped = "".join(f"\\u{ord(each):04x}" if each.isalpha() else each for each in text)
            quoted = json.dumps(BODIES[path]).replace("/", "\\/")
            for content in (f"\r\n {text}\t", json.dumps(BODIES[path], indent=8), quoted):
                assert (await service.send(path, content.encode())).status_code == 200
            if all(word not in text for word in ("true", "false", "null")):
                assert (await service.send(path, escaped.encode())).status_code == 200
