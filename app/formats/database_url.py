"""Where a PostgreSQL is and as whom it is asked: `database.url`, and the pipeline's JDBC URL.

INVARIANT: no part of a URL gets into an error's text, for a slip of the pen can make any part of it the password. The
name of an unknown option does, where no password can be.
"""

import getpass
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from app.core.kafka.hosts import is_loopback
from app.core.spelling import nearest

JDBC_SCHEME = "jdbc:postgresql://"


@dataclass(frozen=True, slots=True)
class _Option:
    values: Sequence[str] = ()
    """What it may be; empty: anything."""
    java: str = ""
    """Its name in PostgreSQL's JDBC driver; empty: the pipeline does not use it."""
    variable: str = ""
    """The variable of PostgreSQL that counts where the URL is silent."""


_TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_OPTIONS: Final[Mapping[str, _Option]] = MappingProxyType(
    {
        **{name: _Option(variable=f"PG{name.upper()}") for name in ("host", "port", "user", "password", "database")},
        **dict.fromkeys(("dbname", "passfile", "krbsrvname", "gsslib"), _Option()),
        "sslmode": _Option(
            ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"), "sslmode", "PGSSLMODE"
        ),
        "sslrootcert": _Option(java="sslrootcert", variable="PGSSLROOTCERT"),
        "sslcert": _Option(java="sslcert", variable="PGSSLCERT"),
        "sslkey": _Option(java="sslkey", variable="PGSSLKEY"),
        "sslpassword": _Option(java="sslpassword"),
        "sslcrl": _Option(variable="PGSSLCRL"),
        "sslnegotiation": _Option(("postgres", "direct"), "sslNegotiation"),
        "ssl_min_protocol_version": _Option(_TLS_VERSIONS),
        "ssl_max_protocol_version": _Option(_TLS_VERSIONS),
        "target_session_attrs": _Option(("any", "primary", "standby", "read-write", "read-only", "prefer-standby")),
        "search_path": _Option(java="currentSchema"),
        **dict.fromkeys(("application_name", "options", "statement_timeout", "timezone", "work_mem"), _Option()),
    }
)
"""All that may stand behind the ?. What asyncpg does not know is a setting of PostgreSQL's session."""
_DEFAULT_PORT = "5432"
_HIGHEST_PORT: Final = 65_535
_ALIKE = 0.75
"""From here on an unknown name is one of the above misspelt."""
_WAY_OUT = "leave it out, or give a setting of PostgreSQL's session as options=-c%20NAME%3DVALUE"
_NAME = re.compile(r"[A-Za-z_.]{1,40}")
_EXPECTED = (
    "expected postgresql://user:password@host:port/database, with special characters of the password "
    "percent-encoded (@ as %40)"
)
_EXPECTED_JDBC = f"expected {JDBC_SCHEME}host:port/database"
_URL = re.compile(
    r"(?!.*[\t\r\n])postgres(?:ql)?://(?:([^:/?#@]*)(?::([^/?#@]*))?@)?([^/?#@]*)(/[^?#@]*)?(?:\?([^#@]*))?", re.DOTALL
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
    options: Mapping[str, str]

    @classmethod
    def parse(cls, dsn: str, environ: Mapping[str, str] = os.environ) -> Self:
        """The URL as asyncpg reads it. Raises ValueError for one that no connection could come of."""
        name, secret, listed, path, text = _parts(dsn, _EXPECTED)
        query = _query(text)
        variables = {name: environ.get(option.variable) for name, option in _OPTIONS.items() if option.variable}
        options = {name: value for name, value in variables.items() if value} | query
        _check_options(options, query)
        _check_hosts(listed)
        default_ports = (variables["port"] if listed else options.get("port")) or _DEFAULT_PORT
        hosts = _hosts(listed or options.get("host", ""), default_ports, quoted=bool(listed))
        _check_ports((port for _, port in hosts), _EXPECTED if listed else None)
        user = unquote(name) or options.get("user", "")
        database = unquote(path[1:]) if path else options.get("dbname") or options.get("database")
        return cls(dsn, hosts, database or user, user, unquote(secret) or options.get("password", ""), options)

    @classmethod
    def parse_jdbc(cls, url: str) -> Self:
        """A JDBC URL; names of options are in lower case. Raises ValueError for one that leads nowhere."""
        name, secret, listed, path, text = _parts(url.removeprefix("jdbc:"), _EXPECTED_JDBC)
        if not url.startswith(JDBC_SCHEME) or not listed or len(path) <= 1:
            raise ValueError(_EXPECTED_JDBC)
        hosts = _hosts(listed, _DEFAULT_PORT, quoted=True)
        _check_ports((port for _, port in hosts), _EXPECTED_JDBC)
        options = {name.lower(): value for name, value in parse_qsl(text, keep_blank_values=True)}
        return cls(url, hosts, unquote(path[1:]), name or options.get("user", ""), secret, options)

    @property
    def is_local(self) -> bool:
        """Whether no connection leaves this machine: Unix sockets, `localhost`, loopback addresses."""
        return all(name == "" or name.startswith("/") or is_loopback(name) for name, _ in self.hosts)

    @property
    def shown(self) -> str:
        """Such as "database `db.example:5432/klamm`, user `klamm_serve`", for the command line and the log.

        Callers over HTTP are told none of it.
        """
        user = self.user or _login()
        where = ",".join(map(_shown_host, self.hosts))
        return f"database `{where}/{_plain(self.database or user)}`, user `{_plain(user)}`"

    @property
    def jdbc(self) -> str:
        """The same for Java, without user and password. Raises ValueError for a Unix socket."""
        if any(name.startswith("/") for name, _ in self.hosts):
            raise ValueError("`database.url` names a Unix socket, which Java's driver does not support")
        hosts = ",".join(
            f"[{name}]:{port}" if ":" in name else f"{name or 'localhost'}:{port}" for name, port in self.hosts
        )
        return f"{JDBC_SCHEME}{hosts}/{quote(self.database, safe='')}"

    @property
    def jdbc_properties(self) -> dict[str, str]:
        """The options that Java's driver has as well, by its names."""
        return {_OPTIONS[name].java: value for name, value in self.options.items() if _OPTIONS[name].java}

    def __repr__(self) -> str:
        return "**********"


def _parts(url: str, expected: str) -> tuple[str, ...]:
    """User, password, hosts, path and query, as they are spelt."""
    try:
        urlsplit(url)  # asyncpg does, too: what it refuses is refused here, as its error shows the URL
    except ValueError:
        raise ValueError(expected) from None
    parts = _URL.fullmatch(url)
    if parts is None:
        raise ValueError(expected)
    return parts.groups("")


def _query(text: str) -> dict[str, str]:
    """The options, of which the last counts, as with asyncpg."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True) if text else []
    except ValueError:
        raise ValueError("expected each option after the ? as name=value, separated by &") from None
    # A password that is not percent-encoded may go on as the name of an option.
    may_be_secret = any("password" in name for name, _ in pairs)
    for name, _ in pairs:
        if name not in _OPTIONS:
            shown = f" `{name}`" if _NAME.fullmatch(name) and not may_be_secret else ""
            meant = nearest(name, _OPTIONS, likeness=_ALIKE)
            raise ValueError(f"it has an unknown option{shown}; {f'did you mean `{meant}`?' if meant else _WAY_OUT}")
    return {name: value for name, value in pairs if value}


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


def _check_hosts(listed: str) -> None:
    for host in listed.split(",") if listed else ():
        name, _ = _host(host, "", quoted=True)
        try:
            usable = host != "" and "\0" not in name and (name.startswith("/") or name.encode("idna") is not None)
        except UnicodeError:
            usable = False
        if not usable or ((host.startswith("[") or ":" in name) and not _ADDRESS.fullmatch(name)):
            raise ValueError("it has an empty or invalid host name; correct it")


def _check_options(options: Mapping[str, str], query: Mapping[str, str]) -> None:
    for name, value in options.items():
        try:
            _check_option(name, value)
        except ValueError as fault:
            if name in query:
                raise
            raise ValueError(f"the variable {_OPTIONS[name].variable} applies to it, and {fault}") from None
    _check_tls(query, options)


def _check_option(name: str, value: str) -> None:
    known = _OPTIONS[name].values
    if known and value not in known:
        raise ValueError(f"its {name} must be one of {', '.join(known)}")
    if name == "port":
        _check_ports(value.split(","))
    if name == "host":
        _check_hosts(value)


def _check_tls(query: Mapping[str, str], options: Mapping[str, str]) -> None:
    root = options.get("sslrootcert")
    if root == "system" and options.get("sslmode", "verify-full") != "verify-full":
        raise ValueError(
            "its sslrootcert=system needs sslmode=verify-full: anybody can get a certificate that the system trusts"
        )
    if query.get("sslmode") == "verify-ca" and root is None:
        raise ValueError("its sslmode=verify-ca needs sslrootcert, the file of the CAs to trust")


def _shown_host(host: tuple[str, str]) -> str:
    name, port = host
    return f"[{name}]:{port}" if ":" in name else f"{_plain(name or 'localhost')}:{port}"


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
