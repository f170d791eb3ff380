"""A whole image as events, exactly as of one offset, while it goes on changing."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime
from uuid import UUID

from app.core.image import AuthorizerImage
from app.core.index.search import search
from app.core.index.table import SortKey, sort_key
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.filters import AclBindingFilter
from app.core.records import AccessControlEntryRecord, ConfigRecord, Record
from app.formats.feed_events import MAX_ACLS, MAX_ACLS_CHARACTERS, Acls, encode
from app.formats.feed_values import acl_fields, configs_of, snapshot_of, synced_of
from app.runtime.pace import Pace
from app.runtime.watch.lines import Line

MAX_CHANGES = 100_000
"""Records that may pass while an image is sent. A reader that takes longer is cut."""


class ImageLeftException(Exception):
    """The image being sent is no longer in use, or its reader takes too long."""

    def __init__(self, *, is_too_slow: bool) -> None:
        super().__init__()
        self.is_too_slow = is_too_slow


class ImageParts:
    """The image at the moment this was made; call `passed` with every transaction from then on.

    The index changes in place while it is searched in list order. Beyond the place that the search has reached, an ACL
    that is removed or gets other terms is kept aside as it was, and an ACL that is added is left out.
    """

    def __init__(
        self,
        image: AuthorizerImage,
        acl_filter: AclBindingFilter | None,
        store_time: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        self.image = image
        self._store_time = store_time
        self._filter = acl_filter or AclBindingFilter()
        self._at: SortKey | None = None
        self._kept: dict[UUID, StandardAcl] = {}
        self._before: dict[UUID, StandardAcl] = {}
        """ACLs of the image that may have been given other terms since, as they were."""
        self._new: set[UUID] = set()
        self._passed: list[Sequence[Record]] = []
        self._changes = 0

    def before(self, acl: StandardAcl) -> None:
        """Takes an ACL as it is before a transaction that may give it other terms."""
        if acl.id not in self._new:
            self._before.setdefault(acl.id, acl)

    def passed(self, transaction: Sequence[Record]) -> None:
        self._changes += len(transaction)
        if self._changes > MAX_CHANGES:
            return
        self._passed.append(transaction)
        self._new.update(
            each.acl.id
            for each in transaction
            if isinstance(each, AccessControlEntryRecord) and each.acl.id not in self._before
        )

    async def lines(self, is_in_use: Callable[[], bool]) -> AsyncGenerator[Line, None]:
        """Raises ImageLeftException."""
        image, pace = self.image, Pace()
        yield Line("snapshot", None, encode(snapshot_of(image, self._store_time())))
        # INVARIANT: what has passed is noted before each step of the search.
        await self._catch_up(pace)
        part = _Part()
        for found in search(image.index, self._filter):
            own = [each for each in found if each.id not in self._new and each.id not in self._kept]
            if found:
                self._at = sort_key(found[-1].binding)
            for each in own:
                if part.add(each):
                    yield part.make_line()
            await pace.breathe()
            # INVARIANT: an index that is no longer in use is never read: it may be half dismantled.
            if not is_in_use():
                raise ImageLeftException(is_too_slow=False)
            if self._changes > MAX_CHANGES:
                raise ImageLeftException(is_too_slow=True)
            await self._catch_up(pace)
        for each in self._kept.values():
            if self._filter.matches(each.binding) and part.add(each):
                yield part.make_line()
                await asyncio.sleep(0)
        if part.acls:
            yield part.make_line()
        yield Line("configs", None, encode(configs_of(image)))
        yield Line("synced", str(image.token), encode(synced_of(image, self._store_time())))

    async def _catch_up(self, pace: Pace) -> None:
        """Notes what has passed, before the search goes on."""
        while self._passed:
            for record in self._passed.pop(0):
                self._note(record)
                await pace.breathe()

    def _note(self, record: Record) -> None:
        if isinstance(record, ConfigRecord):
            return
        acl = record.acl
        if acl.id not in self._new and (self._at is None or sort_key(acl.binding) > self._at):
            self._kept.setdefault(acl.id, self._before.get(acl.id, acl))


class _Part:
    """The ACLs of the next event."""

    def __init__(self) -> None:
        self.acls: list[StandardAcl] = []
        self._characters = 0

    def add(self, acl: StandardAcl) -> bool:
        """Whether the event is full now. INVARIANT: no reader's longest line holds less than one that is full."""
        binding = acl.binding
        self._characters += len(binding.resource_name) + len(binding.principal) + len(binding.host)
        self.acls.append(acl)
        return len(self.acls) == MAX_ACLS or self._characters >= MAX_ACLS_CHARACTERS

    def make_line(self) -> Line:
        acls, self.acls, self._characters = self.acls, [], 0
        return Line("acls", None, encode(Acls([acl_fields(each) for each in acls])))
