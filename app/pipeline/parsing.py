"""How jobs read their command line: what can't be meant is told in one line, before Spark is started."""

import argparse
from collections.abc import Callable
from datetime import datetime
from typing import NoReturn, TypeVar

from app.pipeline.errors import PipelineError

_T = TypeVar("_T")


class JobParser(argparse.ArgumentParser):
    """An ArgumentParser whose refusals are one line that leads to --help."""

    def error(self, message: str) -> NoReturn:
        """Ends the process with 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def told_by(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """A `type` for an argument: what `parse` refuses with a PipelineError is told with the argument's name."""

    def read(text: str) -> _T:
        try:
            return parse(text)
        except PipelineError as fault:
            raise argparse.ArgumentTypeError(str(fault)) from None

    return read


def parse_time(text: str) -> datetime:
    """The time that an option names. Raises PipelineError for one without a zone, which would mean many times."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(f"`{text}` is no time; write it as 2026-11-22T12:00:00Z") from None
    if time.tzinfo is None:
        raise PipelineError(f"`{text}` names no zone; add Z for UTC, or an offset as in {text}+01:00")
    return time


def number_from(least: int, most: int | None = None) -> Callable[[str], int]:
    """A `type` for a whole number within bounds."""
    bounds = f"from {least:,} on" if most is None else f"from {least:,} to {most:,}"

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and least <= int(text) and (most is None or int(text) <= most):
            return int(text)
        raise argparse.ArgumentTypeError(f"expected a number {bounds}, not `{text}`")

    return read
