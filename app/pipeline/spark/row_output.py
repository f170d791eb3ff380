"""A result's rows: a table for people, CSV for programs."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from app.formats.arguments import one_line
from app.formats.csv_cells import csv_line
from app.pipeline.spark.errors import PipelineError

if TYPE_CHECKING:
    from rich.table import Table

Value = str | int | Sequence[str] | None
Row = Sequence[Value]

# The widest a column is padded to where there is no terminal; longer texts exceed it.
_WIDEST = 60
_GAP = "  "


def csv_lines(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    return (csv_line([_text(each) for each in row]) for row in chain([columns], rows))


def table_lines(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """One line for each row, however long."""
    return _padded([list(columns), *([one_line(_text(each)) for each in row] for row in rows)])


def write_whole(path: Path, text: str) -> None:
    """Writes aside and renames, so that nobody reads half of it."""
    half = path.with_name(f".{path.name}.new")
    try:
        half.write_text(text, encoding="utf-8", newline="\n")
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise PipelineError(f"can't write `{path}` ({error.strerror}); name another file: --output FILE") from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line}\n" for line in lines)
    except OSError as fault:
        raise PipelineError(
            f"`{path}` can't be written ({fault.strerror}); name another file and run it again: what the job has "
            "written into its home is kept"
        ) from None


def table_of(columns: Sequence[str], rows: Iterable[Row]) -> "Table":
    """For a terminal, which narrows the widest columns and folds their cells."""
    from rich.table import Table  # noqa: PLC0415 - spark-submit may not have brought it

    table = Table(box=None, padding=(0, len(_GAP), 0, 0), pad_edge=False, header_style="")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(one_line(_text(each)) for each in row))
    return table


def _padded(rows: list[list[str]]) -> Iterator[str]:
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        yield _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _text(value: Value) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return str(value) if isinstance(value, int) else " ".join(value)
