"""The table from Kafka's errors to HTTP, and what happens when something breaks."""

import json

import pytest
from starlette.types import Message, Scope

from app.core.kafka import errors as core
from app.core.kafka.errors import ApiException, Errors
from app.rest.errors import (
    MAX_FIELD_ERRORS,
    STATUS_OF_ERROR,
    InvalidFieldsException,
    ProblemField,
    item_outcome,
    problem_response,
    status_of,
)
from tests.klamm import ADMIN, InProcess


def test_every_error_but_none_has_a_status() -> None:
    assert set(STATUS_OF_ERROR) == set(Errors) - {Errors.NONE}


def every_refusal() -> list[type[ApiException]]:
    kinds = [ApiException]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return [kind for kind in kinds if kind.__module__ == core.__name__]


def test_every_refusal_of_core_becomes_a_problem(subtests: pytest.Subtests) -> None:
    for kind in every_refusal():
        with subtests.test(kind=kind):
            response = problem_response(kind("why, and the way out"))
            problem = json.loads(bytes(response.body))
            assert response.media_type == "application/problem+json"
            assert problem == {
                "type": f"urn:klamm:error:{kind.error.value}",
                "title": problem["title"],
                "status": response.status_code,
                "detail": "why, and the way out",
                "code": kind.error.value,
                "error_code": kind.error.error_code,
                "retriable": kind.error.retriable,
            }
            assert 400 <= response.status_code < 600
            assert ("retry-after" in response.headers) == (response.status_code in (429, 503))


def test_statuses_are_those_of_the_contract(subtests: pytest.Subtests) -> None:
    for kind, status in [
        (core.InvalidRequestException, 400),
        (core.ClusterAuthorizationException, 403),
        (core.TokenEpochMismatchException, 409),
        (core.RequestTooLargeException, 413),
        (core.OverloadedException, 429),
        (core.StoreUnavailableException, 503),
        (core.AuthorizerNotReadyException, 503),
        (core.RequestTimedOutException, 504),
        (core.UnknownServerException, 500),
    ]:
        with subtests.test(kind=kind, status=status):
            assert status_of(kind("")) == status


def test_a_refusal_names_its_first_fields_and_counts_the_others() -> None:
    refusal = InvalidFieldsException([ProblemField(f"/{n}", "bad") for n in range(100)])
    assert refusal.message == "`/0`: bad (99 more)"
    assert len(refusal.errors) == MAX_FIELD_ERRORS


def test_an_entry_is_answered_with_its_own_code() -> None:
    assert item_outcome(None) == {"error_code": 0, "code": "NONE", "error_message": None}
    refusal = core.PolicyViolationException("too many")
    assert item_outcome(refusal) == {"error_code": 44, "code": "POLICY_VIOLATION", "error_message": "too many"}


async def test_an_unexpected_fault_is_told_to_the_log_alone(
    service: InProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("password in here")

    monkeypatch.setattr(service.authorizer, "acls", broken)
    reply = await service.send("/v1/acls/search", {"context": ADMIN, "filter": {}})
    problem = reply.json()
    assert (reply.status_code, problem["code"]) == (500, "UNKNOWN_SERVER_ERROR")
    assert "password" not in reply.text
    record = next(each for each in caplog.records if each.message == "request_failed")
    assert record.exc_info is not None
    assert reply.headers["x-request-id"] in problem["detail"]
    assert "password in here" in caplog.text
    page = (await service.client.get("/metrics")).text
    assert 'klamm_http_requests_total{operation="acls",status="5xx"} 1.0' in page


async def test_a_caller_that_leaves_in_the_middle_of_a_body_is_no_fault(
    service: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    incoming: list[Message] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/acls",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    await service.app(scope, receive, send)
    assert sent == []
    page = (await service.client.get("/metrics")).text
    assert 'klamm_http_requests_total{operation="createAcls",status="4xx"} 1.0' in page
    assert "request_failed" not in caplog.text


async def test_the_lifespan_of_the_server_is_answered(service: InProcess) -> None:
    incoming: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    await service.app({"type": "lifespan", "state": {}}, receive, send)
    assert [each["type"] for each in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
