"""The epochs of the store's history, as the trigger on `acl_head` has noted them."""

from uuid import UUID

from app.core.epochs import MAX_EPOCHS, Epoch, Epochs
from app.core.kafka.errors import StoreUnavailableException
from app.store.engine import Connection
from app.store.faults import NotMigratedError

_EPOCHS = """SELECT head.epoch AS last, noted.epoch, noted.first_offset
FROM acl_head AS head
LEFT JOIN LATERAL (SELECT number, epoch, first_offset FROM acl_epoch ORDER BY number DESC LIMIT $1) AS noted ON true
ORDER BY noted.number DESC"""


async def read_epochs(connection: Connection) -> Epochs:
    """The epochs up to the head's."""
    rows = await connection.fetch(_EPOCHS, MAX_EPOCHS)
    if not rows:
        raise NotMigratedError
    noted = (Epoch(UUID(bytes=row["epoch"].bytes), row["first_offset"]) for row in rows if row["epoch"] is not None)
    return Epochs.noted(UUID(bytes=rows[0]["last"].bytes), noted)


class KnownEpochs:
    """The epochs up to a head's, read once: an epoch is begun once, so those before it never change."""

    def __init__(self) -> None:
        self._epochs: Epochs | None = None

    async def upto(self, connection: Connection, epoch: UUID) -> Epochs:
        """`epoch` was the head's a moment ago. Raises StoreUnavailableException if it is not among the head's now."""
        if self._epochs is None or self._epochs.last != epoch:
            found = await read_epochs(connection)
            number = next((number for number, row in enumerate(found.rows, 1) if row.id == epoch), None)
            if number is None:
                raise StoreUnavailableException("the store was replaced while it was read; retry")
            self._epochs = Epochs(found.rows[:number])
        return self._epochs
