"""A service without callers, on loopback: what a web page in a browser on the same machine can reach of it."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.gate.e2e.test_callers import ALICE, body_of, routes
from tests.klamm import LIMIT_S, Process, over_socket
from tests.postgres import Postgres
from tests.raw import exchange, received

NEED_NO_CALLER = {"livez", "readyz", "readyzListener", "startupz", "index", "openapi", "docs"}
_HOST = b"Host: localhost\r\n"


class Request(NamedTuple):
    operation: str
    method: str
    target: str
    body: bytes

    def text(self, headers: bytes, *, before: str = "", version: str = "1.1") -> bytes:
        """With these headers, and this in front of the target's path."""
        line = f"{self.method} {before}{self.target} HTTP/{version}\r\n".encode()
        length = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(self.body) if self.body else b""
        return line + headers + length + b"Connection: close\r\n\r\n" + self.body


def requests() -> list[Request]:
    """One for each operation; watch's would not end if it were let in."""
    found = []
    for operation, (method, path) in routes().items():
        target = path.replace("{id}", "00000000-0000-4000-8000-000000000000").replace("{listener_name}", "CLIENT")
        target += "?snapshot=true" if operation == "watch" else ""
        body = json.dumps(body_of(operation, ALICE)).encode() if method == "POST" else b""
        found.append(Request(operation, method, target, body))
    return found


REQUESTS = {each.operation: each for each in requests()}
CONFIGS, AUTHORIZE = REQUESTS["describeConfigs"], REQUESTS["authorize"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Process]:
    with over_socket(
        settings={"KLAMM_DATABASE_URL": postgres.new_store()}, folder=tmp_path_factory.mktemp("open")
    ) as service:
        yield service.ready()


def status_of(service: Process, request: bytes) -> int:
    return int(exchange(service, request, then_close=False)[9:12])


@pytest.mark.parametrize("operation", REQUESTS)
def test_no_route_answers_a_page_whose_site_rebinds_its_name(service: Process, operation: str) -> None:
    reply = exchange(service, REQUESTS[operation].text(b"Host: evil.example:8080\r\n"), then_close=False)
    status, _, text = int(reply[9:12]), *reply.partition(b"\r\n\r\n")[1:]
    if operation in NEED_NO_CALLER:
        assert status == 200
        return
    assert status == 403
    if operation == "console":
        assert b"evil.example:8080" in text
    else:
        assert b"application/problem+json" in reply
        problem = json.loads(text)
        assert problem["code"] == "CLUSTER_AUTHORIZATION_FAILED"
        assert "`Host` is `evil.example:8080`" in problem["detail"]
        assert "configure callers" in problem["detail"]


@pytest.mark.parametrize("operation", sorted(REQUESTS.keys() - NEED_NO_CALLER))
def test_no_route_answers_a_page_of_another_site(service: Process, operation: str) -> None:
    for header in (b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Site: same-site", b"Origin: http://evil.example"):
        assert status_of(service, REQUESTS[operation].text(_HOST + header + b"\r\n")) == 403, header


def test_odd_spellings_of_a_host(subtests: pytest.Subtests, service: Process) -> None:
    for headers, status in [
        ((b"LOCALHOST:8080",), 200),
        ((b"[::1]:8080",), 200),
        ((b"[fe80::1%25eth0]",), 200),
        ((b"0.0.0.0",), 200),
        ((b"localhost.",), 403),
        ((b"2130706433",), 403),
        ((b"0x7f.1",), 403),
        ((b"127.1",), 403),
        ((b"",), 403),
        ((b"[127.0.0.1]",), 403),
        ((b"user@localhost",), 400),
        ((b"localhost:8080@evil.example",), 400),
        ((b"localhost:x",), 400),
        ((b"::1",), 400),
        ((b"localhost", b"evil.example"), 400),
        ((b"evil.example", b"localhost"), 400),
        ((), 400),
    ]:
        with subtests.test(headers=headers, status=status):
            hosts = b"".join(b"Host: %b\r\n" % each for each in headers)
            for request in (CONFIGS, AUTHORIZE):
                # The second time, the service knows the head.
                assert [status_of(service, request.text(hosts)) for _ in range(2)] == [status] * 2


def test_a_request_of_http_1_0_needs_a_host_too(service: Process) -> None:
    for request in (CONFIGS, AUTHORIZE):
        assert status_of(service, request.text(b"", version="1.0")) == 403
        assert status_of(service, request.text(b"Host: evil.example\r\n", version="1.0")) == 403
        assert status_of(service, request.text(_HOST, version="1.0")) == 200


def test_the_host_of_the_target_counts_and_not_the_header(subtests: pytest.Subtests, service: Process) -> None:
    for before, host, status in [
        ("http://evil.example", b"localhost", 403),
        ("http://localhost", b"evil.example", 200),
        ("http://127.0.0.1:8080", b"127.0.0.1:8080", 200),
        ("http://localhost@evil.example", b"localhost", 403),
        ("HTTP://EVIL.example:80", b"localhost", 403),
    ]:
        with subtests.test(before=before, host=host, status=status):
            for request in (CONFIGS, AUTHORIZE):
                assert status_of(service, request.text(b"Host: %b\r\n" % host, before=before)) == status


def test_what_a_browser_says_of_who_asks(subtests: pytest.Subtests, service: Process) -> None:
    for headers, status in [
        (b"Sec-Fetch-Site: none\r\n", 200),
        (b"Sec-Fetch-Site: same-origin\r\n", 200),
        (b"Sec-Fetch-Site: same-origin\r\nOrigin: http://localhost\r\n", 200),
        (b"Sec-Fetch-Site: same-origin\r\nOrigin: http://localhost:3000\r\n", 403),
        (b"Sec-Fetch-Site: Same-Origin\r\n", 403),
        (b"Sec-Fetch-Site: none;q=1\r\n", 403),
        (b"Sec-Fetch-Site:\r\n", 403),
        (b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Site: none\r\n", 403),
        (b"Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n", 403),
        (b"SEC-FETCH-SITE: cross-site\r\n", 403),
    ]:
        with subtests.test(headers=headers, status=status):
            for request in (CONFIGS, AUTHORIZE):
                assert status_of(service, request.text(_HOST + headers)) == status


def test_a_stream_ends_for_nobody_it_was_opened_for(service: Process) -> None:
    """Who asks is looked at again each second; a stream that a browser page of the service reads goes on."""
    headers = {"sec-fetch-site": "same-origin"}
    with service.http.stream("GET", "/v1/watch?snapshot=true&bookmark_ms=1000", headers=headers) as reply:
        assert reply.status_code == 200
        lines = reply.iter_lines()
        found = [re.search(r'"type":"(\w+)"', next(lines)) for _ in range(6)]
    assert not [each for each in found if each is not None and each[1] == "end"]


def test_over_a_unix_socket_any_host_is_answered(tmp_path: Path, postgres: Postgres) -> None:
    path = tmp_path / "klamm.sock"
    with over_socket("--uds", str(path), settings={"KLAMM_DATABASE_URL": postgres.new_store()}, folder=tmp_path):
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(path)), base_url="http://klamm", timeout=LIMIT_S
        ) as client:
            assert client.get("/v1/configs").status_code == 200
            assert client.get("/v1/configs", headers={"sec-fetch-site": "cross-site"}).status_code == 200
            assert client.get("/v1/configs", headers={"origin": "http://evil.example"}).status_code == 403
            assert client.get("/console").status_code == 200
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LIMIT_S)
            connection.connect(str(path))
            connection.sendall(CONFIGS.text(b"", version="1.0"))
            assert received(connection)[9:12] == b"200"
