"""The past: what changed, for those who may describe the cluster."""

from dataclasses import dataclass, replace

from app.core.context import RequestContext
from app.core.kafka.codes import AclOperation
from app.core.kafka.errors import StoreUnavailableException
from app.core.past import ChangesPage, ChangesQuestion
from app.core.token import Token
from app.runtime.authorizer import Authorizer
from app.runtime.cursors import Cursors
from app.runtime.listing import check_limit
from app.runtime.ports import PastElsewhere, PastStore

CURSORS: Cursors[int] = Cursors(int)
_MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class HistoryPage:
    page: ChangesPage
    next_cursor: str | None
    shows_configs: bool
    """Whether the asker may see changes of properties."""

    def token_of(self, offset: int) -> str:
        return str(Token(self.page.head.epoch, offset))


class Past:
    """INVARIANT: rights are those of now, looked at before any record is, and again before it is shown."""

    def __init__(self, authorizer: Authorizer, source: PastStore | PastElsewhere | None) -> None:
        self._authorizer = authorizer
        self._source = source

    @property
    def elsewhere(self) -> PastElsewhere | None:
        """The service that is asked instead; None: the records are this replica's own."""
        return self._source if isinstance(self._source, PastElsewhere) else None

    async def changes(self, context: RequestContext, question: ChangesQuestion, cursor: str | None) -> HistoryPage:
        self._authorizer.check_cluster_right(context, AclOperation.DESCRIBE)
        check_limit(question.limit)
        before = None if cursor is None else min(max(CURSORS.decode(cursor), 0), _MOST)
        shows_configs = self._authorizer.has_right(context, AclOperation.DESCRIBE_CONFIGS)
        page = await self._store().changes(replace(question, before=before, with_configs=shows_configs))
        self._authorizer.check_cluster_right(context, AclOperation.DESCRIBE)
        if shows_configs and not self._authorizer.has_right(context, AclOperation.DESCRIBE_CONFIGS):
            return await self.changes(context, question, cursor)
        next_cursor = None if page.before is None else CURSORS.encode(page.before)
        return HistoryPage(page, next_cursor, shows_configs)

    def _store(self) -> PastStore:
        if isinstance(self._source, PastStore):
            return self._source
        raise StoreUnavailableException("this replica has no records of the past; ask one on the database")

    async def close(self) -> None:
        if self._source is not None:
            await self._source.close()
