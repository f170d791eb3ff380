"""What the JVM of a local run writes to standard error: kept for the case of a fault, all but its progress bar."""

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_KEPT_LINES = 200
_CLASS = re.compile(r'^(Exception in thread "[^"]*" )?((?:[\w$]+\.)+[\w$]*(?:Exception|Error): )?')
_BAR = re.compile(r"\r?\[Stage (\d+):[=> ]*\((\d+) \+ \d+\) / (\d+)\][^\r\n]*|\r +\r")
"""A turn of Spark's progress bar, or the blanks that wipe it out."""
_MEANINGFUL = re.compile(r"(Error|Exception|[Uu]nresolved|[Ii]nvalid|[Uu]nrecognized|not found|refused)")
_STDERR = 2
_LONGEST_LINE = 10_000
_READ_S = 2.0


class JvmOutput:
    """Takes the standard error of the JVM that is started meanwhile, for as long as that JVM lives.

    `on_stage` is told how far Spark's work has come, whenever its progress bar moves.
    """

    def __init__(self, on_stage: Callable[[str], None] | None = None) -> None:
        self._on_stage = on_stage
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._reader: threading.Thread | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Processes that are started in here write to a pipe instead of this process' standard error."""
        sys.stderr.flush()
        ours = os.dup(_STDERR)
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(reading,), name="klamm-jvm", daemon=True)
        self._reader.start()
        os.dup2(writing, _STDERR)
        os.close(writing)
        try:
            yield
        finally:
            os.dup2(ours, _STDERR)
            os.close(ours)

    def last_words(self) -> str:
        """The line that most likely says why it did not start; empty if it said nothing. To be called after its end."""
        if self._reader is not None:
            self._reader.join(_READ_S)
        lines = [line.strip() for line in self._lines if line.strip() and not line.lstrip().startswith("at ")]
        said = next((line for line in lines if _MEANINGFUL.search(line)), lines[-1] if lines else "")
        return _CLASS.sub("", said)

    def _read(self, reading: int) -> None:
        rest = ""
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65_536):
                text = rest + chunk.decode(errors="replace")
                bars = [match for match in _BAR.finditer(text) if match[1]]
                if bars and self._on_stage is not None:
                    self._on_stage(f"stage {bars[-1][1]}: {bars[-1][2]} of {bars[-1][3]} tasks")
                *lines, rest = _BAR.sub("", text).split("\n")
                # The bar ends with no newline, and what nobody ends grows no further than this.
                rest = rest[-_LONGEST_LINE:]
                self._lines.extend(lines)
        self._lines.append(rest)
