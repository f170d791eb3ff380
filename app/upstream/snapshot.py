"""A snapshot at the beginning of a stream: its ACLs in slices, bounded by its header's promise, proved at its end."""

import asyncio
from collections.abc import AsyncIterator

from app.core.continuity import FeedPosition
from app.core.digest import MODULUS, config_digest
from app.core.epochs import Epochs
from app.core.kafka.bindings import AclSlice
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.core.records import FeedHead
from app.core.token import Token
from app.formats.feed_events import Acls, Configs, Event, NoEventError, Snapshot, Synced
from app.formats.feed_values import epochs_of, slice_of
from app.upstream.stream import WatchStream, digest_in, position_in
from app.upstream.streams import StreamLeftError, UpstreamStreams

_ROWS_PER_SLICE = 250


class UpstreamSnapshot:
    """Begins where the stream begins; after its last slice the stream goes on with the changes."""

    def __init__(self, streams: UpstreamStreams, stream: WatchStream, opening: Snapshot) -> None:
        """Raises NoEventError."""
        self._position, self._digest = position_in(opening), digest_in(opening)
        epochs = epochs_of(opening, self._position.epoch)
        self.head = head_of(self._position, self._digest, opening.cluster_id, epochs)
        self.store_time = opening.store_time
        self.configs: dict[str, str] = {}
        self.is_complete = False
        self.is_left = False
        """Whether the machine knows that its stream has ended."""
        self._opening = opening
        self._streams = streams
        self._stream = stream
        self._count = self._sum = 0

    @staticmethod
    async def begin(streams: UpstreamStreams, stream: WatchStream) -> "UpstreamSnapshot":
        """Raises StreamLeftError also for one that may not replace what is held."""
        event = await streams.next(stream, -1)
        with streams.reported(stream.url):
            if not isinstance(event, Snapshot):
                raise NoEventError("it does not begin with a snapshot")
            snapshot = UpstreamSnapshot(streams, stream, event)
        epochs = [(each.epoch, each.first_offset) for each in event.epochs]
        if not streams.following.snapshot(snapshot.token, epochs, event.acl_count, event.config_count, streams.now()):
            why = f"the snapshot of the upstream `{stream.url}` is older than what is held here, or of another history"
            raise StreamLeftError(stream.url, StoreUnavailableException(why))
        return snapshot

    @property
    def token(self) -> Token:
        return Token(self._position.epoch, self._position.offset)

    async def slices(self) -> AsyncIterator[AclSlice]:
        """Call this once. Raises StoreUnavailableException, PoisonedRecordException."""
        try:
            while not self.is_complete:
                event = await self._streams.next(self._stream, -1)
                if isinstance(event, Acls):
                    self._must(
                        self._streams.following.acls(len(event.acls), self._stream.last_size, self._streams.now())
                    )
                    for start in range(0, len(event.acls), _ROWS_PER_SLICE):
                        yield self._slice(event, start)
                        await asyncio.sleep(0)
                else:
                    self._take(event)
        except StreamLeftError as left:
            self.is_left = True
            self._streams.lost(left)
            raise left.fault from None

    def _slice(self, event: Acls, start: int) -> AclSlice:
        with self._streams.reported(self._stream.url):
            some = slice_of(Acls(event.acls[start : start + _ROWS_PER_SLICE]))
        self._count += len(some.rows)
        self._sum += some.digest
        return some

    def _take(self, event: Event) -> None:
        following, now = self._streams.following, self._streams.now()
        match event:
            case Configs():
                self._must(following.configs(len(event.configs), self._stream.last_size, now))
                self.configs = dict(event.configs)
            case Synced():
                with self._streams.reported(self._stream.url):
                    self._check(event)
                self._must(following.synced(self.token, now))
                self.is_complete = True
            case _:
                with self._streams.reported(self._stream.url):
                    raise NoEventError(f"an unexpected `{type(event).__name__.lower()}` within the snapshot")

    def _must(self, is_read_on: bool) -> None:  # noqa: FBT001 - the machine's answer
        if not is_read_on:
            url = self._stream.url
            why = f"the snapshot of the upstream `{url}` is not what its beginning promises"
            raise StreamLeftError(url, PoisonedRecordException(-1, why))

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
            raise NoEventError("the snapshot does not match its digest")


def head_of(
    position: FeedPosition,
    digest: int | None,
    cluster_id: str | None,
    epochs: Epochs,
    log_start_offset: int | None = None,
) -> FeedHead:
    """Of what another service says; what is behind the position is not asked for unless a start is given."""
    start = position.offset + 1 if log_start_offset is None else log_start_offset
    return FeedHead(cluster_id or "", position.epoch, position.offset, position.hash, start, digest, epochs)
