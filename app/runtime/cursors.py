"""Cursors of lists in pages: the place in the list's order where the next page begins, as text."""

import base64
import json
from contextlib import suppress
from typing import Annotated, Generic, TypeVar

import msgspec

from app.core.kafka.errors import InvalidRequestException

P = TypeVar("P")

_MAX_CHARACTERS = 1_000_000

Code = Annotated[int, msgspec.Meta(ge=0, le=127)]


class Cursors(Generic[P]):
    """The cursors of one list, whose places are of this type."""

    def __init__(self, place: type[P]) -> None:
        self._place = msgspec.json.Decoder(place)

    def encode(self, place: P) -> str:
        text = json.dumps(place, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()

    def decode(self, cursor: str) -> P:
        """Raises InvalidRequestException."""
        with suppress(ValueError, RecursionError):
            if len(cursor) <= _MAX_CHARACTERS:
                place = self._place.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
                # Each place has only one valid text.
                if self.encode(place) == cursor:
                    return place
        raise InvalidRequestException("`cursor` is not from this service; send a `next_cursor` from an earlier reply")
