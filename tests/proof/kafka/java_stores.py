"""Certificates and keys in the files that Java reads."""

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)

from tests.certificates import Authority, Certified
from tests.planted import plant

PASSWORD = plant("of-both-keystores")
_ENCRYPTED = BestAvailableEncryption(PASSWORD.encode())


def trust_store(authority: Authority, folder: Path) -> Path:
    """A file by which this authority is trusted."""
    path = folder / "trust.p12"
    trusted = PKCS12Certificate(x509.load_pem_x509_certificate(authority.file.read_bytes()), b"authority")
    path.write_bytes(serialize_java_truststore([trusted], _ENCRYPTED))
    return path


def key_store(shown: Certified, folder: Path) -> Path:
    """A file with a client's certificate and key."""
    path = folder / "own.p12"
    key = load_pem_private_key(shown.key.read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(shown.certificate.read_bytes())
    path.write_bytes(serialize_key_and_certificates(b"broker", key, certificate, None, _ENCRYPTED))  # type: ignore[arg-type]  # EC, which it takes
    return path
