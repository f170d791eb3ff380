"""One transaction of the feed into an image: prepared in short steps, seen all at once."""

from collections.abc import Callable, Sequence

from app.core.collection import collection_paused
from app.core.image import AuthorizerImage, StagedTransaction
from app.core.kafka.errors import PoisonedRecordException
from app.core.records import Record
from app.runtime.pace import run_through

AT_ONCE = 64  # this many records take about a millisecond; more are first prepared beside the image


class ImageLostException(Exception):
    """A fault while an index was being changed: it may be half changed, so nothing may be decided on it."""


async def apply_in_steps(
    image: AuthorizerImage, transaction: Sequence[Record], seen: Callable[[AuthorizerImage], None] = lambda _: None
) -> AuthorizerImage:
    """The image after the transaction; `seen` gets it in the same step of the loop in which readers first see it.

    The image must be the newest of its index, and this the only change under way. Raises ImageLostException, or
    PoisonedRecordException and other faults with nothing changed; a cancellation also leaves the image as it was.
    """
    if len(transaction) <= AT_ONCE:
        after = _changed(lambda: image.apply(transaction))
        seen(after)
        return after
    with collection_paused():
        staged = StagedTransaction(image, transaction)
        try:
            await run_through(staged.steps())
        except BaseException:
            staged.abandon()
            raise
        # INVARIANT: no await between these two lines; an image's index and its offset change together.
        after = _changed(staged.commit)
        seen(after)
        await run_through(staged.tidy())
    return after


def _changed(change: Callable[[], AuthorizerImage]) -> AuthorizerImage:
    try:
        return change()
    except PoisonedRecordException:
        raise
    except Exception as fault:
        raise ImageLostException("the image was lost because of a fault; see the log") from fault
