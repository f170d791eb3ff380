"""A snapshot at the beginning of a stream: its ACLs in slices, proved by count, digest and token at its end."""

import asyncio
from collections.abc import AsyncIterator

from app.core.continuity import FeedPosition
from app.core.digest import MODULUS, config_digest
from app.core.kafka.bindings import AclSlice
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.core.records import FeedHead
from app.formats.feed_events import Acls, Configs, End, Event, NoEventError, Snapshot, Synced
from app.formats.feed_values import slice_of
from app.upstream.stream import digest_in, poisoned, position_in

_ROWS_PER_SLICE = 250


class UpstreamSnapshot:
    """`events` follow the `snapshot` event."""

    def __init__(self, opening: Snapshot, events: AsyncIterator[Event], url: str) -> None:
        """Raises NoEventError."""
        self._position, self._digest = position_in(opening), digest_in(opening)
        self.head = head_of(self._position, self._digest, opening.cluster_id)
        self.store_time = opening.store_time
        self.configs: dict[str, str] = {}
        self.is_complete = False
        self._opening = opening
        self._events = events
        self._url = url
        self._count = self._sum = 0

    async def slices(self) -> AsyncIterator[AclSlice]:
        """Call this once. Raises StoreUnavailableException, PoisonedRecordException."""
        try:
            async for event in self._events:
                if isinstance(event, Acls):
                    for start in range(0, len(event.acls), _ROWS_PER_SLICE):
                        some = slice_of(Acls(event.acls[start : start + _ROWS_PER_SLICE]))
                        self._count += len(some.rows)
                        self._sum += some.digest
                        yield some
                        await asyncio.sleep(0)
                else:
                    self._take(event)
                if self.is_complete:
                    return
        except NoEventError as fault:
            raise poisoned(-1, self._url, fault) from None

    def _take(self, event: Event) -> None:
        match event:
            case Configs():
                self.configs = dict(event.configs)
            case Synced():
                self._check(event)
                self.is_complete = True
            case End():
                raise StoreUnavailableException(f"the upstream `{self._url}` ended the snapshot (`{event.reason}`)")
            case _:
                raise NoEventError(f"an unexpected `{type(event).__name__.lower()}` within the snapshot")

    def _check(self, end: Synced) -> None:
        opening, count = self._opening, self._count
        if (position_in(end), digest_in(end)) != (self._position, self._digest):
            raise NoEventError("the snapshot ends with another state than it began with")
        if (count, len(self.configs)) != (opening.acl_count, opening.config_count):
            raise NoEventError(
                f"the snapshot holds {count} ACLs and {len(self.configs)} properties instead of {opening.acl_count} "
                f"and {opening.config_count}"
            )
        digest = (self._sum + sum(config_digest(name, value) for name, value in self.configs.items())) % MODULUS
        if self._digest not in (None, digest):
            raise PoisonedRecordException(-1, "the snapshot of the upstream does not match its digest")


def head_of(
    position: FeedPosition, digest: int | None, cluster_id: str | None, log_start_offset: int | None = None
) -> FeedHead:
    """Of what another service says; what is behind the position is not asked for unless a start is given."""
    start = position.offset + 1 if log_start_offset is None else log_start_offset
    return FeedHead(cluster_id or "", position.epoch, position.offset, position.hash, start, digest)
