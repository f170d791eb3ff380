"""Threads that do something as long as a block lasts."""

import threading
from collections.abc import Callable
from typing import Self

from tests.klamm import LIMIT_S


class Repeating:
    """Each of the targets has a thread, and comes to its end soon after `done` is set, which the block's end does."""

    def __init__(self, *targets: Callable[[], None]) -> None:
        self.done = threading.Event()
        self._threads = [threading.Thread(target=each) for each in targets]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        for thread in self._threads:
            thread.join(LIMIT_S)
