"""Whether a poll of the feed continues an image, and which transactions it brought."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from app.core.continuity import Continuity, FeedPosition, continuity
from app.core.epochs import Standing
from app.core.image import AuthorizerImage
from app.core.records import FeedPoll, Record


def position_of(image: AuthorizerImage) -> FeedPosition | None:
    return None if image.epoch is None else FeedPosition(image.epoch, image.offset, image.hash)


def lost_history(
    known: FeedPosition | None, learned: FeedPosition | None, image: AuthorizerImage, poll: FeedPoll
) -> FeedPosition | None:
    """The one of these positions, or the image's, that the store does not continue; None if it continues all.

    `known` was known before this poll began. What was learned since may be missing from an older poll; but if another
    record is in its place, it is lost.
    """
    epochs, last_offset = poll.head.epochs, poll.head.last_offset
    for position in (known, position_of(image)):
        if position is not None:
            found = continuity(position, epochs, last_offset, _hash_at(position.offset, image, poll))
            if found in (Continuity.LOST, Continuity.DIVERGED):
                return position
    if learned is not None and epochs.judge(learned.token, last_offset) is Standing.PART:
        return learned if _hash_at(learned.offset, image, poll) not in (None, learned.hash) else None
    return None


def _hash_at(offset: int, image: AuthorizerImage, poll: FeedPoll) -> bytes | None:
    if offset == poll.head.last_offset:
        return poll.head.hash
    if offset == image.offset:
        return poll.hash_at
    behind = offset - image.offset - 1
    return poll.records[behind].hash if 0 <= behind < len(poll.records) else None


def mismatch_of(image: AuthorizerImage, poll: FeedPoll) -> str | None:
    """None if the feed continues the image."""
    head, token = poll.head, image.token
    if token is None or head.epochs.judge(token, head.last_offset) is not Standing.PART:
        return f"the image, at `{token}`, is not a part of the store's history"
    if image.offset + 1 < head.log_start_offset:
        return "the records after the image have been trimmed"
    if poll.hash_at != image.hash:
        return (
            "the record at the image's offset is gone" if poll.hash_at is None else "the store has a different history"
        )
    if head.last_offset == image.offset and None not in (head.digest, image.digest) and head.digest != image.digest:
        return "the image does not match the store's digest"
    return None


def transactions_of(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    for _, transaction in groupby(records, attrgetter("tx_last")):
        yield list(transaction)
