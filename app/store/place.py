"""Where a database URL leads and as whom, for the operator's eyes: host, port, database and user; never a password.

It is for the command line and the log. What callers are told over HTTP names none of it.
"""

import getpass
import os
import re
from collections.abc import Mapping
from urllib.parse import parse_qs, unquote, urlsplit

_NOT_SHOWN = (
    "the database of `database.url` (not shown, for it has an @ too many: write a password's special characters as %40)"
)
_DEFAULT_PORT = "5432"
_NO_NAMES = re.compile(r"[:?&=;\s]")
"""What no name of a user or a database has, but what a slip of the pen has put behind one: there may be a secret."""


def place_of(dsn: str) -> str:
    """Such as "database `db.example:5432/klamm`, user `klamm_serve`", as the driver takes it.

    What the URL leaves out comes from PostgreSQL's variables and defaults. A URL that may have a part of its password
    where another part belongs, as its special characters are not quoted, is not shown.
    """
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return _NOT_SHOWN
    # INVARIANT: behind an @ that is not the only one, any part may be the password's.
    if parts.netloc.count("@") > 1 or "@" in f"{parts.path}{parts.query}{parts.fragment}":
        return _NOT_SHOWN
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    credentials, _, listed = parts.netloc.rpartition("@")
    user = unquote(credentials.partition(":")[0]) or query.get("user") or os.environ.get("PGUSER") or _login()
    database = unquote(parts.path.removeprefix("/")) if parts.path else query.get("dbname") or query.get("database")
    database = os.environ.get("PGDATABASE", "") if database is None else database
    hosts = _hosts(listed, query)
    return f"database `{hosts}/{_plain(database or user)}`, user `{_plain(user)}`"


def _hosts(listed: str, query: Mapping[str, str]) -> str:
    given = listed or query.get("host", "")
    service = query.get("service") or os.environ.get("PGSERVICE")
    if not given and service:
        return f"service {_plain(service)}"
    given = given or os.environ.get("PGHOST") or "localhost"
    ports = (query.get("port") if not listed else None) or os.environ.get("PGPORT") or _DEFAULT_PORT
    hosts, defaults = given.split(","), ports.split(",")
    if len(defaults) != len(hosts):
        defaults = defaults[:1] * len(hosts)
    return ",".join(_address(host, port) for host, port in zip(hosts, defaults, strict=True))


def _address(host: str, default_port: str) -> str:
    if host.startswith("["):
        address, _, port = host[1:].partition("]")
        return f"[{_plain_address(address)}]:{_plain(port.removeprefix(':') or default_port)}"
    name, _, port = host.partition(":")
    return f"{_plain(unquote(name))}:{_plain(port or default_port)}"


def _plain_address(address: str) -> str:
    return address if re.fullmatch(r"[0-9A-Fa-f:.]+(%\w+)?", address) else "..."


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
