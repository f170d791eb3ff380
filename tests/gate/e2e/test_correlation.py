"""A request's id and trace: in the reply, in the audit log and in the service's log; and no log or header is forged."""

import json
import re
from typing import Any

import httpx
import pytest

from tests.bodies import BODIES
from tests.gate.e2e.conftest import Guarded
from tests.klamm import SUPER_USER, Json, Process, acl, action, context, wait_until
from tests.planted import plant
from tests.raw import exchange

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
MADE = re.compile(r"[0-9a-f]{12}-[0-9a-f]+")
DENIED: Json = {"context": context("User:alice"), "actions": [action("correlated")]}
GETS = ["/livez", "/readyz", "/startupz", "/metrics", "/v1/acls/count", "/v1/configs", "/nowhere", "/v1/authorize"]


def events(service: Process, **members: object) -> list[dict[str, Any]]:
    """The lines with these members; every line of the service is JSON."""
    found = [json.loads(line) for line in [*service.lines]]
    return [each for each in found if members.items() <= each.items()]


def test_every_route_with_a_body_tells_the_requests_id_and_trace(service: Process, subtests: pytest.Subtests) -> None:
    for path in BODIES:
        with subtests.test(path):
            headers = {"x-request-id": "mine/1", "traceparent": TRACEPARENT}
            for body in (BODIES[path], {"unknown": 1}):
                answer = service.http.post(path, json=body, headers=headers)
                assert answer.headers.get_list("x-request-id") == ["mine/1"]
                assert answer.headers.get_list("traceparent") == [TRACEPARENT]
            own = service.http.post(path, json=BODIES[path])
            assert MADE.fullmatch(own.headers["x-request-id"])
            assert "traceparent" not in own.headers


def test_probes_and_refusals_tell_it_too(service: Process, subtests: pytest.Subtests) -> None:
    for path in GETS:
        with subtests.test(path):
            answer = service.http.get(path, headers={"x-request-id": "mine/1", "traceparent": TRACEPARENT})
            assert (answer.headers["x-request-id"], answer.headers["traceparent"]) == ("mine/1", TRACEPARENT)


def test_each_request_has_an_id_of_its_own(service: Process) -> None:
    ids = [service.http.post("/v1/authorize", json=DENIED).headers["x-request-id"] for _ in range(50)]
    ids += [service.http.get("/livez").headers["x-request-id"] for _ in range(50)]
    assert len(set(ids)) == 100


def test_an_id_that_is_none_is_replaced(service: Process, subtests: pytest.Subtests) -> None:
    for sent in ("", "a b", "x" * 129, "tab\there", "\xe9"):
        with subtests.test(sent=sent):
            headers = httpx.Headers({"x-request-id": sent.encode("latin-1").decode("latin-1")}, encoding="latin-1")
            for answer in (
                service.http.post("/v1/authorize", json=DENIED, headers=headers),
                service.http.get("/livez", headers=headers),
            ):
                assert MADE.fullmatch(answer.headers["x-request-id"])


def test_a_trace_that_is_none_is_left_out(service: Process, subtests: pytest.Subtests) -> None:
    for sent in (f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", TRACEPARENT.upper(), f"{TRACEPARENT}-x", "x"):
        with subtests.test(sent=sent):
            answer = service.http.post("/v1/authorize", json=DENIED, headers={"traceparent": sent})
            assert "traceparent" not in answer.headers


def test_headers_that_come_twice_count_as_none(service: Process) -> None:
    headers = [("x-request-id", "a"), ("x-request-id", "b"), ("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT)]
    answer = service.http.post("/v1/authorize", json=DENIED, headers=headers)
    assert MADE.fullmatch(answer.headers["x-request-id"])
    assert "traceparent" not in answer.headers


def test_no_id_can_forge_a_header_or_a_line(service: Process) -> None:
    request = b"GET /livez HTTP/1.1\r\nhost: k\r\nconnection: close\r\nx-request-id: %b\r\n\r\n"
    for sent in (b"a\r\n\tforged: 1", b"a\rforged: 1", b"a\x00b", b"a\x1b[2Jb", b"\xe2\x80\xa8"):
        head = exchange(service, request % sent, then_close=False).partition(b"\r\n\r\n")[0]
        assert b"forged" not in head
        assert b"\x1b" not in head
        assert b"\xe2" not in head


def test_an_audit_line_in_json_says_which_request_and_who_made_it(guarded: Guarded, name: str) -> None:
    service, tokens = guarded.service, guarded.tokens
    headers = {"authorization": f"Bearer {tokens['anyone']}", "traceparent": TRACEPARENT}
    asked = [f"hot-{name}", f"slow-{name}"]
    # The hot path and, as a token to wait for has it, the other one.
    token = service.http.post("/v1/authorize", json=DENIED, headers={**headers, "x-request-id": asked[0]}).json()[
        "token"
    ]
    slow = service.http.post(
        "/v1/authorize", json={**DENIED, "at_least": token}, headers={**headers, "x-request-id": asked[1]}
    )
    assert slow.status_code == httpx.codes.OK, slow.text
    for request_id in asked:
        wait_until(lambda wanted=request_id: bool(events(service, request_id=wanted)), "it is logged")  # type: ignore[misc]  # the default binds the loop's variable
        [line] = events(service, request_id=request_id)
        assert (line["logger"], line["event"], line["level"]) == ("kafka.authorizer.logger", "decision", "INFO")
        assert (line["trace_id"], line["caller"]) == (TRACE, "anyone")
        assert line["message"].startswith("Principal = User:alice is Denied operation = READ from host = 127.0.0.1 on ")


def test_a_line_of_the_service_says_which_request(guarded: Guarded, name: str) -> None:
    service = guarded.service
    wrong = plant("klamm-token-that-nobody-has-made")
    headers = {"authorization": f"Bearer {wrong}", "x-request-id": f"refused-{name}", "traceparent": TRACEPARENT}

    def is_logged() -> bool:
        """Refusals of a kind are logged once a second at most."""
        assert service.http.post("/v1/authorize", json=DENIED, headers=headers).status_code == 401
        return bool(events(service, event="caller_refused", request_id=f"refused-{name}"))

    wait_until(is_logged, "it is logged")
    line = events(service, event="caller_refused", request_id=f"refused-{name}")[0]
    assert (line["level"], line["trace_id"]) == ("WARNING", TRACE)


def test_a_change_leaves_a_line_that_says_who_how_much_and_its_token(guarded: Guarded, name: str) -> None:
    service, tokens = guarded.service, guarded.tokens
    headers = {"authorization": f"Bearer {tokens['root']}", "x-request-id": f"change-{name}"}
    body = {"context": context(), "bindings": [acl(f"{name}a"), acl(f"{name}b")], "comment": "OPS-1"}
    made = service.http.post("/v1/acls", json=body, headers=headers)
    assert made.status_code == httpx.codes.OK, made.text
    wait_until(lambda: bool(events(service, event="change_written", request_id=f"change-{name}")), "it is logged")
    [line] = events(service, event="change_written", request_id=f"change-{name}")
    expected = {
        "call": "createAcls",
        "actor": SUPER_USER,
        "records": 2,
        "token": made.json()["token"],
        "comment": "OPS-1",
    }
    assert line.items() >= {**expected, "level": "INFO", "caller": "root"}.items()
