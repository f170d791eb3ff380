"""How jobs read their command line: what can't be meant is told in one line, before Spark is started."""

import argparse
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from app.core.spelling import did_you_mean
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.row_output import one_line

_INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
"""The highest offset that there can be."""

_BEGAN, _STEP = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_DIGITS = len(str(LONG_MAX))
_T = TypeVar("_T")


class JobParser(argparse.ArgumentParser):
    """An ArgumentParser whose refusals are one line that leads to --help.

    An empty text is refused: as a rule it is a shell's variable that is not set, and no default is meant by it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - those of ArgumentParser
        super().__init__(*args, **kwargs)
        self.register("type", None, _text)
        self.register("type", Path, lambda text: Path(_text(text)))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - as argparse has it
        """As argparse has it, but of a job's words none is left over for the command above it to refuse."""
        parsed, strays = super().parse_known_args(args, namespace)
        if strays:
            flags = [flag for action in self._actions for flag in action.option_strings]
            unknown = next((each for each in strays if each.startswith("-")), strays[0])
            self.error(f"there is no `{unknown}`{did_you_mean(unknown.partition('=')[0], flags)}")
        return parsed, strays

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - as argparse has it
        if action.choices is not None and value not in action.choices:
            known = [str(each) for each in action.choices]
            text = f"`{value}` is none of {', '.join(known)}{did_you_mean(str(value), known)}"
            raise argparse.ArgumentError(action, text)

    def error(self, message: str) -> NoReturn:
        """Ends the process with 2."""
        end = "" if message.endswith("?") else ";"
        self.exit(2, f"{self.prog}: {one_line(message)}{end} see {self.prog} --help\n")


def told_by(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """A `type` for an argument: what `parse` refuses with a PipelineError is told with the argument's name."""

    def read(text: str) -> _T:
        _refuse_other_encodings(text)
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
    try:
        time = time.astimezone(UTC)
    except OverflowError:
        time = _BEGAN - _STEP
    if time < _BEGAN:
        raise PipelineError(f"`{text}` is not of the years 1970 to 9999 in UTC, of which times are known")
    return time


def number_from(least: int, most: int | None = None) -> Callable[[str], int]:
    """A `type` for a whole number within bounds; without `most` one that Spark counts with (32 bits)."""
    limit = _INT_MAX if most is None else most

    def read(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
        if number is not None and least <= number <= limit:
            return number
        is_great = most is not None or (text.isascii() and text.isdigit() and number != 0)
        bounds = f"from {least:,} to {limit:,}" if is_great else f"from {least:,} on"
        raise argparse.ArgumentTypeError(f"expected a number {bounds}, not `{text}`")

    return read


def _text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the value is empty; give one, or leave the option out")
    return text


def _refuse_other_encodings(text: str) -> None:
    # Python keeps bytes of other encodings as halves of surrogate pairs, which Spark can't be told.
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"`{text}` is not UTF-8; write it in UTF-8") from None
