"""Authorities, certificates and keys for tests, made on the spot and written as PEM files."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)
_TEN_YEARS = timedelta(days=3650)
LOCAL = ("DNS:localhost", "IP:127.0.0.1")


@dataclass(frozen=True)
class Certified:
    """Two files: a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """One that signs certificates. `file` holds its own."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        certificate = _builder(self._name, self._key, _now() + _TEN_YEARS).issuer_name(self._name)
        certificate = certificate.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = certificate.add_extension(_KEY_CERT_SIGN, critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def certify(
        self,
        name: str,
        names: Sequence[str] = LOCAL,
        *,
        valid_for: timedelta = _DAY,
        common_name: str | None = None,
        password: bytes | None = None,
    ) -> Certified:
        """Write `name`.crt and `name`.key; `names` are `DNS:...`, `URI:...` and `IP:...`. Negative: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name if common_name is None else common_name), key, _now() + valid_for)
        builder = builder.issuer_name(self._name)
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general(each) for each in names]), critical=False
            )
        certified = Certified(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        certified.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        certified.key.write_bytes(_private_pem(key, password))
        # PostgreSQL refuses a key that others may read.
        certified.key.chmod(0o600)
        return certified


_KEY_CERT_SIGN = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey, ends_at: datetime) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=ends_at - _TEN_YEARS - _DAY,
        not_valid_after=ends_at,
    )


def _now() -> datetime:
    return datetime.now(tz=UTC)  # noqa: TID251 - certificates are dated by the wall clock


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(name: str) -> x509.GeneralName:
    kind, _, value = name.partition(":")
    if kind == "IP":
        return x509.IPAddress(ip_address(value))
    return x509.DNSName(value) if kind == "DNS" else x509.UniformResourceIdentifier(value)


def _private_pem(key: ec.EllipticCurvePrivateKey, password: bytes | None) -> bytes:
    encryption: KeySerializationEncryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
