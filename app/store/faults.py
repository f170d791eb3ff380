"""What a fault of PostgreSQL means to the caller of the store, in words that name the way out."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from app.core.errors import StoreUnavailableException
from app.store.tls import answer_to_tls_fault

_ANSWERS = {
    "25006": "PostgreSQL is a hot standby or read-only and takes no updates; point `database.url` at the primary",
    "25P03": "PostgreSQL gave up a transaction that stood idle too long; retry",
    "3D000": "the database that `database.url` names does not exist; create it",
    "28000": "PostgreSQL refused the role of `database.url` or its way there; see pg_hba.conf: it may want TLS, "
    "or a client certificate",
    "42501": "the role of `database.url` lacks a privilege on the store's tables; see docs/database.md",
    "42883": "the store's schema is older than this version of Klamm; run `klamm migrate`",
    "42P01": "the store's tables are missing; run `klamm migrate`",
    "53100": "PostgreSQL's disk is full; free space there and retry",
    "53300": "PostgreSQL takes no more connections; raise max_connections or retry later",
    "55P03": "another writer holds the store's lock; retry",
    "57014": "PostgreSQL took too long over a statement; retry",
}
_ANSWERS_BY_CLASS = {
    "08": "the connection to PostgreSQL broke; retry",
    "28": "PostgreSQL refused the credentials of `database.url`; correct them",
    "57": "PostgreSQL is starting or shutting down; retry",
}
# Classes of SQLSTATE that blame what was sent: data, integrity, limits of a statement. They pass through as they are,
# so that the mutator retries the group's updates one by one.
_BLAMES_THE_SENDER = ("22", "23", "54")

_UNREACHABLE = "PostgreSQL can't be reached or does not answer in time; retry"


class NotMigratedError(Exception):
    """The schema is there, the one row of `acl_head` is not."""


@contextmanager
def faults_told() -> Iterator[None]:
    """Raises StoreUnavailableException for a fault of PostgreSQL or of the way to it.

    What blames the sender (data, integrity, statement limits, an unusable database URL) passes through unchanged.
    """
    try:
        yield
    except asyncpg.PostgresError as fault:
        sqlstate = fault.sqlstate or ""
        if sqlstate.startswith(_BLAMES_THE_SENDER):
            raise
        raise StoreUnavailableException(answer_to(sqlstate)) from fault
    except asyncpg.InterfaceError as fault:
        if isinstance(fault, ValueError):
            raise
        raise StoreUnavailableException(_UNREACHABLE) from fault
    except NotMigratedError as fault:
        raise StoreUnavailableException(_ANSWERS["42P01"]) from fault
    except (OSError, TimeoutError, asyncpg.InternalClientError) as fault:
        raise StoreUnavailableException(answer_to_tls_fault(fault) or _UNREACHABLE) from fault


def answer_to(sqlstate: str) -> str:
    """What to tell the caller about this SQLSTATE."""
    known = _ANSWERS.get(sqlstate) or _ANSWERS_BY_CLASS.get(sqlstate[:2])
    return known or f"PostgreSQL answered with SQLSTATE {sqlstate}; retry, and look into its log if it stays"


def is_rolled_back(fault: BaseException) -> bool:
    """Whether this answer to a COMMIT proves that nothing was kept.

    An ERROR does: the session lives on without the transaction. FATAL and silence do not: a session that is ended
    while it waits for a synchronous standby has committed already.
    """
    return isinstance(fault, asyncpg.PostgresError) and getattr(fault, "severity_en", None) == "ERROR"
