"""What a job prints while it runs: steps with their seconds on standard error, results on standard output."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from app.formats.arguments import one_line
from app.pipeline.spark.errors import NotYetError
from app.pipeline.spark.row_output import Row, table_lines, table_of

if TYPE_CHECKING:
    from rich.console import Console as Terminal
    from rich.progress import Progress

_NARROWEST = 10
"""Terminal columns that each column of a table needs; with fewer, rows are printed as they are."""
_MOST_FITTED = 1_000
"""The most rows that are fitted to the terminal, which takes rich half a millisecond each; else none is."""
_MINUTES_FROM_S = 100
"""From here on minutes read better than seconds."""


class Console:
    """Steps go to standard error, with a spinner on a terminal; what was asked for goes to standard output."""

    def __init__(
        self,
        job: str,
        *,
        quiet: bool = False,
        steps: TextIO | None = None,
        results: TextIO | None = None,
    ) -> None:
        self._job = job
        self._quiet = quiet
        self._steps = sys.stderr if steps is None else steps
        self._results = sys.stdout if results is None else results
        self._progress = None if quiet else _progress_on(_terminal_on(self._steps))
        self._line_is_open = False

    @property
    def is_lively(self) -> bool:
        return self._progress is not None

    def on_stage(self, text: str) -> None:
        if self._progress is not None and self._progress.tasks:
            self._progress.update(self._progress.task_ids[-1], stage=text)

    def of(self, job: str) -> "Console":
        """The console of another job in this run. Spark's stages still go to the first one only."""
        return Console(job, quiet=self._quiet, steps=self._steps, results=self._results)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Prints that it begins, and how long it took: `reading offsets 1 to 1,000,000 ... 4.2 s`."""
        began = time.monotonic()
        if self._quiet:
            yield
            return
        line = f"{self._job:<9} {text} ... "
        self._close_line()
        if self._progress is not None:
            self._progress.add_task(one_line(line), stage="")
            self._progress.start()
        else:
            self._steps.write(line)
            self._steps.flush()
            self._line_is_open = True
        how = "failed after "
        try:
            yield
            how = ""
        except NotYetError:
            how = "nothing there yet, "
            raise
        finally:
            if self._progress is not None:
                self._progress.remove_task(self._progress.task_ids[-1])
            # Something else was printed meanwhile, so the line is printed again.
            again = "" if self._line_is_open else line
            self._line_is_open = False
            self._write(self._steps, f"{again}{how}{seconds(time.monotonic() - began)}")

    def say(self, text: str) -> None:
        self._write(self._results, text)

    def rows(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        terminal = _terminal_on(self._results)
        if terminal is None or terminal.width < _NARROWEST * len(columns) or len(rows) > _MOST_FITTED:
            for line in table_lines(columns, rows):
                self.say(line)
            return
        with terminal.capture() as drawn:
            terminal.print(table_of(columns, rows))
        for line in drawn.get().splitlines():
            self.say(line.rstrip())

    def note(self, text: str) -> None:
        if not self._quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        self._write(self._steps, f"{self._job:<9} {text}")

    def _write(self, stream: TextIO, text: str) -> None:
        self._close_line()
        if self._progress is not None:
            self._progress.stop()
        stream.write(f"{text}\n")
        stream.flush()
        if self._progress is not None and self._progress.tasks:
            self._progress.start()

    def _close_line(self) -> None:
        if self._line_is_open:
            self._steps.write("\n")
            self._steps.flush()
        self._line_is_open = False


def _terminal_on(stream: TextIO) -> "Terminal | None":
    """None without a terminal, or without rich, which spark-submit may not have brought."""
    if not stream.isatty():
        return None
    try:
        from rich.console import Console as Terminal  # noqa: PLC0415 - see above
    except ModuleNotFoundError:
        return None
    return Terminal(file=stream, color_system=None, highlight=False, markup=False, emoji=False)


def _progress_on(terminal: "Terminal | None") -> "Progress | None":
    if terminal is None:
        return None
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as rich itself

    return Progress(
        TextColumn("{task.description}", markup=False),
        SpinnerColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[stage]}", markup=False),
        console=terminal,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def seconds(duration_s: float) -> str:
    """`4.2 s`, `2 min 05 s`."""
    if duration_s < _MINUTES_FROM_S:
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes} min {rest:02} s"
