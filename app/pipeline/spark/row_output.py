"""Rows of a result: a table for people, JSON lines and CSV for programs."""

import argparse
import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from app.formats.arguments import one_line
from app.formats.csv_cells import marked
from app.pipeline.spark.cells import cells, folded
from app.pipeline.spark.errors import PipelineError

Value = str | int | Sequence[str] | None
Row = Sequence[Value]

# The widest a column is padded to where there is no terminal; longer texts exceed it.
_WIDEST = 60
# On a terminal.
_NARROWEST = 8
_MOST_LINES = 3
_GAP = "  "


def add_output(parser: argparse.ArgumentParser) -> None:
    choices = ("table", "json", "csv")
    parser.add_argument("--output", choices=choices, default="table", help="how rows are printed (default: table)")


def lines_of(columns: Sequence[str], rows: Iterable[Row], output: str) -> Iterator[str]:
    if output == "json":
        return (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)
    if output == "csv":
        return (csv_line([_text(each) for each in row]) for row in [columns, *rows])
    return _padded([list(columns), *([one_line(_text(each)) for each in row] for row in rows)])


def csv_line(fields: Sequence[str]) -> str:
    """One record (RFC 4180) in which texts that a spreadsheet would run are marked."""
    line = io.StringIO(newline="")
    # With another line end the writer would leave line feeds in fields unquoted.
    csv.writer(line, lineterminator="\r\n").writerow([marked(each) for each in fields])
    return line.getvalue().removesuffix("\r\n")


def write_whole(path: Path, text: str) -> None:
    """Written aside and renamed, so that nobody reads half of it."""
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
        raise PipelineError(f"`{path}` can't be written: {fault.strerror}") from None


def terminal_table(columns: Sequence[str], rows: Iterable[Row], width: int) -> tuple[list[str], bool]:
    """The lines of a table that is no wider than this, and whether anything had to be left out for it.

    The widest columns are narrowed, their cells wrapped. Where not even that has room, each row is a list of its cells.
    """
    table = [list(columns), *([one_line(_text(each)) for each in row] for row in rows)]
    widths = [max(map(cells, column)) for column in zip(*table, strict=True)]
    room = width - len(_GAP) * (len(columns) - 1)
    most = max(widths)
    if sum(widths) > room:
        fits = [most for most in range(_NARROWEST, room + 1) if sum(min(each, most) for each in widths) <= room]
        if not fits:
            return _listed(table, width)
        most = fits[-1]
    widths = [min(each, most) for each in widths]
    lines: list[str] = []
    is_cut = False
    for row in table:
        wrapped = [folded(text, room, _MOST_LINES) for text, room in zip(row, widths, strict=True)]
        is_cut = is_cut or any(each.is_cut for each in wrapped)
        for line in zip_longest(*(each.lines for each in wrapped), fillvalue=""):
            padded = (f"{text}{' ' * (room - cells(text))}" for text, room in zip(line, widths, strict=True))
            lines.append(_GAP.join(padded).rstrip())
    return lines, is_cut


def _listed(table: Sequence[Sequence[str]], width: int) -> tuple[list[str], bool]:
    """A line for each cell, and one without text between rows."""
    heads, *rows = table
    lines: list[str] = []
    is_cut = False
    for row in rows:
        for head, text in zip(heads, row, strict=True):
            wrapped = folded(f"{head}: {text}", width, _MOST_LINES)
            is_cut = is_cut or wrapped.is_cut
            lines += wrapped.lines
        lines.append("")
    return lines[:-1], is_cut


def _padded(rows: list[list[str]]) -> Iterator[str]:
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        yield _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _text(value: Value) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return str(value) if isinstance(value, int) else " ".join(value)
