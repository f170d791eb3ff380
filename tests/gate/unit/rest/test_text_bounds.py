"""The texts of a request's context hold what a string of Kafka's protocol holds, counted in bytes of UTF-8."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.gate.unit.rest.test_bad_input import BODIES, WITH_CONTEXT, check_problem
from tests.klamm import ADMIN, ALICE, READ_ORDERS, InProcess, in_process

LONGEST = 32_767
TEXTS = ["principal", "listener_name", "security_protocol", "client_id"]
REFUSED = f"longer than {LONGEST} bytes of UTF-8"


@pytest.fixture
async def service() -> AsyncIterator[InProcess]:
    async with in_process() as service:
        yield service


def of_bytes(size: int, letter: str = "x") -> str:
    """A principal of so many bytes of UTF-8."""
    start = "User:" + "x" * ((size - 5) % len(letter.encode()))
    return start + letter * ((size - len(start)) // len(letter.encode()))


async def test_a_text_that_is_longer_is_refused_by_its_name(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in WITH_CONTEXT:
        for field in [*TEXTS, "client_address"]:
            with subtests.test(path=path, field=field):
                for text in (of_bytes(LONGEST + 1), of_bytes(LONGEST + 1, "\xe9")):
                    context = {**ADMIN, field: text}
                    problem = check_problem(await service.send(path, {**BODIES[path], "context": context}), 400)
                    assert problem["code"] == "INVALID_REQUEST"
                    [error] = problem["errors"]
                    assert error["pointer"] == f"/context/{field}"
                    assert REFUSED in error["detail"]
                    assert len(json.dumps(problem)) < 1_000


async def test_the_longest_is_taken(subtests: pytest.Subtests, service: InProcess) -> None:
    for path in WITH_CONTEXT:
        for field in TEXTS[1:]:
            for letter in ["x", "\xe9", "\U0001f600"]:
                with subtests.test(path=path, field=field, letter=letter):
                    context = {**ADMIN, field: of_bytes(LONGEST, letter)}
                    reply = await service.send(path, {**BODIES[path], "context": context})
                    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize("field", ["principal", "client_address"])
async def test_whom_an_explanation_is_about_has_the_bound_too(service: InProcess, field: str) -> None:
    body = {"context": ADMIN, "about": {**ALICE, field: of_bytes(LONGEST + 1)}, "actions": [READ_ORDERS]}
    [error] = check_problem(await service.send("/v1/explain", body), 400)["errors"]
    assert error["pointer"] == f"/about/{field}"
    assert REFUSED in error["detail"]


async def test_whom_what_can_is_about_has_the_bound_too(service: InProcess) -> None:
    body = {"context": ADMIN, "principal": of_bytes(LONGEST + 1)}
    [error] = check_problem(await service.send("/v1/what-can", body), 400)["errors"]
    assert error["pointer"] == "/principal"
    assert REFUSED in error["detail"]


async def test_an_entry_that_is_longer_is_refused_for_itself_alone(service: InProcess) -> None:
    binding = BODIES["/v1/acls"]["bindings"][0]
    for field in ("principal", "host", "resource_name"):
        body = {"context": ADMIN, "bindings": [{**binding, field: of_bytes(LONGEST + 1)}, binding]}
        refused, made = (await service.send("/v1/acls", body)).json()["results"]
        assert (refused["code"], made["code"]) == ("INVALID_REQUEST", "NONE")
        body = {"context": ADMIN, "filters": [{field: of_bytes(LONGEST + 1)}, {"resource_name": "none"}]}
        refused, none = (await service.send("/v1/acls/delete", body)).json()["results"]
        assert (refused["code"], none["code"]) == ("INVALID_REQUEST", "NONE")
