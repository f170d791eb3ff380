"""What a job says while it runs: steps with their seconds on one stream, results on another."""

import itertools
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_TURN_S = 0.1
_SIGNS = "|/-\\"


class Console:
    """Steps go to `steps` (standard error), what was asked for to `results` (standard output).

    On a terminal the step under way has a sign that turns and its seconds; elsewhere a line is written as it is known.
    """

    def __init__(
        self,
        job: str,
        *,
        quiet: bool = False,
        steps: TextIO | None = None,
        results: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._quiet = quiet
        self._steps = sys.stderr if steps is None else steps
        self._results = sys.stdout if results is None else results
        self._clock = clock
        self._open = False
        self._stage = ""

    @property
    def is_lively(self) -> bool:
        """Whether somebody looks on: steps go to a terminal."""
        return not self._quiet and self._steps.isatty()

    def on_stage(self, text: str) -> None:
        """How far the step under way has come; shown on a terminal only."""
        self._stage = text

    def of(self, job: str) -> "Console":
        """The same, in the name of another job; a terminal is told of Spark's stages through the first only."""
        return Console(job, quiet=self._quiet, steps=self._steps, results=self._results, clock=self._clock)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Say that this begins, and at its end how long it took: `reading offsets 1 to 1,000,000`."""
        began = self._clock()
        self._stage = ""
        if self._quiet:
            yield
            return
        self._begin(text)
        ended = threading.Event()
        turning = self._turn(text, began, ended)
        how = "failed after "
        try:
            yield
            how = ""
        finally:
            ended.set()
            if turning is not None:
                turning.join()
            self._end(text, f"{how}{seconds(self._clock() - began)}")

    def say(self, text: str) -> None:
        """A line of the result."""
        self._close_line()
        self._results.write(f"{text}\n")
        self._results.flush()

    def note(self, text: str) -> None:
        """A line beside the result, which is not wanted when all is to be quiet."""
        if not self._quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """A line beside the result that is said even if all is to be quiet."""
        self._close_line()
        self._steps.write(f"{self._job:<9} {text}\n")
        self._steps.flush()

    def _begin(self, text: str) -> None:
        self._close_line()
        self._steps.write(f"{self._job:<9} {text} ... ")
        self._steps.flush()
        self._open = True

    def _end(self, text: str, how: str) -> None:
        if self._steps.isatty():
            self._steps.write("\r\x1b[K")
            self._open = False
        # Something else was said meanwhile: the line is said anew.
        again = "" if self._open else f"{self._job:<9} {text} ... "
        self._steps.write(f"{again}{how}\n")
        self._steps.flush()
        self._open = False

    def _close_line(self) -> None:
        if self._open:
            self._steps.write("\r\x1b[K" if self._steps.isatty() else "\n")
            self._steps.flush()
        self._open = False

    def _turn(self, text: str, began: float, ended: threading.Event) -> threading.Thread | None:
        if not self._steps.isatty():
            return None

        def turn() -> None:
            for sign in itertools.cycle(_SIGNS):
                if ended.wait(_TURN_S):
                    return
                told = f" {sign} {seconds(self._clock() - began)}"
                room = shutil.get_terminal_size().columns - 1
                line = f"{self._job:<9} {text}"[: max(0, room - len(told))] + told
                self._steps.write(f"\r\x1b[K{f'{line}  {self._stage}'[:room]}")
                self._steps.flush()
                self._open = True

        thread = threading.Thread(target=turn, name="klamm-progress", daemon=True)
        thread.start()
        return thread


def seconds(duration_s: float) -> str:
    """`4.2 s`, `2 min 05 s`."""
    if duration_s < 100:  # noqa: PLR2004 - from here on minutes read better
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes} min {rest:02} s"
