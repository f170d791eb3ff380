"""TLS on the way to PostgreSQL: what a database URL asks for, and what went wrong, in words that name the way out.

As libpq has it, with one difference: a URL that leads to another machine and names no sslmode means verify-full. The
driver would take `prefer` for it, which falls back to plain text without a word, and knows the system's CAs not at all.
"""

import asyncio
import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, cast
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from app.core.kafka.errors import StoreUnavailableException
from app.core.kafka.hosts import is_loopback

UncheckedMode: TypeAlias = Literal["disable", "allow", "prefer"]
"""Modes that prove nothing about the server; the driver knows how to try one way and then the other."""

_UNCHECKED = ("disable", "allow", "prefer")
_CHECKED = ("require", "verify-ca", "verify-full")
_SYSTEM = "system"
_ALPN = "postgresql"
_VERSIONS: Mapping[str, ssl.TLSVersion] = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_NOT_OFFERED = (
    "PostgreSQL offers no TLS; turn it on there (ssl = on), or, if the way to it is safe without, say sslmode=disable "
    "in `database.url`"
)
_NOT_TRUSTED = (
    "PostgreSQL's certificate is not trusted ({}); name the file of the CA that signed it in `database.url`: "
    "sslrootcert=FILE"
)

HUNG_UP = (
    "PostgreSQL hung up before the session began; retry, and if it stays, look into its log: it may want another "
    "client certificate (sslcert)"
)
"""A server may refuse a client's certificate only after the handshake, and its reason is often lost on the way."""

_ANSWERS_BY_VERIFY_CODE = {
    9: "PostgreSQL's certificate is not valid yet; look at the clocks, or give the server another",
    10: "PostgreSQL's certificate has expired; give the server a new one",
    23: "PostgreSQL's certificate has been revoked; give the server a new one",
    62: "PostgreSQL's certificate is for another name than the host of `database.url`; use a name that it bears",
    64: "PostgreSQL's certificate is for another address than the host of `database.url`; use a name that it bears",
}
"""By OpenSSL's X509_V_ERR_... numbers."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """What a database URL says about TLS. Files are None where neither the URL nor the environment names one."""

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
        """What the context is made of, by the name of the option."""
        root = self.root_certificate
        if root == _SYSTEM or (root is None and self.mode == "verify-full"):
            root = ssl.get_default_verify_paths().cafile
        named = {"sslrootcert": root, "sslcert": self.certificate, "sslkey": self.key, "sslcrl": self.revocation_list}
        return {option: name for option, name in named.items() if name is not None}


def is_local(host: str) -> bool:
    """Whether a connection to this host can't leave the machine: a Unix socket, `localhost`, a loopback address."""
    return host == "" or host.startswith("/") or is_loopback(host)


def hosts_of(dsn: str) -> list[str]:
    """Every host that the driver may try for this URL. A service's host is in a file: `service` stands for it."""
    query = _query(dsn)
    # Cut where the driver cuts.
    listed = urlsplit(dsn).netloc
    listed = listed.partition("@")[2] if "@" in listed else listed
    if listed:
        return [unquote(_host(each)) for each in listed.split(",")]
    if query.get("host"):
        return [_host(each) for each in query["host"].split(",")]
    if "service" in query or os.environ.get("PGSERVICE"):
        return ["service"]
    return [_host(each) for each in os.environ.get("PGHOST", "").split(",")]


def options_of(dsn: str) -> TlsOptions:
    """The TLS options of this URL; what it leaves out comes from PostgreSQL's variables and ~/.postgresql.

    Raises StoreUnavailableException for what can't be meant.
    """
    query = _query(dsn)
    mode = query.get("sslmode") or os.environ.get("PGSSLMODE")
    if not mode:
        mode = "prefer" if all(is_local(host) for host in hosts_of(dsn)) else "verify-full"
    if mode not in (*_UNCHECKED, *_CHECKED):
        raise StoreUnavailableException(f"sslmode of `database.url` must be one of {', '.join(_UNCHECKED + _CHECKED)}")
    certificate = _file(query, "sslcert", "postgresql.crt")
    options = TlsOptions(
        mode,
        root_certificate=_file(query, "sslrootcert", "root.crt"),
        certificate=certificate,
        key=_file(query, "sslkey", "postgresql.key") if certificate else None,
        revocation_list=_file(query, "sslcrl", "root.crl"),
        password=query.get("sslpassword", ""),
        minimum=query.get("ssl_min_protocol_version", "TLSv1.2"),
        maximum=query.get("ssl_max_protocol_version"),
    )
    if mode in _CHECKED:
        _refuse_nonsense(options)
    return options


async def tls_of(dsn: str) -> ssl.SSLContext | UncheckedMode:
    """What the driver is to be given as `ssl`. Raises StoreUnavailableException, naming what can't be used."""
    options = options_of(dsn)
    if options.mode in _UNCHECKED:
        return cast("UncheckedMode", options.mode)
    # Files are read anew only after they changed, so that certificates rotate without a restart; and not on the event
    # loop, which the hundred and fifty CAs of a system would hold up.
    return await asyncio.to_thread(_context_now, options)


def answer_to_tls_fault(fault: BaseException) -> str | None:
    """What to tell the caller if this fault is one of TLS; nothing of the URL, for a slip can make it the password."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        known = _ANSWERS_BY_VERIFY_CODE.get(fault.verify_code)
        return known or _NOT_TRUSTED.format(fault.verify_message)
    if isinstance(fault, ssl.SSLError):
        return (
            f"the TLS handshake with PostgreSQL failed ({_reason(fault)}); look into its log, and at sslcert and sslkey"
        )
    if isinstance(fault, asyncpg.ConnectionDoesNotExistError) and isinstance(fault.__cause__, ssl.SSLError):
        return answer_to_tls_fault(fault.__cause__)
    # The driver's own words for the server's `N`; it has no class for it.
    if isinstance(fault, ConnectionError) and "rejected SSL upgrade" in str(fault):
        return _NOT_OFFERED
    return None


def _query(dsn: str) -> dict[str, str]:
    # As the driver reads it: of what is given twice, the last.
    return {name: values[-1] for name, values in parse_qs(urlsplit(dsn).query).items()}


def _host(listed: str) -> str:
    if listed.startswith("/"):
        return listed
    if listed.startswith("["):
        return listed[1:].partition("]")[0]
    return listed.partition(":")[0]


def _file(query: Mapping[str, str], name: str, at_home: str) -> str | None:
    named = query.get(name) or os.environ.get(f"PG{name.upper()}")
    if named:
        return named
    try:
        path = Path.home() / ".postgresql" / at_home
    except (RuntimeError, KeyError):  # a container's user may have no home
        return None
    return str(path) if path.is_file() else None


def _refuse_nonsense(options: TlsOptions) -> None:
    if options.mode != "verify-full" and options.root_certificate == _SYSTEM:
        # Anybody gets a certificate from one of the system's CAs, so without the name it proves nothing.
        raise StoreUnavailableException("sslrootcert=system of `database.url` needs sslmode=verify-full")
    if options.mode == "verify-ca" and options.root_certificate is None:
        raise StoreUnavailableException(
            "sslmode=verify-ca of `database.url` needs a CA: name its file, sslrootcert=FILE"
        )
    for version in (options.minimum, options.maximum):
        if version is not None and version not in _VERSIONS:
            raise StoreUnavailableException(f"TLS versions in `database.url` must be one of {', '.join(_VERSIONS)}")


def _context_now(options: TlsOptions) -> ssl.SSLContext:
    return _context(options, tuple(_stamp(option, name) for option, name in options.files.items()))


def _stamp(option: str, name: str) -> tuple[int, ...]:
    """Changes with the file. Raises StoreUnavailableException if it can't be looked at."""
    with _file_told(option):
        found = Path(name).stat()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=8)
def _context(options: TlsOptions, _stamps: Sequence[tuple[int, ...]]) -> ssl.SSLContext:
    """The context of a checked mode, made once for each state of its files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.mode == "verify-full"
    context.minimum_version = _VERSIONS[options.minimum]
    if options.maximum is not None:
        context.maximum_version = _VERSIONS[options.maximum]
    context.set_alpn_protocols([_ALPN])
    if options.root_certificate not in (None, _SYSTEM):
        with _file_told("sslrootcert"):
            context.load_verify_locations(cafile=options.root_certificate)
    elif options.mode == "verify-full":
        context.load_default_certs()
    else:
        # sslmode=require without a CA: nobody reads along, but who is at the other end is not known.
        context.verify_mode = ssl.CERT_NONE
    if options.revocation_list is not None:
        with _file_told("sslcrl"):
            context.load_verify_locations(cafile=options.revocation_list)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    if options.certificate is not None:
        with _file_told("sslcert or sslkey"):
            # Without a password to give, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(options.certificate, options.key, password=lambda: options.password)
    return context


@contextmanager
def _file_told(option: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:  # which ssl.SSLError is, too
        raise StoreUnavailableException(
            f"the file that {option} of `database.url` names can't be used ({_reason(fault)})"
        ) from None


def _reason(fault: OSError) -> str:
    why: str | None = getattr(fault, "reason", None) if isinstance(fault, ssl.SSLError) else fault.strerror
    return (why or "no reason given").replace("_", " ").lower()
