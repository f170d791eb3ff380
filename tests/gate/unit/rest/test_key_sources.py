"""Where keys are read: files that change, and servers that behave well or badly."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from app.rest.callers import key_sets
from app.rest.callers.certificates import server_context
from app.rest.callers.key_sets import FileSource, KeySet, UrlSource, key_source
from app.rest.callers.signing_keys import KeySetError
from tests.certificates import Authority
from tests.issuers import Key, key_set
from tests.key_server import KeyServer
from tests.klamm import until

OLD, NEW = Key("old"), Key("new")


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with KeyServer(key_set(OLD)) as running:
        yield running


async def fault_of(source: UrlSource | FileSource) -> str:
    with pytest.raises(KeySetError) as fault:
        await source.read()
    return str(fault.value)


def plain(server: KeyServer) -> UrlSource:
    return UrlSource(server.url, None, None)


# a URL


async def test_keys_come_from_a_url(server: KeyServer) -> None:
    keys = await plain(server).read()
    assert keys.knows("old")
    assert "authorization" not in server.seen[0]


@pytest.mark.parametrize("media_type", ["application/jwk-set+json", "application/json"])
async def test_servers_that_have_one_media_type_only_are_taken(server: KeyServer, media_type: str) -> None:
    server.media_type = media_type
    assert (await plain(server).read()).knows("old")


async def test_the_bearer_is_read_at_each_fetch(server: KeyServer, tmp_path: Path) -> None:
    bearer = tmp_path / "token"
    source = UrlSource(server.url, None, bearer)
    for token in ("first", "second"):
        bearer.write_text(f"{token}\n")
        await source.read()
    assert [each["authorization"] for each in server.seen] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"line\r\nx-injected: 1", b"\xff\xfe", b"x" * 20_000])
async def test_a_bearer_that_is_none_is_not_sent_and_not_told(
    server: KeyServer, tmp_path: Path, content: bytes
) -> None:
    bearer = tmp_path / "token"
    bearer.write_bytes(content)
    assert await fault_of(UrlSource(server.url, None, bearer)) == f"`{bearer}` contains no bearer token"
    assert server.seen == []


def test_the_files_that_a_look_needs_are_told() -> None:
    source = key_source("https://a.example/keys?x=1", ca_file=Path("ca.pem"), bearer_file=Path("token"))
    assert (source.name, source.files) == (
        "https://a.example/keys",
        {"ca_file": "ca.pem", "bearer_file": "token"},
    )
    assert key_source("keys.json").files == {}


async def test_a_bearer_file_that_is_missing_is_named(server: KeyServer, tmp_path: Path) -> None:
    fault = await fault_of(UrlSource(server.url, None, tmp_path / "token"))
    assert fault == f"`{tmp_path / 'token'}` can't be read (No such file or directory)"


@pytest.mark.parametrize("status", [204, 401, 403, 404, 500, 503])
async def test_a_status_that_is_not_200_is_a_failure(server: KeyServer, status: int) -> None:
    server.status = status
    assert await fault_of(plain(server)) == f"it answered with status {status}"


async def test_redirects_are_not_followed(server: KeyServer) -> None:
    with KeyServer(key_set(NEW)) as elsewhere:
        server.status, server.headers = 302, {"location": elsewhere.url}
        assert await fault_of(plain(server)) == "it answered with status 302"
        assert elsewhere.seen == []


async def test_what_is_no_set_of_keys_is_a_failure(server: KeyServer) -> None:
    server.body = b"<html>It works!</html>"
    assert await fault_of(plain(server)) == "it is not JSON"


@pytest.mark.parametrize("announced", [True, False])
async def test_a_huge_answer_is_cut_off(server: KeyServer, announced: bool) -> None:  # noqa: FBT001 - a parameter
    sent = 0

    def flood(request: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        request.send_response(200)
        if announced:
            request.send_header("content-length", str(1 << 30))
        request.end_headers()
        with suppress(OSError):
            while sent < 1 << 30:
                request.wfile.write(b" " * 65_536)
                sent += 65_536

    server.misbehave = flood
    assert await fault_of(plain(server)) == f"it answered with more than {256 * 1024} bytes"
    assert sent < 1 << 26


async def test_a_compressed_answer_is_refused_for_it_may_be_any_size(server: KeyServer) -> None:
    server.headers = {"content-encoding": "gzip"}
    assert await fault_of(plain(server)) == "it sent a compressed answer, which was not requested"
    assert server.seen[0]["accept-encoding"] == "identity"


def say_nothing(_: BaseHTTPRequestHandler, done: threading.Event) -> None:
    done.wait(30)


def drip(request: BaseHTTPRequestHandler, done: threading.Event) -> None:
    request.send_response(200)
    request.end_headers()
    with suppress(OSError):
        while not done.wait(0.05):
            request.wfile.write(b" ")
            request.wfile.flush()


@pytest.mark.parametrize("slowness", [say_nothing, drip])
async def test_a_slow_server_is_given_up(
    server: KeyServer,
    monkeypatch: pytest.MonkeyPatch,
    slowness: Callable[[BaseHTTPRequestHandler, threading.Event], None],
) -> None:
    assert key_sets._FETCH_S <= 3
    monkeypatch.setattr(key_sets, "_FETCH_S", 0.3)
    done = threading.Event()
    server.misbehave = lambda request: slowness(request, done)
    try:
        assert await fault_of(plain(server)) == "it did not answer within 0.3 s"
    finally:
        done.set()


async def test_a_server_that_hangs_up_or_is_not_there_is_a_failure(server: KeyServer) -> None:
    server.misbehave = lambda request: request.connection.close()
    assert "it can't be reached" in await fault_of(plain(server))
    assert "it can't be reached" in await fault_of(UrlSource("http://127.0.0.1:1/", None, None))


async def test_proxies_of_the_environment_are_not_asked(server: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await plain(server).read()).knows("old")


# TLS


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def tls_server(authority: Authority) -> Iterator[KeyServer]:
    mine = authority.certify("server")
    with KeyServer(key_set(OLD), server_context(mine.certificate, mine.key)) as running:
        yield running


async def test_the_server_is_trusted_by_the_ca_file(tls_server: KeyServer, authority: Authority) -> None:
    assert (await UrlSource(tls_server.url, authority.file, None).read()).knows("old")


@pytest.mark.parametrize("other", [True, False])
async def test_a_server_that_nobody_vouches_for_is_not_asked(
    tls_server: KeyServer,
    tmp_path: Path,
    other: bool,  # noqa: FBT001 - a parameter
) -> None:
    bearer = tmp_path / "bearer"
    bearer.write_text("planted-secret")
    ca_file = Authority(tmp_path / "other").file if other else None
    fault = await fault_of(UrlSource(tls_server.url, ca_file, bearer))
    assert "CERTIFICATE_VERIFY_FAILED" in fault
    assert "planted" not in fault
    assert tls_server.seen == []


async def test_a_certificate_for_another_host_is_not_trusted(authority: Authority) -> None:
    mine = authority.certify("server", ["DNS:keys.example.com"])
    with KeyServer(key_set(OLD), server_context(mine.certificate, mine.key)) as server:
        assert "CERTIFICATE_VERIFY_FAILED" in await fault_of(UrlSource(server.url, authority.file, None))


async def test_a_ca_file_that_is_none_is_named(tls_server: KeyServer, tmp_path: Path) -> None:
    broken = tmp_path / "ca.pem"
    broken.write_text("no certificate")
    assert f"`{broken}` contains no readable certificates" in await fault_of(UrlSource(tls_server.url, broken, None))
    assert "No such file" in await fault_of(UrlSource(tls_server.url, tmp_path / "missing", None))


# a file


async def test_a_file_is_read_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(OLD))
    source = FileSource(path)
    first = await source.read()
    assert first is not None
    assert first.knows("old")
    assert await source.read() is None
    path.write_bytes(key_set(OLD, NEW))
    second = await source.read()
    assert second is not None
    assert second.knows("new")


async def test_a_file_that_is_broken_is_read_until_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    source = FileSource(path)
    assert await fault_of(source) == f"`{path}` can't be read (No such file or directory)"
    path.write_bytes(key_set(OLD)[:-5])
    assert await fault_of(source) == "it is not JSON"
    assert await fault_of(source) == "it is not JSON"
    path.write_bytes(key_set(OLD))
    assert (await source.read()) is not None


async def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b" " * (256 * 1024 + 1))
    assert await fault_of(FileSource(path)) == f"`{path}` has more than {256 * 1024} bytes"


# which of the two


def test_keys_come_from_no_other_place(subtests: pytest.Subtests) -> None:
    for url in [
        "http://issuer.example/keys",
        "http://10.0.0.1/keys",
        "http://127.0.0.1.example/keys",
        "http:///keys",
        "https:///keys",
        "ftp://127.0.0.1/keys",
        "file:///etc/keys",
        "https://user:password@issuer.example/keys",
        "https://user@issuer.example/keys",
    ]:
        with subtests.test(url=url):
            with pytest.raises(ValueError, match=r"a file or an https URL|bearer_file") as refusal:
                KeySet(url)
            assert "password@" not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["https://issuer.example/keys", "http://127.0.0.1:1/keys", "http://[::1]/keys", "http://localhost/keys"]
)
def test_https_anywhere_and_http_on_loopback_are_urls(url: str) -> None:
    assert isinstance(key_source(url), UrlSource)


def test_all_else_is_a_file() -> None:
    assert isinstance(key_source("keys/jwks.json"), FileSource)


def test_the_name_for_the_log_has_no_query() -> None:
    assert key_source("https://issuer.example/keys?token=planted").name == "https://issuer.example/keys"


# both together


async def test_rotation_at_a_url_is_followed_by_a_look_for_the_unknown_key(server: KeyServer) -> None:
    keys = KeySet(server.url)
    keys.open()
    try:
        await keys.refresh()
        server.body = key_set(NEW)
        await keys.look_again()
        assert keys.key("new", "ES256") is not None
        assert keys.key("old", "ES256") is None
    finally:
        await keys.close()


async def test_rotation_of_a_file_is_followed_within_a_second_or_so(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(OLD))
    keys = KeySet(str(path))
    assert keys._source.each_s == 1
    keys.open()
    try:
        await keys.refresh()
        path.write_bytes(key_set(NEW))
        await until(lambda: keys.key("new", "ES256") is not None)
        assert keys.key("old", "ES256") is None
        assert keys.generation == 2
    finally:
        await keys.close()
