"""Can this `database.url` be used? Found out before anything is started, for a replica would try for ever."""

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import SecretStr

from app.core.spelling import nearest

_SSL_MODES = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})

_DRIVERS: Final = (
    *("host", "port", "dbname", "database", "user", "password", "passfile", "service"),
    *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "sslcrl", "sslpassword"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "target_session_attrs", "krbsrvname", "gsslib"),
)
"""The options that asyncpg takes for itself; every other one is a setting for PostgreSQL's session."""
_SETTINGS: Final = (
    *("application_name", "client_encoding", "options", "search_path", "timezone", "work_mem"),
    *("statement_timeout", "lock_timeout", "transaction_timeout", "idle_session_timeout"),
    *("idle_in_transaction_session_timeout", "default_transaction_isolation", "default_transaction_read_only"),
    *("deadlock_timeout", "xmloption", "tcp_user_timeout"),
)
"""Settings of a session that people write into URLs, or that look like other names here; letters count in no case."""
_LIBPQS: Final = frozenset(
    {
        *("connect_timeout", "fallback_application_name", "hostaddr", "load_balance_hosts", "require_auth"),
        *(
            "servicefile",
            "requirepeer",
            "channel_binding",
            "gssencmode",
            "gssdelegation",
            "keepalives",
            "keepalives_idle",
        ),
        *("keepalives_interval", "keepalives_count", "sslcompression", "sslsni", "sslcertmode"),
        *("sslcrldir", "sslkeylogfile", "min_protocol_version", "max_protocol_version"),
    }
)
"""Options that libpq has, and asyncpg hasn't: PostgreSQL would be asked for a setting of that name."""
_KNOWN_VALUES: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "sslnegotiation": ("postgres", "direct"),
        "target_session_attrs": ("any", "primary", "standby", "read-write", "read-only", "prefer-standby"),
    }
)
_HIGHEST_PORT: Final = 65_535
_ALIKE = 0.75
"""From here on an unknown name is one of the above misspelt. PostgreSQL's other settings are less alike (a test)."""


def usable_database_url(url: SecretStr) -> SecretStr:
    """The URL. Raises ValueError for one that no connection could come of."""
    # INVARIANT: no part of the URL gets into a text, for a slip of the pen can make any part of it the password.
    try:
        parts = urlsplit(url.get_secret_value())
    except ValueError:
        parts = urlsplit("")
    listed = parts.netloc.rpartition("@")[2]
    hosts = [host.rpartition("]") for host in listed.split(",")] if listed else []
    ports = [rest.partition(":")[2] for _, _, rest in hosts]
    if parts.scheme not in {"postgresql", "postgres"} or not all(port.isdecimal() for port in ports if port):
        raise ValueError(
            "expected postgresql://user:password@host:port/database, a password's special characters written as %40"
        )
    _check_ports(port for port in ports if port)
    _check_hosts(listed.split(",") if listed else [])
    try:
        query = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    except ValueError:
        raise ValueError("expected each option behind its ? as name=value, with & between them") from None
    for name in query:
        _check_option(name)
    _check_values(query)
    _check_variable()
    _check_tls(query)
    return url


def _check_ports(ports: Iterable[str]) -> None:
    for port in ports:
        if not port.isdecimal() or not 1 <= int(port[:9]) <= _HIGHEST_PORT:
            raise ValueError(f"its port must be a number from 1 to {_HIGHEST_PORT}")


def _check_hosts(hosts: Iterable[str]) -> None:
    for host in hosts:
        name = unquote(host.partition(":")[0])
        try:
            usable = host != "" and "\0" not in name and (name.startswith("/") or name.encode("idna") is not None)
        except UnicodeError:
            usable = host.startswith("[")
        if not usable:
            raise ValueError("it has a host that is empty, or no name of one; correct it")


def _check_values(query: Mapping[str, Sequence[str]]) -> None:
    for name, known in _KNOWN_VALUES.items():
        if not set(query.get(name, ())) <= set(known):
            raise ValueError(f"its {name} must be one of {', '.join(known)}")
    _check_ports(port for ports in query.get("port", ()) for port in ports.split(","))
    _check_hosts(host for hosts in query.get("host", ()) for host in hosts.split(","))


def _check_option(name: str) -> None:
    if name in _DRIVERS or name.lower() in _SETTINGS or "." in name:
        return
    if name in _LIBPQS:
        raise ValueError(f"`{name}` is an option of libpq, which Klamm does not use; leave it out")
    meant = nearest(name, (*_DRIVERS, *_SETTINGS), likeness=_ALIKE)
    if meant is None and name.lower().startswith("ssl"):
        meant = nearest(name, _DRIVERS, likeness=0.0)
    if meant is not None:
        raise ValueError(f"it has an option that there is not; did you mean `{meant}`?")


def _check_variable() -> None:
    try:
        _check_ports(port for port in os.environ.get("PGPORT", "").split(",") if port)
    except ValueError as fault:
        raise ValueError(f"the variable PGPORT counts for it, and {fault}") from None


def _check_tls(query: Mapping[str, Sequence[str]]) -> None:
    modes = set(query.get("sslmode", ()))
    if not modes <= _SSL_MODES:
        raise ValueError(f"its sslmode must be one of {', '.join(sorted(_SSL_MODES))}")
    if query.get("sslrootcert") == ["system"] and not modes <= {"verify-full"}:
        raise ValueError("its sslrootcert=system goes with sslmode=verify-full only: anybody can have a certificate")
    if modes == {"verify-ca"} and "sslrootcert" not in query:
        raise ValueError("its sslmode=verify-ca needs sslrootcert, the file of the authorities to believe")
