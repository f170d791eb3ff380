"""One output for several processes: what one writes stays in one piece."""

import errno
import fcntl
import os
import sys
import tempfile
import time
from typing import IO

_PATIENCE_S = 2.0
_POLL_S = 0.002


def output_lock() -> IO[bytes]:
    """A file without a name for processes to lock; it is inherited by its descriptor.

    In memory where that can be had, for a container may have no folder to write to.
    """
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("klamm-output"), "w+b")
    return tempfile.TemporaryFile()


class SharedOutput:
    """Standard output, which sibling processes write to as well; `lock` None: this process is alone."""

    def __init__(self, lock: int | None = None) -> None:
        self._lock = lock

    def write(self, lines: str) -> None:
        """Write whole lines. Nothing of a sibling's gets between them: else a long line's rest could pass for its own.

        A sibling that stands still with the lock in its hands is waited for two seconds, not longer.
        """
        if self._lock is None:
            self._put(lines)
            return
        locked = self._acquire(self._lock)
        try:
            self._put(lines)
        finally:
            if locked:
                fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def _put(self, lines: str) -> None:
        sys.stdout.write(lines)
        sys.stdout.flush()

    def _acquire(self, lock: int) -> bool:
        # INVARIANT: a lock of this kind belongs to the process, inherited descriptor or not, and ends with it.
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
                time.sleep(_POLL_S)
            else:
                return True
        return False
