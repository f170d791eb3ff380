"""The epochs of the store's history, as the trigger on `acl_head` has noted them."""

from uuid import UUID

from app.core.epochs import MAX_EPOCHS, Epoch, Epochs
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.store.engine import Connection

_EPOCHS = """SELECT epoch, first_offset FROM (
    SELECT number, epoch, first_offset FROM acl_epoch ORDER BY number DESC LIMIT $1
) AS newest ORDER BY number"""


async def read_epochs(connection: Connection) -> Epochs:
    """All that are noted, up to the newest. Raises PoisonedRecordException."""
    rows = await connection.fetch(_EPOCHS, MAX_EPOCHS)
    try:
        return Epochs.of(Epoch(UUID(bytes=row["epoch"].bytes), row["first_offset"]) for row in rows)
    except ValueError as fault:
        raise PoisonedRecordException(-1, f"the table `acl_epoch` is damaged: {fault}") from None


class KnownEpochs:
    """The epochs up to a head's, read once: an epoch is begun once, so those before it never change."""

    def __init__(self) -> None:
        self._epochs: Epochs | None = None

    async def upto(self, connection: Connection, epoch: UUID) -> Epochs:
        """`epoch` was the head's a moment ago. Raises StoreUnavailableException, PoisonedRecordException."""
        if self._epochs is None or self._epochs.last != epoch:
            found = await read_epochs(connection)
            number = next((number for number, row in enumerate(found.rows, 1) if row.id == epoch), None)
            if number is None:
                raise StoreUnavailableException("the store was replaced while it was read; retry")
            self._epochs = Epochs(found.rows[:number])
        return self._epochs
