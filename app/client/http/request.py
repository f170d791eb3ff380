"""A call to a service, before it is made."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """A call. `idempotent`: doing it twice is as good as once, so it may be repeated whatever became of it."""

    method: str
    path: str
    content: bytes | None
    idempotent: bool
