"""Builds what stays without garbage collections, which would walk over all of it again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """For building what has no cycles; a full collection over a growing image stops the process for 100 ms and more."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
