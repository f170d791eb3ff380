"""Where a PostgreSQL is and as whom it is asked: `database.url`, and the pipeline's JDBC URL.

INVARIANT: no part of a URL gets into an error's text, for a slip of the pen can make any part of it the password.
"""

import getpass
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self
from urllib.parse import SplitResult, parse_qs, parse_qsl, quote, unquote, urlsplit

from app.core.kafka.hosts import is_loopback
from app.core.spelling import nearest

SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
JDBC_SCHEME = "jdbc:postgresql://"

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
"""Settings of a session that people write into URLs, or that look like other names here. Case does not matter."""
_LIBPQS: Final = frozenset(
    {
        *("connect_timeout", "fallback_application_name", "hostaddr", "load_balance_hosts", "require_auth"),
        *("servicefile", "requirepeer", "channel_binding", "gssencmode", "gssdelegation"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
        *("sslcompression", "sslsni", "sslcertmode", "sslcrldir", "sslkeylogfile"),
        *("min_protocol_version", "max_protocol_version"),
    }
)
"""Options that libpq has, and asyncpg hasn't: PostgreSQL would be asked for a setting of that name."""
_KNOWN_VALUES: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "sslmode": SSL_MODES,
        "sslnegotiation": ("postgres", "direct"),
        "ssl_min_protocol_version": ("TLSv1.2", "TLSv1.3"),
        "ssl_max_protocol_version": ("TLSv1.2", "TLSv1.3"),
        "target_session_attrs": ("any", "primary", "standby", "read-write", "read-only", "prefer-standby"),
    }
)
_FROM_ENVIRONMENT: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl")
"""Options for which PostgreSQL's variables (PGSSLMODE, ...) count where the URL is silent."""
_JDBC_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: name for name in ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword")},
        "sslnegotiation": "sslNegotiation",
        "search_path": "currentSchema",
    }
)
_DEFAULT_PORT = "5432"
_HIGHEST_PORT: Final = 65_535
_ALIKE = 0.75
"""From here on an unknown name is one of the above misspelt. PostgreSQL's other settings are less alike (a test)."""
_EXPECTED = (
    "expected postgresql://user:password@host:port/database, with special characters of the password "
    "percent-encoded (@ as %40)"
)
_EXPECTED_JDBC = f"expected {JDBC_SCHEME}host:port/database"
_NOT_SHOWN = (
    "the database of `database.url` (not shown, because it contains more than one @: percent-encode special "
    "characters of the password, @ as %40)"
)
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]+(%\w+)?")
_NO_NAMES = re.compile(r"[:?&=;\s]")
"""What no name of a user or a database has, but what a slip of the pen has put behind one: there may be a secret."""


@dataclass(frozen=True, slots=True, repr=False)
class DatabaseUrl:
    """A URL and what it means to the driver, PostgreSQL's variables included. As text it is masked."""

    dsn: str
    hosts: Sequence[tuple[str, str]]
    """Name and port of each. The name of a Unix socket's folder begins with /; "" is the driver's default."""
    database: str
    user: str
    """Empty: the user that runs this process."""
    password: str
    service: str
    """The section of PostgreSQL's service file that says the rest, if there are no hosts."""
    options: Mapping[str, str]

    @classmethod
    def parse(cls, dsn: str, environ: Mapping[str, str] = os.environ) -> Self:
        """The URL as asyncpg reads it. Raises ValueError for one that no connection could come of."""
        parts = _split(dsn, _EXPECTED)
        credentials, _, listed = parts.netloc.rpartition("@")
        if parts.scheme not in {"postgresql", "postgres"} or "@" in credentials:
            raise ValueError(_EXPECTED)
        try:
            query = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
        except ValueError:
            raise ValueError("expected each option after the ? as name=value, separated by &") from None
        variables = {
            name: environ[f"PG{name.upper()}"] for name in _FROM_ENVIRONMENT if environ.get(f"PG{name.upper()}")
        }
        options = variables | {name: values[-1] for name, values in query.items()}
        default_ports = (options.get("port") if not listed else None) or environ.get("PGPORT") or _DEFAULT_PORT
        named = listed or options.get("host", "")
        service = "" if named else options.get("service") or environ.get("PGSERVICE", "")
        hosts = _hosts(named or environ.get("PGHOST", ""), default_ports, quoted=bool(listed))
        name, _, password = credentials.partition(":")
        user = unquote(name) or options.get("user") or environ.get("PGUSER", "")
        database = unquote(parts.path[1:]) if parts.path else options.get("dbname") or options.get("database")
        _check_variables(environ, variables)
        _check_ports((port for _, port in hosts), _EXPECTED if listed else None)
        _check_query(listed, query)
        _check_tls(query, options)
        return cls(
            dsn,
            hosts,
            (environ.get("PGDATABASE", "") if database is None else database) or user,
            user,
            unquote(password) or options.get("password") or environ.get("PGPASSWORD", ""),
            service,
            options,
        )

    @classmethod
    def parse_jdbc(cls, url: str) -> Self:
        """A JDBC URL; names of options are in lower case. Raises ValueError for one that leads nowhere."""
        parts = _split(url.removeprefix("jdbc:"), _EXPECTED_JDBC)
        credentials, _, listed = parts.netloc.rpartition("@")
        if not url.startswith(JDBC_SCHEME) or not listed or len(parts.path) <= 1:
            raise ValueError(_EXPECTED_JDBC)
        hosts = _hosts(listed, _DEFAULT_PORT, quoted=True)
        _check_ports((port for _, port in hosts), _EXPECTED_JDBC)
        options = {name.lower(): value for name, value in parse_qsl(parts.query, keep_blank_values=True)}
        name, _, password = credentials.partition(":")
        return cls(url, hosts, unquote(parts.path[1:]), name or options.get("user", ""), password, "", options)

    @property
    def is_local(self) -> bool:
        """Whether no connection leaves this machine: Unix sockets, `localhost`, loopback addresses."""
        return not self.service and all(
            name == "" or name.startswith("/") or is_loopback(name) for name, _ in self.hosts
        )

    @property
    def shown(self) -> str:
        """Such as "database `db.example:5432/klamm`, user `klamm_serve`", for the command line and the log.

        Callers over HTTP are told none of it. A URL that may have a part of its password where another part belongs is
        not shown.
        """
        parts = urlsplit(self.dsn)
        # INVARIANT: what stands before an @ that is not the only one may be the password's.
        if "@" in f"{parts.path}{parts.query}{parts.fragment}":
            return _NOT_SHOWN
        user = self.user or _login()
        where = f"service {_plain(self.service)}" if self.service else ",".join(map(_shown_host, self.hosts))
        return f"database `{where}/{_plain(self.database or user)}`, user `{_plain(user)}`"

    @property
    def jdbc(self) -> str:
        """The same for Java, without user and password. Raises ValueError for a Unix socket or a service file."""
        if self.service or any(name.startswith("/") for name, _ in self.hosts):
            raise ValueError(
                "`database.url` names a Unix socket or a service file, which Java's driver does not support"
            )
        hosts = ",".join(
            f"[{name}]:{port}" if ":" in name else f"{name or 'localhost'}:{port}" for name, port in self.hosts
        )
        return f"{JDBC_SCHEME}{hosts}/{quote(self.database, safe='')}"

    @property
    def jdbc_properties(self) -> dict[str, str]:
        """The options that Java's driver has as well, by its names."""
        return {_JDBC_NAMES[name]: value for name, value in self.options.items() if name in _JDBC_NAMES}

    def __repr__(self) -> str:
        return "**********"


def _split(url: str, expected: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise ValueError(expected) from None


def _hosts(listed: str, default_ports: str, *, quoted: bool) -> list[tuple[str, str]]:
    hosts, ports = listed.split(","), default_ports.split(",")
    if len(ports) != len(hosts):
        ports = ports[:1] * len(hosts)
    return [_host(host, port, quoted=quoted) for host, port in zip(hosts, ports, strict=True)]


def _host(listed: str, default_port: str, *, quoted: bool) -> tuple[str, str]:
    if listed.startswith("/"):
        return listed, default_port
    if listed.startswith("["):
        name, _, port = listed[1:].partition("]")
        port = port.removeprefix(":")
    else:
        name, _, port = listed.partition(":")
    return unquote(name) if quoted else name, port or default_port


def _check_ports(ports: Iterable[str], unless_numbers: str | None = None) -> None:
    for port in ports:
        if unless_numbers and not port.isdecimal():
            raise ValueError(unless_numbers)
        if not port.isdecimal() or not 1 <= int(port[:9]) <= _HIGHEST_PORT:
            raise ValueError(f"its port must be a number from 1 to {_HIGHEST_PORT}")


def _check_query(listed: str, query: Mapping[str, Sequence[str]]) -> None:
    _check_hosts(listed.split(",") if listed else [])
    for name, values in query.items():
        _check_option(name)
        _check_value(name, values)
    _check_ports(port for ports in query.get("port", ()) for port in ports.split(","))
    _check_hosts(host for hosts in query.get("host", ()) for host in hosts.split(","))


def _check_hosts(hosts: Iterable[str]) -> None:
    for host in hosts:
        name, _ = _host(host, "", quoted=True)
        try:
            usable = host != "" and "\0" not in name and (name.startswith("/") or name.encode("idna") is not None)
        except UnicodeError:
            usable = False
        if not usable or (host.startswith("[") and not _ADDRESS.fullmatch(name)):
            raise ValueError("it has an empty or invalid host name; correct it")


def _check_option(name: str) -> None:
    if name in _DRIVERS or name.lower() in _SETTINGS or "." in name:
        return
    if name in _LIBPQS:
        raise ValueError(f"`{name}` is an option of libpq, which Klamm does not use; leave it out")
    meant = nearest(name, (*_DRIVERS, *_SETTINGS), likeness=_ALIKE)
    if meant is None and name.lower().startswith("ssl"):
        meant = nearest(name, _DRIVERS, likeness=0.0)
    if meant is not None:
        raise ValueError(f"it has an unknown option; did you mean `{meant}`?")


def _check_value(name: str, values: Iterable[str]) -> None:
    known = _KNOWN_VALUES.get(name)
    if known is not None and not set(values) <= set(known):
        raise ValueError(f"its {name} must be one of {', '.join(known)}")


def _check_variables(environ: Mapping[str, str], variables: Mapping[str, str]) -> None:
    try:
        name = "port"
        _check_ports(port for port in environ.get("PGPORT", "").split(",") if port)
        for name, value in variables.items():
            _check_value(name, [value])
    except ValueError as fault:
        raise ValueError(f"the variable PG{name.upper()} applies to it, and {fault}") from None


def _check_tls(query: Mapping[str, Sequence[str]], options: Mapping[str, str]) -> None:
    root = options.get("sslrootcert")
    if root == "system" and options.get("sslmode", "verify-full") != "verify-full":
        raise ValueError(
            "its sslrootcert=system needs sslmode=verify-full: anybody can get a certificate that the system trusts"
        )
    if "verify-ca" in query.get("sslmode", ()) and root is None:
        raise ValueError("its sslmode=verify-ca needs sslrootcert, the file of the CAs to trust")


def _shown_host(host: tuple[str, str]) -> str:
    name, port = host
    if ":" in name:
        return f"[{name if _ADDRESS.fullmatch(name) else '...'}]:{_plain(port)}"
    return f"{_plain(name or 'localhost')}:{_plain(port)}"


def _plain(name: str) -> str:
    """The name up to what can't be part of one; fit for one line."""
    odd = _NO_NAMES.search(name)
    cut = name if odd is None else f"{name[: odd.start()]}..."
    return cut if cut.isprintable() else ascii(cut)[1:-1]


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())
