"""Rows of a result: a table for people, JSON lines and CSV for programs."""

import argparse
import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from app.formats.arguments import one_line
from app.formats.csv_cells import marked
from app.pipeline.spark.errors import PipelineError

Value = str | int | Sequence[str] | None
Row = Sequence[Value]

# The widest a column is padded to where no terminal wraps it; longer texts exceed it.
_WIDEST = 60


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


def write_lines(path: Path, lines: Iterable[str]) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line}\n" for line in lines)
    except OSError as fault:
        raise PipelineError(f"`{path}` can't be written: {fault.strerror}") from None


def terminal_table(columns: Sequence[str], rows: Iterable[Row], stream: TextIO) -> Iterator[str] | None:
    """The lines of a table that fits the terminal; None if the stream is none, or without rich."""
    if not stream.isatty():
        return None
    try:
        from rich.console import Console  # noqa: PLC0415 - spark-submit may not have brought it
        from rich.table import Table  # noqa: PLC0415 - the same
        from rich.text import Text  # noqa: PLC0415 - the same
    except ModuleNotFoundError:
        return None
    table = Table(box=None, pad_edge=False, header_style="bold")
    for each in columns:
        table.add_column(each, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(_text(each))) for each in row))
    terminal = Console(file=stream)
    with terminal.capture() as captured:
        terminal.print(table)
    return iter(captured.get().splitlines())


def _padded(rows: list[list[str]]) -> Iterator[str]:
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _text(value: Value) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return str(value) if isinstance(value, int) else " ".join(value)
