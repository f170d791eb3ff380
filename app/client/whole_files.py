"""Files that are written whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TextIO


@contextmanager
def written_whole(target: Path, *, replaces: bool = True, mode: int = 0o666) -> Iterator[TextIO]:
    """A file beside the target, which takes its place at the end, or is removed if anything fails.

    It has the line ends that are written. Raises OSError; FileExistsError unless it `replaces` a file that exists.
    """
    beside = target.parent / f".{target.name[:100]}.{secrets.token_hex(6)}"
    try:
        with open(beside, "x", encoding="utf-8", newline="", opener=partial(os.open, mode=mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replaces:
            beside.replace(target)
        else:
            _put_new(beside, target)
    finally:
        with suppress(OSError):
            beside.unlink()


def _put_new(beside: Path, target: Path) -> None:
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no hard links.
        if target.exists():
            raise FileExistsError from None
        beside.replace(target)
