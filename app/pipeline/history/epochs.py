"""The epochs of a history as manifests and the store's head have them: the tokens of the states in which they began."""

from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

from app.core.epochs import Epoch, Epochs
from app.core.kafka.errors import InvalidRequestException
from app.core.token import Token
from app.pipeline.spark.errors import PipelineError


def epochs_in(tokens: Sequence[str]) -> Epochs:
    """Raises PipelineError."""
    try:
        began = [Token.parse(each, "epoch") for each in tokens]
        return Epochs.of(Epoch(each.epoch, each.offset) for each in began)
    except (InvalidRequestException, ValueError):
        raise PipelineError(f"`{' '.join(tokens)[:200]}` are not the epochs of a history; restore them") from None


def noted_epochs(text: str) -> Epochs:
    """Of the epoch in force, and the tokens of the states in which the noted ones began, the newest first."""
    last, *noted = text.split()
    began = (Token.parse(each, "epoch") for each in noted)
    return Epochs.noted(UUID(last), (Epoch(each.epoch, each.offset) for each in began))


def tokens_of(epochs: Epochs) -> tuple[str, ...]:
    return tuple(str(Token(each.id, each.first_offset)) for each in epochs.rows)


def epochs_between(epochs: Epochs, after: int, through: int) -> Epochs:
    """Those that were in force at an offset from `after` to `through`."""
    begun = epochs.upto(through).rows
    ended = sum(later.first_offset < after for _, later in pairwise(begun))
    return Epochs(begun[ended:])


def is_one_history(epochs: Epochs, offset: int, others: Epochs, others_offset: int) -> bool:
    """Whether one of two states, of histories with these epochs, is a part of the other's history."""
    return epochs.has(others.token_of(others_offset), offset) or others.has(epochs.token_of(offset), others_offset)


def last_offsets(epochs: Epochs, last_offset: int) -> list[tuple[str, int]]:
    """Each epoch, and the last offset of which its tokens are part of the history that ends at `last_offset`."""
    ends = [each.first_offset for each in epochs.rows[1:]]
    return [(str(each.id), min(end, last_offset)) for each, end in zip(epochs.rows, [*ends, last_offset], strict=True)]
