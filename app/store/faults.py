"""What a fault of PostgreSQL means to callers, with the way out."""

import errno
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import asyncpg

from app.core.kafka.errors import StoreUnavailableException
from app.formats.database_url import DatabaseUrl
from app.store.tls import answer_to_tls_fault

# PgBouncer's words, in every version; it names only the first parameter that it doesn't know.
_UNSUPPORTED_PARAMETER = re.compile(r"unsupported startup parameter(?: in options)?: ([A-Za-z_][A-Za-z0-9_.]{0,62})\Z")
_ERRNO = re.compile(r"\[Errno ([0-9]{1,4})\]")
_BETWEEN_TRANSACTIONS = (
    "a pooler in front of PostgreSQL gives the session to other clients between transactions; point `database.url` at "
    "PostgreSQL itself, or set pool_mode = session in the pooler; see docs/database.md, Poolers"
)
_OLDER = "the store's schema is older than this version of Klamm; run `klamm migrate`"

_ANSWERS = {
    "26000": _BETWEEN_TRANSACTIONS,
    "42P05": _BETWEEN_TRANSACTIONS,
    "25006": "PostgreSQL is a hot standby or read-only and takes no updates; point `database.url` at the primary",
    "25P03": "PostgreSQL ended a transaction that was idle too long; retry",
    "28P01": (
        "PostgreSQL refused the credentials of `database.url`: the user does not exist, or the password is "
        "wrong; correct them"
    ),
    "3D000": "the database that `database.url` names does not exist; create it, or correct the name",
    "28000": "PostgreSQL refused the role of `database.url` or its connection; check that the role exists and has "
    "LOGIN, and that pg_hba.conf lets it in: it may require TLS, or a client certificate",
    "42501": "the role of `database.url` lacks a privilege on the database or the store's tables; see docs/database.md",
    "42703": _OLDER,
    "42883": _OLDER,
    "42P01": "the store's tables are missing; run `klamm migrate`",
    "53100": "PostgreSQL's disk is full; free space there and retry",
    "53300": "PostgreSQL accepts no more connections, or no more for this role or this database; raise "
    "max_connections or the CONNECTION LIMIT, or retry later",
    "55P03": "another writer holds the store's lock; retry",
    "57014": "a statement took too long in PostgreSQL; retry",
    "57P04": "the database that `database.url` names was dropped; point it at another",
    "57P05": "PostgreSQL ended a session that was idle too long; retry",
}
_ANSWERS_BY_CLASS = {
    "08": "the connection to PostgreSQL broke; retry",
    "28": "PostgreSQL refused the credentials of `database.url`; correct them",
    "57": "PostgreSQL is starting or shutting down; retry",
}
_ANSWERS_BY_ERRNO = {
    errno.ECONNREFUSED: "nothing listens on the host and port of `database.url`; start PostgreSQL, or correct them",
    errno.EHOSTUNREACH: "there is no route to the host of `database.url`; correct it, or check the network",
    errno.ENETUNREACH: "there is no route to the host of `database.url`; correct it, or check the network",
    errno.ENOENT: "there is no socket in the folder that `database.url` names as host; start PostgreSQL, or correct it",
    errno.EACCES: "this process may not use the socket that `database.url` names as host; change its permissions",
    errno.EMFILE: "this process has no file descriptors left to connect with; raise its limit (ulimit -n)",
}
# Classes of SQLSTATE that blame what was sent: data, integrity, limits of a statement. They pass through as they are,
# so that the mutator retries the group's updates one by one.
_BLAMES_THE_SENDER = ("22", "23", "54")

_UNREACHABLE = "PostgreSQL can't be reached; check the host and port of `database.url`, and retry"
_SILENT = (
    "PostgreSQL does not answer in time; check the host and port of `database.url`, and that no firewall is in the "
    "way, or retry"
)
_UNKNOWN_HOST = "the host name of `database.url` can't be resolved; correct it, or check the name server"


class NotMigratedError(Exception):
    """The schema exists, but `acl_head` has no row."""


class OutageLog:
    """Logs an outage once, with the database's address. Callers hear the reason only."""

    def __init__(self, url: DatabaseUrl, warn: Callable[[dict[str, str]], None]) -> None:
        self._url = url
        self._warn = warn
        self._is_out = False

    @contextmanager
    def logged(self) -> Iterator[None]:
        try:
            yield
        except StoreUnavailableException as fault:
            if not self._is_out:
                self._warn({"where": self._url.shown, "why": fault.message})
            self._is_out = True
            raise
        self._is_out = False


@contextmanager
def translated_faults() -> Iterator[None]:
    """Raises StoreUnavailableException for a fault of PostgreSQL or of the connection to it.

    What blames the sender (data, integrity, statement limits, an unusable database URL) passes through unchanged.
    """
    try:
        yield
    except asyncpg.PostgresError as fault:
        sqlstate = fault.sqlstate or ""
        if sqlstate.startswith(_BLAMES_THE_SENDER):
            raise
        raise StoreUnavailableException(_answer_to_pooler(fault) or answer_to(sqlstate)) from fault
    except asyncpg.InterfaceError as fault:
        if isinstance(fault, ValueError):
            raise
        raise StoreUnavailableException(_UNREACHABLE) from fault
    except NotMigratedError as fault:
        raise StoreUnavailableException(_ANSWERS["42P01"]) from fault
    except (OSError, TimeoutError, asyncpg.InternalClientError) as fault:
        raise StoreUnavailableException(answer_to_tls_fault(fault) or _answer_to_network(fault)) from fault


def _answer_to_pooler(fault: asyncpg.PostgresError) -> str | None:
    refused = _UNSUPPORTED_PARAMETER.search(str(fault)) if isinstance(fault, asyncpg.ProtocolViolationError) else None
    if refused is None:
        return None
    return (
        f"the pooler in front of PostgreSQL refuses the start-up parameter `{refused[1]}`; point `database.url` at "
        f"PostgreSQL itself, or add `{refused[1]}` to ignore_startup_parameters of PgBouncer; see docs/database.md, "
        "Poolers, for all that Klamm sends"
    )


def _answer_to_network(fault: BaseException) -> str:
    if isinstance(fault, TimeoutError):
        return _SILENT
    if isinstance(fault, socket.gaierror):
        return _UNKNOWN_HOST
    # When several addresses fail in turn, the event loop's exception has the numbers in its text only.
    numbers = [fault.errno] if isinstance(fault, OSError) and fault.errno else _ERRNO.findall(str(fault))
    answers = {_ANSWERS_BY_ERRNO.get(int(number), _UNREACHABLE) for number in numbers}
    return answers.pop() if len(answers) == 1 else _UNREACHABLE


def answer_to(sqlstate: str) -> str:
    known = _ANSWERS.get(sqlstate) or _ANSWERS_BY_CLASS.get(sqlstate[:2])
    return known or f"PostgreSQL answered with SQLSTATE {sqlstate}; retry, and check its log if it happens again"


def is_rolled_back(fault: BaseException) -> bool:
    """Whether this answer to a COMMIT proves that nothing was kept.

    An ERROR does: the session lives on without the transaction. FATAL and silence do not: a session that ends while it
    waits for a synchronous standby has committed already.
    """
    return isinstance(fault, asyncpg.PostgresError) and getattr(fault, "severity_en", None) == "ERROR"
