"""Whether a look at the feed continues an image, and how it falls into transactions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.core.image import AuthorizerImage
from app.core.records import FeedPoll, Record


@dataclass(frozen=True, slots=True)
class LostHistory:
    """A place in a history that the store has left without a change of epoch: a backup came back, say."""

    epoch: UUID
    offset: int
    hash: bytes


def lost_history(image: AuthorizerImage, poll: FeedPoll) -> LostHistory | None:
    """The image's place, if its epoch's offsets are handed out for the second time; else None."""
    if image.epoch is None or poll.head.epoch != image.epoch:
        return None
    if poll.head.last_offset < image.offset or poll.hash_at not in (None, image.hash):
        return LostHistory(image.epoch, image.offset, image.hash)
    return None


def mismatch_of(image: AuthorizerImage, poll: FeedPoll) -> str | None:
    """Why this feed is not the continuation of the image; None if it is."""
    head = poll.head
    if head.epoch != image.epoch:
        return "the store is of another epoch"
    if head.last_offset < image.offset:
        return "the store has gone back behind the image"
    if image.offset + 1 < head.log_start_offset:
        return "the records behind the image are trimmed"
    if poll.hash_at is None:
        return "the record of the image's offset is gone"
    if poll.hash_at != image.hash:
        return "the store holds another history"
    return None


def transactions_of(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """The records by transaction."""
    start = 0
    while start < len(records):
        end = start + 1
        while end < len(records) and records[end].tx_last == records[start].tx_last:
            end += 1
        yield records[start:end]
        start = end
