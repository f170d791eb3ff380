"""Whether a file of the feed's events holds: every hash, every digest, every token (docs/feed.md)."""

from collections.abc import Iterable
from uuid import UUID

from app.core.kafka.errors import InvalidRequestException
from app.core.proof import FeedDamagedError, FeedProof
from app.core.token import Token
from app.formats.feed_events import Acls, Bookmark, Configs, End, Event, NoEventError, Snapshot, Synced, Transaction
from app.formats.feed_values import acl_in, records_in


class EventCheck:
    """Follows the events of one stream, whole and not filtered.

    A stream that begins in the middle is proved from the first hash that it states; of its image nothing is known.
    """

    def __init__(self) -> None:
        self.proof = FeedProof()
        self.events = 0
        self._epoch: UUID | None = None
        self._counts: tuple[int, int] | None = None

    def follow_all(self, events: Iterable[tuple[int, Event]]) -> None:
        """Raises NoEventError or FeedDamagedError, which name the line."""
        for number, event in events:
            try:
                self._follow(event)
            except NoEventError as fault:
                raise NoEventError(f"line {number}: {fault}") from None
            except FeedDamagedError as fault:
                raise FeedDamagedError(f"line {number}: {fault}") from None
            except (ValueError, InvalidRequestException) as fault:
                kind = type(event).__name__.lower()
                raise NoEventError(f"line {number}: not a `{kind}` as docs/feed.md describes it: {fault!r}") from None
            self.events += 1
        if self._counts is not None:
            raise FeedDamagedError("the stream ends within its snapshot")

    def _follow(self, event: Event) -> None:
        match event:
            case Snapshot():
                token = Token.parse(event.token, "token")
                self._epoch, self._counts = token.epoch, (event.acl_count, event.config_count)
                self.proof.begin(token.offset, bytes.fromhex(event.hash))
            case Acls() | Configs() if self._counts is None:
                raise FeedDamagedError("a part of a snapshot appears without its beginning")
            case Acls():
                self.proof.add_acls([acl_in(each) for each in event.acls])
            case Configs():
                self.proof.add_configs(event.configs)
            case Synced():
                self._check_counts()
                self._check_state(event)
            case Transaction():
                self._transaction(event)
            case Bookmark():
                self._check_state(event)
            case End():
                pass

    def _transaction(self, event: Transaction) -> None:
        if self._counts is not None:
            raise FeedDamagedError("a transaction appears within a snapshot")
        token, records, stated = Token.parse(event.token, "token"), records_in(event), bytes.fromhex(event.hash)
        if token.offset != event.last_offset:
            raise FeedDamagedError(f"the transaction's token has the offset {token.offset}, not {event.last_offset}")
        if self._epoch is None and records[0].offset > 1:
            self.proof.begin(token.offset, stated, image_known=False)
        else:
            self._check_epoch(token)
            self.proof.follow(records, stated)
        self._epoch = token.epoch

    def _check_state(self, event: Synced | Bookmark) -> None:
        token, chained = Token.parse(event.token, "token"), bytes.fromhex(event.hash)
        if self._epoch is None and token.offset:
            self.proof.begin(token.offset, chained, image_known=False)
        self._check_epoch(token)
        self._epoch = token.epoch
        digest = None if event.digest is None else int(event.digest, 16)
        self.proof.check_at(token.offset, chained, digest)

    def _check_epoch(self, token: Token) -> None:
        if self._epoch not in (None, token.epoch):
            raise FeedDamagedError(f"epoch {token.epoch} follows {self._epoch} without a snapshot of its own")

    def _check_counts(self) -> None:
        found = (self.proof.acl_count, self.proof.config_count)
        if self._counts != found:
            raise FeedDamagedError(f"the snapshot holds {found} ACLs and properties instead of {self._counts}")
        self._counts = None
