"""A new epoch by command, for a store that was put back, and a cluster id of its own for a copy."""

from dataclasses import dataclass

from app.core.continuity import KnownHistory
from app.core.epochs import Epochs
from app.core.kafka.errors import InconsistentClusterIdException
from app.core.token import Token
from app.formats.database_url import DatabaseUrl
from app.store.engine import Connection, StoreTimeouts, close_gently, connect
from app.store.epochs import read_epochs
from app.store.faults import translated_faults
from app.store.writing.head import UNKNOWN_SERVER, EpochReason, lock_head, move_head

_CLUSTER_ID = "SELECT cluster_id FROM acl_head"
_SET_CLUSTER_ID = "UPDATE acl_head SET cluster_id = $1"


@dataclass(frozen=True, slots=True)
class RestoredStore:
    cluster_id: str
    epochs: Epochs
    """The last one has just begun."""
    last_offset: int

    @property
    def token(self) -> Token:
        return Token(self.epochs.last, self.last_offset)


async def begin_epoch(
    url: DatabaseUrl, *, cluster_id: str | None = None, new_cluster_id: str | None = None
) -> RestoredStore:
    """Begins an epoch, later than all that the store knows, and gives the store the new cluster id, if there is one.

    Raises StoreUnavailableException, or InconsistentClusterIdException if the store is not of the cluster `cluster_id`.
    """
    timeouts = StoreTimeouts()
    connection = await connect(url, timeouts, "epoch")
    try:
        with translated_faults():
            async with connection.transaction(isolation="read_committed"):
                return await _begin_epoch(connection, cluster_id, new_cluster_id)
    finally:
        await close_gently(connection, timeouts)


async def _begin_epoch(connection: Connection, cluster_id: str | None, new_cluster_id: str | None) -> RestoredStore:
    head = await lock_head(connection, KnownHistory(), UNKNOWN_SERVER)
    found = str(await connection.fetchval(_CLUSTER_ID))
    if cluster_id not in (None, found):
        raise InconsistentClusterIdException(
            f"this store belongs to cluster `{found}`, not to `{cluster_id}`; point `database.url` at the right "
            "database or leave `cluster.id` out"
        )
    await move_head(
        connection, head.beginning(EpochReason.COMMAND, [] if head.refused_epoch is None else [head.refused_epoch])
    )
    if new_cluster_id is not None:
        await connection.execute(_SET_CLUSTER_ID, new_cluster_id)
    return RestoredStore(new_cluster_id or found, await read_epochs(connection), head.last_offset)
