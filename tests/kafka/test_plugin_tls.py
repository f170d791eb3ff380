"""The OPA plugin where callers are configured: it sends no token, but the JVM's own client certificate proves it."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)

from tests.certificates import Authority, Certified
from tests.e2e.service import PATIENCE_S, Service
from tests.kafka.jars import Kafka
from tests.kafka.plugin import Plugin
from tests.planted import plant
from tests.unit.rest.opa_bodies import OPA_PATH

_PASSWORD = plant("of-both-keystores")
_ENCRYPTED = BestAvailableEncryption(_PASSWORD.encode())
_TOML = """
tls.certificate = "server.crt"
tls.key = "server.key"
tls.client.ca = "authority.pem"

[callers.brokers]
role = "decide"
principals = ["User:*"]
certificate = "DNS:broker.example"
"""


def _flags(store: str, path: Path) -> tuple[str, ...]:
    own = f"-Djavax.net.ssl.{store}"
    return (f"{own}={path}", f"{own}Password={_PASSWORD}", f"{own}Type=PKCS12")


def _trust(authority: Authority, folder: Path) -> tuple[str, ...]:
    path = folder / "trust.p12"
    trusted = PKCS12Certificate(x509.load_pem_x509_certificate(authority.file.read_bytes()), b"authority")
    path.write_bytes(serialize_java_truststore([trusted], _ENCRYPTED))
    return _flags("trustStore", path)


def _proof(shown: Certified, folder: Path) -> tuple[str, ...]:
    path = folder / "own.p12"
    key = load_pem_private_key(shown.key.read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(shown.certificate.read_bytes())
    path.write_bytes(serialize_key_and_certificates(b"broker", key, certificate, None, _ENCRYPTED))  # type: ignore[arg-type]  # EC, which it takes
    return _flags("keyStore", path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def service(kafka: Kafka, authority: Authority, tmp_path: Path) -> Iterator[Service]:
    assert kafka
    authority.certify("server")
    (tmp_path / "klamm.toml").write_text(_TOML)
    with Service(["--data-dir", "data"], folder=tmp_path) as running:
        running.http.close()
        trust = ssl.create_default_context(cafile=authority.file)
        running.http = httpx.Client(base_url=running.url, timeout=PATIENCE_S, verify=trust)
        yield running.ready()


def test_a_broker_with_a_certificate_is_a_caller(
    kafka: Kafka, service: Service, authority: Authority, tmp_path: Path
) -> None:
    trust = _trust(authority, tmp_path)
    proof = _proof(authority.certify("broker", ["DNS:broker.example"]), tmp_path)
    url = f"{service.url}{OPA_PATH}"
    with Plugin(kafka, *trust, *proof) as known, Plugin(kafka, *trust) as stranger:
        assert known.ask(url) == "DENIED"
        assert known.ask(url, principal="User:admin") == "ALLOWED", "an error: it may not speak for super users"
        assert stranger.ask(url) == "ALLOWED", "an error: it is not known"
