"""Whether a file of the feed's events holds: every hash, every digest, every token and epoch (docs/feed.md)."""

from collections.abc import Iterable
from uuid import UUID

from app.core.epochs import is_later
from app.core.kafka.errors import InvalidRequestException
from app.core.proof import FeedDamagedError, FeedProof, check_epochs
from app.core.token import Token
from app.formats.feed_events import (
    Acls,
    Bookmark,
    Configs,
    End,
    EpochBegan,
    Event,
    NoEventError,
    Snapshot,
    Synced,
    Transaction,
)
from app.formats.feed_values import acl_in, epochs_of, records_in


class EventCheck:
    """Follows the events of one stream, whole and not filtered.

    A stream that begins in the middle is proved from the first hash that it states; of its image nothing is known.
    """

    def __init__(self) -> None:
        self.proof = FeedProof()
        self.events = 0
        self._epoch: UUID | None = None
        self._has_begun = False
        """Whether an offset and its hash are known; until then `proof` is the empty store's."""
        self._starts_at: int | None = None
        """The offset of an epoch that began before any hash was stated."""
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
                check_epochs(epochs_of(event, token.epoch), token.offset)
                self._epoch, self._counts = token.epoch, (event.acl_count, event.config_count)
                self.proof.begin(token.offset, bytes.fromhex(event.hash))
                self._has_begun = True
            case Acls() | Configs() if self._counts is None:
                raise FeedDamagedError("a part of a snapshot appears without its beginning")
            case Acls():
                self.proof.add_acls([acl_in(each) for each in event.acls])
            case Configs():
                self.proof.add_configs(event.configs)
            case Synced():
                self._check_counts()
                self._check_state(event)
            case EpochBegan():
                self._begin_epoch(event)
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
        self._check_epoch(token)
        if self._has_begun:
            self.proof.follow(records, stated)
            return
        self._check_start(records[0].offset - 1)
        self._has_begun = True
        if records[0].offset == 1:
            self.proof.follow(records, stated)
        else:
            self.proof.begin(token.offset, stated, image_known=False)

    def _check_state(self, event: Synced | Bookmark) -> None:
        token, chained = Token.parse(event.token, "token"), bytes.fromhex(event.hash)
        self._check_epoch(token)
        if not self._has_begun:
            self._check_start(token.offset)
            self._has_begun = True
            if token.offset:
                self.proof.begin(token.offset, chained, image_known=False)
        digest = None if event.digest is None else int(event.digest, 16)
        self.proof.check_at(token.offset, chained, digest)

    def _begin_epoch(self, event: EpochBegan) -> None:
        if self._counts is not None:
            raise FeedDamagedError("an epoch begins within a snapshot")
        if not self._has_begun:
            self._check_start(event.first_offset)
            self._starts_at = event.first_offset
        elif event.first_offset != self.proof.offset:
            raise FeedDamagedError(
                f"epoch {event.epoch} is stated to begin after offset {event.first_offset}, but the feed is at "
                f"{self.proof.offset}"
            )
        if self._epoch is not None and not is_later(event.epoch, self._epoch):
            raise FeedDamagedError(f"epoch {event.epoch} follows {self._epoch}, and is not a later one")
        self._epoch = event.epoch

    def _check_start(self, offset: int) -> None:
        if self._starts_at not in (None, offset):
            raise FeedDamagedError(f"an epoch began after offset {self._starts_at}, and offset {offset} follows it")

    def _check_epoch(self, token: Token) -> None:
        if self._epoch not in (None, token.epoch):
            raise FeedDamagedError(f"epoch {token.epoch} follows {self._epoch} and was not stated to begin")
        self._epoch = token.epoch

    def _check_counts(self) -> None:
        found = (self.proof.acl_count, self.proof.config_count)
        if self._counts != found:
            raise FeedDamagedError(f"the snapshot holds {found} ACLs and properties instead of {self._counts}")
        self._counts = None
