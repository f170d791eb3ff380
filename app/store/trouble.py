"""Trouble with a database, told to its operator once an outage."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.core.kafka.errors import StoreUnavailableException


class Trouble:
    """One way to a database, which is in trouble or is not; `tell` gets why, as callers hear it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._is_known = False

    @contextmanager
    def told(self) -> Iterator[None]:
        """A StoreUnavailableException of the block is told of, unless the block before failed as well."""
        try:
            yield
        except StoreUnavailableException as fault:
            if not self._is_known:
                self._tell(fault.message)
            self._is_known = True
            raise
        self._is_known = False
