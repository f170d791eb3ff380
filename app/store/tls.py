"""TLS to PostgreSQL: what a database URL asks for, and what went wrong, with the way out.

As in libpq, with one difference: a URL that leads to another machine and names no sslmode means verify-full. The driver
would take that for `prefer`, which silently falls back to plain text, and it does not know the system's CAs.
"""

import asyncio
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, cast

import asyncpg

from app.core.kafka.errors import StoreUnavailableException
from app.formats.database_url import DatabaseUrl

UncheckedMode: TypeAlias = Literal["disable", "allow", "prefer"]
"""Modes that prove nothing about the server, which the driver handles itself."""

_UNCHECKED = ("disable", "allow", "prefer")
_SYSTEM = "system"
_VERSIONS: Mapping[str, ssl.TLSVersion] = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_NOT_OFFERED = (
    "PostgreSQL does not offer TLS; turn it on there (ssl = on) or, if the network is safe without it, set "
    "sslmode=disable in `database.url`"
)
_NOT_TRUSTED = (
    "PostgreSQL's certificate is not trusted ({}); name the file of the CA that signed it in `database.url`: "
    "sslrootcert=FILE"
)

HUNG_UP = (
    "PostgreSQL closed the connection before the session began; retry, and if it happens again, check its log: it may "
    "require another client certificate (sslcert)"
)
"""A server may refuse a client's certificate only after the handshake, and its reason is often lost on the way."""

_ANSWERS_BY_VERIFY_CODE = {
    9: "PostgreSQL's certificate is not valid yet; check the clocks, or give the server another certificate",
    10: "PostgreSQL's certificate has expired; give the server a new one",
    23: "PostgreSQL's certificate has been revoked; give the server a new one",
    62: (
        "PostgreSQL's certificate is for another name than the host of `database.url`; use a name that is in the "
        "certificate"
    ),
    64: (
        "PostgreSQL's certificate is for another address than the host of `database.url`; use a name that is in the "
        "certificate"
    ),
}
"""Texts by OpenSSL's X509_V_ERR_... numbers."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    mode: str
    root_certificate: str | None = None
    certificate: str | None = None
    key: str | None = None
    revocation_list: str | None = None
    password: str = field(default="", repr=False)
    minimum: str = "TLSv1.2"
    maximum: str | None = None

    @property
    def files(self) -> Mapping[str, str]:
        root = self.root_certificate
        if root == _SYSTEM or (root is None and self.mode == "verify-full"):
            root = ssl.get_default_verify_paths().cafile
        named = {"sslrootcert": root, "sslcert": self.certificate, "sslkey": self.key, "sslcrl": self.revocation_list}
        return {option: name for option, name in named.items() if name is not None}


def options_of(url: DatabaseUrl) -> TlsOptions:
    """The TLS options of this URL; files that it leaves out come from ~/.postgresql."""
    given = url.options
    certificate = _file(given, "sslcert", "postgresql.crt")
    options = TlsOptions(
        mode=given.get("sslmode") or ("prefer" if url.is_local else "verify-full"),
        root_certificate=_file(given, "sslrootcert", "root.crt"),
        certificate=certificate,
        key=_file(given, "sslkey", "postgresql.key") if certificate else None,
        revocation_list=_file(given, "sslcrl", "root.crl"),
        password=given.get("sslpassword", ""),
        minimum=given.get("ssl_min_protocol_version", "TLSv1.2"),
        maximum=given.get("ssl_max_protocol_version"),
    )
    if options.mode == "verify-ca" and options.root_certificate is None:
        raise StoreUnavailableException(
            "sslmode=verify-ca of `database.url` needs a CA: name its file, sslrootcert=FILE"
        )
    return options


async def tls_of(url: DatabaseUrl) -> ssl.SSLContext | UncheckedMode:
    """The driver's argument `ssl`. Raises StoreUnavailableException."""
    options = options_of(url)
    if options.mode in _UNCHECKED:
        return cast("UncheckedMode", options.mode)
    # Files are read again only after they changed, so that certificates rotate without a restart; and off the event
    # loop, which a system's hundred and fifty CAs would block.
    return await asyncio.to_thread(_context_now, options)


def answer_to_tls_fault(fault: BaseException) -> str | None:
    """What to tell the caller if this is a fault of TLS; nothing of the URL, as a typo can make it the password."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        known = _ANSWERS_BY_VERIFY_CODE.get(fault.verify_code)
        return known or _NOT_TRUSTED.format(fault.verify_message)
    if isinstance(fault, ssl.SSLError):
        return f"the TLS handshake with PostgreSQL failed ({_reason(fault)}); check its log, sslcert and sslkey"
    if isinstance(fault, asyncpg.ConnectionDoesNotExistError) and isinstance(fault.__cause__, ssl.SSLError):
        return answer_to_tls_fault(fault.__cause__)
    # The driver's own words for the server's `N`; it has no class for it.
    if isinstance(fault, ConnectionError) and "rejected SSL upgrade" in str(fault):
        return _NOT_OFFERED
    return None


def _file(given: Mapping[str, str], name: str, at_home: str) -> str | None:
    if name in given:
        return given[name]
    try:
        path = Path.home() / ".postgresql" / at_home
    except (RuntimeError, KeyError):  # a container's user may have no home
        return None
    return str(path) if path.is_file() else None


def _context_now(options: TlsOptions) -> ssl.SSLContext:
    stamps = []
    for option, name in options.files.items():
        with _translated_file_faults(option):
            found = Path(name).stat()
        stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return _context(options, tuple(stamps))


@lru_cache(maxsize=8)
def _context(options: TlsOptions, _stamps: Sequence[tuple[int, ...]]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.mode == "verify-full"
    context.minimum_version = _VERSIONS[options.minimum]
    if options.maximum is not None:
        context.maximum_version = _VERSIONS[options.maximum]
    context.set_alpn_protocols(["postgresql"])
    if options.root_certificate not in (None, _SYSTEM):
        with _translated_file_faults("sslrootcert"):
            context.load_verify_locations(cafile=options.root_certificate)
    elif options.mode == "verify-full":
        context.load_default_certs()
    else:
        # sslmode=require without a CA: encrypted, but the server is not authenticated.
        context.verify_mode = ssl.CERT_NONE
    if options.revocation_list is not None:
        with _translated_file_faults("sslcrl"):
            context.load_verify_locations(cafile=options.revocation_list)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    if options.certificate is not None:
        with _translated_file_faults("sslcert or sslkey"):
            # Without a password to give, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(options.certificate, options.key, password=lambda: options.password)
    return context


@contextmanager
def _translated_file_faults(option: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:  # which ssl.SSLError is, too
        raise StoreUnavailableException(
            f"the file that {option} of `database.url` names can't be used ({_reason(fault)})"
        ) from None


def _reason(fault: OSError) -> str:
    why: str | None = getattr(fault, "reason", None) if isinstance(fault, ssl.SSLError) else fault.strerror
    return (why or "no reason given").replace("_", " ").lower()
