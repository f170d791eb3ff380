"""Whether a look at the feed continues an image, and how it falls into transactions."""

from collections.abc import Iterator, Sequence

from app.core.image import AuthorizerImage
from app.core.records import FeedPoll, Record


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
