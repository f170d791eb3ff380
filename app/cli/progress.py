"""Progress of a long command: a bar on a terminal, elsewhere a line every few seconds."""

from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from app.formats.clock import SYSTEM_CLOCK, Clock

LINE_EVERY_S = 5.0


class ProgressDisplay:
    def __init__(self, stream: TextIO, *, quiet: bool = False, clock: Clock = SYSTEM_CLOCK) -> None:
        self._stream = stream
        self._lines = not quiet and not stream.isatty()
        self._clock = clock.monotonic
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(),
            console=Console(file=stream),
            transient=True,
            disable=quiet or not stream.isatty(),
        )
        self._stage: TaskID | None = None
        self._name = ""
        self._total = 0
        self._began_at = 0.0
        self._line_at = 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def stage(self, name: str, total: int) -> None:
        if self._stage is not None:
            self._bar.remove_task(self._stage)
        self._stage = self._bar.add_task(name, total=max(1, total), said="")
        self._name, self._total = name, max(1, total)
        self._began_at = self._clock()
        self._line_at = self._began_at + LINE_EVERY_S

    def done(self, done: int, count: int | None = None, trouble: str | None = None) -> None:
        """`done` is part of the stage's total, `count` is in ACLs. `trouble` is what the stage is waiting for."""
        if self._stage is None:
            return
        now = self._clock()
        seconds = max(now - self._began_at, 0.001)
        said = "" if count is None else f"{count:,} ACLs, {count / seconds:,.0f}/s"
        if trouble is not None:
            said = f"{said}; waiting: {trouble}"
        self._bar.update(self._stage, completed=done, said=said)
        if self._lines and now >= self._line_at:
            self._line_at = now + LINE_EVERY_S
            left = seconds / done * (self._total - done) if done else None
            parts = [f"klamm: {self._name} {100 * done // self._total} %", said]
            parts.append("" if left is None else f"about {left:.0f} s left")
            self._stream.write(f"{', '.join(filter(None, parts))}\n")
            self._stream.flush()
