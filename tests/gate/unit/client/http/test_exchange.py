"""Calls over HTTP: what is repeated and what never is, deadlines, and one clear line for every failure."""

import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.client.http import exchange
from app.client.http.access import Access
from app.client.http.replies import ServiceError
from app.client.http.service import Service
from app.formats.command_errors import UsageError
from tests.certificates import Authority
from tests.planted import plant
from tests.scripted_server import Answer, ScriptedServer, hang_up, problem, reply

TOKEN = plant("klamm_planted-client-token-0123456789")
BUSY = problem(429, "OVERLOADED", "too much at once", retriable=True)
NOT_READY = problem(503, "AUTHORIZER_NOT_READY", "not loaded yet", retriable=True)
STORE_GONE = problem(503, "STORE_UNAVAILABLE", "nothing was kept", retriable=True)
TIMED_OUT = problem(504, "REQUEST_TIMED_OUT", "the outcome is unknown", retriable=True)
PROXY_PAGE = Answer(503, b"<html>upstream connect error</html>", media_type="text/html")


def at(url: str, timeout_s: float = 20.0) -> Access:
    return Access(url, "User:admin", timeout_s=timeout_s)


@pytest.fixture
def no_service() -> Iterator[str]:
    """An address where nobody listens, and nobody else will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def refusal(server: ScriptedServer, *, idempotent: bool = False, timeout_s: float = 20.0) -> ServiceError:
    with Service(at(server.url, timeout_s)) as service, pytest.raises(ServiceError) as caught:
        service.post("/v1/acls", {}, idempotent=idempotent)
    return caught.value


def test_a_call_carries_the_context_and_comes_back_as_an_object() -> None:
    with ScriptedServer(reply(token="t")) as server, Service(at(server.url)) as service:
        assert service.post("/v1/authorize", {"actions": []}) == {"token": "t"}
    seen = server.seen[0]
    assert seen.body == {"context": {"principal": "User:admin", "client_address": "127.0.0.1"}, "actions": []}
    assert (seen.method, seen.path, seen.headers["content-type"]) == ("POST", "/v1/authorize", "application/json")


def test_a_context_in_the_body_is_left_as_it_is() -> None:
    own = {"principal": "User:bob", "client_address": "10.0.0.1"}
    with ScriptedServer(reply()) as server, Service(at(server.url)) as service:
        service.post("/v1/authorize", {"context": own})
    assert server.seen[0].body["context"] == own


def test_an_address_with_a_path_of_nobodys_is_told_so() -> None:
    strangers = (Answer(404, b"<html>not here</html>", media_type="text/html"), problem(404, "NOT_FOUND", "no such"))
    for stranger in strangers:
        with ScriptedServer(stranger) as server:
            for path, count in (("/klamm", 1), ("", 0)):
                with Service(at(f"{server.url}{path}")) as service, pytest.raises(ServiceError) as caught:
                    service.get("/v1/acls/count")
                assert str(caught.value).count("leave its path out") == count


def test_an_address_may_have_a_path() -> None:
    with ScriptedServer(reply()) as server, Service(at(f"{server.url}/klamm")) as service:
        service.get("/v1/acls/count")
    assert server.seen[0].path == "/klamm/v1/acls/count"


@pytest.mark.parametrize("passing", [BUSY, NOT_READY, STORE_GONE])
def test_an_update_is_sent_again_where_nothing_of_it_was_done(passing: Answer) -> None:
    with ScriptedServer(passing, passing, reply(done=True)) as server, Service(at(server.url)) as service:
        assert service.post("/v1/acls", {}) == {"done": True}
    assert len(server.seen) == 3


@pytest.mark.parametrize("lost", [TIMED_OUT, PROXY_PAGE, Answer(502), Answer(500), hang_up])
def test_an_update_whose_outcome_is_unknown_is_never_repeated(lost: Answer) -> None:
    with ScriptedServer(lost, reply(done=True)) as server:
        error = refusal(server)
    assert len(server.seen) == 1
    assert error.outcome_unknown
    assert "it is unknown whether the change was made" in str(error)


@pytest.mark.parametrize("lost", [TIMED_OUT, PROXY_PAGE, Answer(502), hang_up])
def test_what_only_reads_is_repeated_whatever_became_of_it(lost: Answer) -> None:
    with ScriptedServer(lost, reply(done=True)) as server, Service(at(server.url)) as service:
        assert service.post("/v1/acls/search", {}, idempotent=True) == {"done": True}


@pytest.mark.parametrize("idempotent", [True, False])
def test_an_unanswered_call_ends_at_its_deadline(*, idempotent: bool) -> None:
    with ScriptedServer(reply()) as server:
        server.script = [server.wait]
        error = refusal(server, idempotent=idempotent, timeout_s=0.3)
    assert error.outcome_unknown is not idempotent


def test_an_answer_that_drips_ends_at_the_deadline_too() -> None:
    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("content-length", "1000000")
        request.end_headers()
        while not server.release.wait(0.05):
            request.wfile.write(b" ")

    with ScriptedServer(drip) as server:
        error = refusal(server, idempotent=True, timeout_s=0.5)
    assert "did not answer in time" in str(error)


def test_repeats_end_at_the_deadline_with_the_last_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    # The last repeat is then over long before the deadline, and the next would be long behind it.
    monkeypatch.setattr(exchange, "random", SimpleNamespace(uniform=min))
    with ScriptedServer(NOT_READY) as server:
        error = refusal(server, timeout_s=3.0)
    assert (error.code, error.status) == ("AUTHORIZER_NOT_READY", 503)
    assert len(server.seen) > 1


def test_retry_after_is_honoured_and_not_waited_for_past_the_deadline() -> None:
    later = replace(BUSY, headers={"retry-after": "3600"})
    with ScriptedServer(later, reply()) as server:
        error = refusal(server, timeout_s=5.0)
    assert error.code == "OVERLOADED"
    assert len(server.seen) == 1


def test_a_refusal_is_one_line_with_kafka_s_name_and_every_field() -> None:
    fields = [{"pointer": "/bindings/0/host", "detail": "no such host"}, {"pointer": "", "detail": "too\nmuch\x1b[2J"}]
    with ScriptedServer(problem(400, "INVALID_REQUEST", "`/bindings/0/host`: no (1 more)", errors=fields)) as server:
        error = refusal(server)
    assert str(error) == "INVALID_REQUEST: `/bindings/0/host`: no such host; too\\nmuch\\x1b[2J"
    assert (error.code, error.status, error.outcome_unknown) == ("INVALID_REQUEST", 400, False)


def test_without_fields_the_detail_is_told() -> None:
    with ScriptedServer(problem(403, "CLUSTER_AUTHORIZATION_FAILED", "no right")) as server:
        told = str(refusal(server))
    assert told.startswith("CLUSTER_AUTHORIZATION_FAILED: no right; ")
    assert "--as" in told


def test_who_is_not_known_is_told_how_to_show_a_token() -> None:
    with ScriptedServer(problem(401, "SASL_AUTHENTICATION_FAILED", "who are you?")) as server:
        assert "--token-file" in str(refusal(server))


def test_redirects_are_not_followed() -> None:
    with ScriptedServer(reply(stolen=True)) as other:
        elsewhere = Answer(307, headers={"location": f"{other.url}/v1/acls"})
        with ScriptedServer(elsewhere) as server:
            error = refusal(server)
    assert "are not followed" in str(error)
    assert other.seen == []


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b"\xff", b"[" * 5000])
def test_an_answer_that_is_none_of_klamm_s_is_told_as_such(body: bytes) -> None:
    with ScriptedServer(Answer(body=body)) as server:
        assert "does not answer like Klamm" in str(refusal(server))


def test_an_answer_without_end_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MAX_REPLY_BYTES", 1000)
    with ScriptedServer(Answer(body=b"x" * 1001)) as server:
        assert "more than 1000 bytes" in str(refusal(server))


def test_nobody_listening_is_told_soon_and_as_unreachable(no_service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_CONNECT_PATIENCE_S", 0.3)
    with Service(at(no_service, 60.0)) as service, pytest.raises(ServiceError, match="connection refused"):
        service.get("/v1/acls/count")


def test_a_service_that_starts_again_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "klamm.sock"
    access = at(f"unix:{path}")
    with Service(access) as service:
        with ScriptedServer(reply(first=True), uds=path):
            service.get("/v1/acls/count")
        path.unlink()
        with ScriptedServer(reply(second=True), uds=path):
            assert service.post("/v1/acls", {}) == {"second": True}


def test_each_update_has_a_connection_of_its_own_and_reads_share_one() -> None:
    with ScriptedServer(reply()) as server, Service(at(server.url)) as service:
        for _ in range(3):
            service.post("/v1/acls", {})
        updates = {each.connection for each in server.seen}
        for _ in range(3):
            service.post("/v1/acls/search", {}, idempotent=True)
        reads = {each.connection for each in server.seen} - updates
    assert (len(updates), len(reads)) == (3, 1)


def test_a_token_is_shown_to_the_service_and_to_nobody_else(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    with ScriptedServer(reply(), problem(401, "SASL_AUTHENTICATION_FAILED", "no")) as server:
        access = replace(at(server.url), token_file=file)
        with Service(access) as service:
            service.get("/v1/acls/count")
            with pytest.raises(ServiceError) as caught:
                service.get("/v1/acls/count")
    assert server.seen[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in str(caught.value)
    assert TOKEN not in repr(replace(access, token=TOKEN))


def test_a_token_file_is_read_again_for_each_call(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    with ScriptedServer(reply()) as server, Service(replace(at(server.url), token_file=file)) as service:
        for token in ("first", "second"):
            file.write_text(token)
            service.get("/v1/acls/count")
    assert [each.headers["authorization"] for each in server.seen] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("text", ["", " \n", "two words", "two\nlines", f"{TOKEN}é", "x" * 20_000])
def test_a_file_that_holds_no_token_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    with Service(replace(at("http://127.0.0.1:1"), token_file=file)) as service, pytest.raises(UsageError) as caught:
        service.get("/v1/acls/count")
    assert "--token-file" in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert "words" not in str(caught.value)


def test_a_service_with_tls_is_believed_by_the_authority_given(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    served, client = authority.certify("server"), authority.certify("client", ["URI:spiffe://test/client"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(served.certificate, served.key)
    tls.load_verify_locations(authority.file)
    tls.verify_mode = ssl.CERT_REQUIRED
    with ScriptedServer(reply(ok=True), tls=tls) as server:
        access = replace(at(server.url), ca_file=authority.file, certificate=client.certificate, key=client.key)
        with Service(access) as service:
            assert service.get("/v1/acls/count") == {"ok": True}


def test_a_service_with_a_strange_certificate_is_not_spoken_to(tmp_path: Path) -> None:
    served = Authority(tmp_path / "other").certify("server")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(served.certificate, served.key)
    with ScriptedServer(reply(), tls=tls) as server:
        access = replace(at(server.url), ca_file=Authority(tmp_path).file, token=TOKEN)
        with Service(access) as service, pytest.raises(ServiceError, match="certificate is not trusted"):
            service.get("/v1/acls/count")
    assert server.seen == []


def test_files_that_are_no_certificates_are_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    good = Authority(tmp_path).certify("client", password=b"secret-of-the-key")
    access = at("https://127.0.0.1:1")
    for broken, named in (
        (replace(access, ca_file=empty), "empty.pem"),
        (replace(access, ca_file=tmp_path / "absent.pem"), "absent.pem"),
        (replace(access, certificate=good.certificate), "belong together"),
        (replace(access, certificate=good.certificate, key=good.key), "encrypted"),
        (replace(access, certificate=tmp_path / "absent.crt", key=good.key), "absent.crt"),
    ):
        with pytest.raises(UsageError, match=named):
            Service(broken)


def test_half_of_a_surrogate_pair_reaches_the_service_which_refuses_it() -> None:
    with ScriptedServer(reply()) as server, Service(at(server.url)) as service:
        service.post("/v1/acls", {"name": "\udc80"})
    assert json.dumps(server.seen[0].body["name"]) == '"\\udc80"'
