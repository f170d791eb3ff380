"""The events as readers are sent them: encoded lines, and how they are cut into slices for a connection."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

SLICE_BYTES = 16 * 1024
"""A connection is given no more at once, and no more before its client has taken that."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Line:
    """One event: its name, the state that a reader has after it (None: it can't go on from there), and its JSON."""

    event: str
    token: str | None
    json: bytes
    is_withdrawn: bool = False
    """Whether the rest of it is not sent any more: its memory is needed, and who still reads it is cut off."""
    sent: int = 0
    """How many bytes of it were written, if it is one reader's own."""


State = tuple[bytes, int | None]
"""Hash and digest of an image."""

Frame = Callable[[Line], tuple[bytes, bytes, bytes]]
"""How a line is written to a client: what stands before its JSON, the JSON, and what stands behind it."""

Form = Callable[[Iterable[Line]], bytes]
"""How short lines are written to a client, together."""


@dataclass(slots=True, eq=False)
class Part:
    """What all readers at one offset are sent next: whole transactions, and the state of the image after them."""

    lines: Sequence[Line]
    size: int
    """In bytes of JSON: one transaction, or as many as SLICE_BYTES hold."""
    epoch: UUID
    last: int
    state: State
    recorded_at: datetime
    """When the last of them was written."""
    _written: dict[Form, bytes] = field(default_factory=dict)

    def written(self, form: Form) -> bytes:
        """The same bytes for all readers of this form."""
        found = self._written.get(form)
        if found is None:
            found = self._written[form] = form(self.lines)
        return found


class Slices:
    """Lines as they are written to a client, in slices of at most SLICE_BYTES. INVARIANT: JSON is not copied whole."""

    def __init__(self, lines: Iterable[Line], frame: Frame) -> None:
        self._pieces = deque((line, piece) for line in lines for piece in frame(line) if piece)
        self._position = 0
        """In the first piece."""

    @property
    def is_empty(self) -> bool:
        return not self._pieces

    @property
    def is_withdrawn(self) -> bool:
        return bool(self._pieces) and self._pieces[0][0].is_withdrawn

    def take(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while self._pieces and size < SLICE_BYTES:
            line, piece = self._pieces[0]
            part = piece[self._position : self._position + SLICE_BYTES - size]
            self._position += len(part)
            if self._position == len(piece):
                self._pieces.popleft()
                self._position = 0
            size += len(part)
            line.sent += len(part)
            parts.append(part)
        return b"".join(parts)
