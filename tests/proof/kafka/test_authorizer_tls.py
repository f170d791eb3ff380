"""The broker's own authorizer over TLS: it shows its certificate, and believes no server but the one that it knows."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.certificates import Authority
from tests.fake_upstream import Told
from tests.klamm import LIMIT_S, Process, over_socket, wait_until
from tests.proof.kafka.authorizer import Authorizer, Host
from tests.proof.kafka.java_stores import PASSWORD, key_store, trust_store
from tests.proof.kafka.upstream import repeating
from tests.scripted_server import ScriptedServer

_NOT_READY = "org.apache.kafka.common.errors.AuthorizerNotReadyException"
_TOML = """
tls.certificate = "server.crt"
tls.key = "server.key"
tls.client.ca = "authority.pem"

[callers.kafka]
role = "follow"
certificate = "DNS:broker.example"
"""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def service(authorizer: Authorizer, authority: Authority, tmp_path: Path) -> Iterator[Process]:
    assert authorizer
    authority.certify("server")
    (tmp_path / "klamm.toml").write_text(_TOML)
    with over_socket("--data-dir", "data", folder=tmp_path) as running:
        running.http.close()
        trust = ssl.create_default_context(cafile=authority.file)
        running.http = httpx.Client(base_url=running.url, timeout=LIMIT_S, verify=trust)
        yield running.ready()


def _settings(kind: str, path: Path) -> dict[str, str]:
    return {f"klamm_{kind}_location": str(path), f"klamm_{kind}_password": PASSWORD}


def test_it_follows_by_its_certificate_and_no_server_that_nobody_vouches_for(
    authorizer: Authorizer, service: Process, authority: Authority, tmp_path: Path
) -> None:
    trust = _settings("truststore", trust_store(authority, tmp_path))
    proof = _settings("keystore", key_store(authority.certify("broker", ["DNS:broker.example"]), tmp_path))
    with Host(authorizer, tmp_path, klamm_urls=service.url, **trust, **proof) as host:
        wait_until(lambda: host.reads("a") == "DENIED", "it follows")
    for settings in (trust, proof):
        with Host(authorizer, tmp_path, klamm_urls=service.url, **settings) as host:
            wait_until(lambda host=host: int(host.do("figures").split()[2]) > 1, "it has tried twice")  # type: ignore[misc]
            assert host.reads("a") == _NOT_READY


def test_a_certificate_of_another_name_is_refused(authorizer: Authorizer, authority: Authority, tmp_path: Path) -> None:
    told = Told()
    trust = _settings("truststore", trust_store(authority, tmp_path))
    stream = repeating([*told.snapshot(), told.bookmark()], told.bookmark)
    for names, answer in ((["DNS:other.example"], _NOT_READY), (["IP:127.0.0.1"], "ALLOWED")):
        shown = authority.certify("server", names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(shown.certificate, shown.key)
        with (
            ScriptedServer(stream, tls=context) as server,
            Host(authorizer, tmp_path, klamm_urls=server.url, **trust) as host,
        ):
            wait_until(lambda host=host: int(host.do("figures").split()[2]) > 0, "it has tried")  # type: ignore[misc]
            host.becomes("orders", answer)
            assert bool(server.seen) == (answer == "ALLOWED")


def test_no_refusal_of_a_setting_shows_a_password(authorizer: Authorizer, authority: Authority, tmp_path: Path) -> None:
    trust = trust_store(authority, tmp_path)
    settings = {"klamm_truststore_location": str(trust), "klamm_truststore_password": "wrong-planted-word"}
    with Host(authorizer, tmp_path, klamm_urls="https://127.0.0.1:9", **settings) as host:
        assert host.began.startswith("refused: `klamm.truststore.*` and `klamm.keystore.*` can't be used")
        assert "wrong-planted-word" not in host.began
