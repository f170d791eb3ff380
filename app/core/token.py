"""Consistency tokens `<epoch>:<offset>`: opaque to callers, compared by Klamm."""

import re
from dataclasses import dataclass
from uuid import UUID

from app.core.kafka.errors import InvalidRequestException

_FORM = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}):(0|[1-9][0-9]{0,18})\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Token:
    """The state of the store behind an answer: an epoch and an offset in it."""

    epoch: UUID
    offset: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.offset}"

    @staticmethod
    def parse(text: str, field: str = "at_least") -> "Token":
        """Raises InvalidRequestException, which names the field, for a text that is no token."""
        found = _FORM.match(text)
        if found is None or int(found[2]) >= 1 << 63:
            raise InvalidRequestException(f"`{field}` is not a token of this service; send one from an earlier reply")
        return Token(UUID(found[1]), int(found[2]))
