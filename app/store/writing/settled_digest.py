"""Computes the digest of `acl_head` from the tables if it was not kept: after an upgrade, or by hand.

Replicas of an older version move the head without it. While it is unknown nothing is checked by it.
"""

import logging
from contextlib import suppress

import asyncpg

from app.core.digest import DIGEST_BYTES, MODULUS, config_digest, digest_of_lines
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, StoreTimeouts, close_gently, connect
from app.store.faults import translated_faults
from app.store.rows import select_acl_lines

_log = logging.getLogger(__name__)

_ACLS = select_acl_lines(ordered=False)
_IS_KNOWN = "SELECT digest IS NOT NULL AND digest_offset = last_offset FROM acl_head"
_LOCK = "SELECT digest IS NOT NULL AND digest_offset = last_offset FROM acl_head FOR UPDATE"
_PATIENCE = "SELECT set_config('statement_timeout', '0', true)"
_SETTLE = "UPDATE acl_head SET digest = $1, digest_offset = last_offset"


async def settle_digest(url: DatabaseUrl, timeouts: StoreTimeouts) -> None:
    """Does nothing if it is known. Updates wait meanwhile, some seconds for a million ACLs."""
    connection = await connect(url, timeouts, "digest")
    try:
        # A standby has what its primary has.
        with translated_faults(), suppress(asyncpg.ReadOnlySQLTransactionError):
            if await connection.fetchval(_IS_KNOWN) is False:
                async with connection.transaction(isolation="read_committed"):
                    await _settle(connection, timeouts)
    finally:
        await close_gently(connection, timeouts)


async def _settle(connection: Connection, timeouts: StoreTimeouts) -> None:
    # A separate statement: only those after it see what was committed while it waited for the lock.
    if await connection.fetchval(_LOCK) is not False:
        return
    await connection.execute(_PATIENCE)
    configs = await connection.fetch("SELECT name, value FROM config")
    rows = _Rows()
    await connection.copy_from_query(_ACLS, output=rows.add, format="text", null="", timeout=timeouts.snapshot_s)
    digest = rows.digest + sum(config_digest(row["name"], row["value"]) for row in configs)
    await connection.execute(_SETTLE, (digest % MODULUS).to_bytes(DIGEST_BYTES))
    if rows.count:
        _log.info("digest_settled", extra={"acls": rows.count})


class _Rows:
    def __init__(self) -> None:
        self.digest = 0
        self.count = 0
        self._rest = b""

    async def add(self, piece: bytes) -> None:
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        self.digest += digest_of_lines(lines)
        self.count += len(lines)
