"""Rows of a result on standard output: a table for people, JSON lines and CSV for programs."""

import argparse
import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from app.formats.csv_cells import marked
from app.pipeline.spark.errors import PipelineError

OUTPUTS = ("table", "json", "csv")

Value = str | int | Sequence[str] | None
Row = Sequence[Value]

_LARGEST = 60
"""The widest a column of a table is padded to; longer texts stand out whole."""


def add_output(parser: argparse.ArgumentParser) -> None:
    """The option that says which."""
    parser.add_argument("--output", choices=OUTPUTS, default="table", help="how rows are printed (default: table)")


def lines_of(columns: Sequence[str], rows: Iterable[Row], output: str) -> Iterator[str]:
    """The rows in this form, line by line without line ends. A table is laid out when all rows are known."""
    if output == "json":
        return (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)
    if output == "csv":
        return (csv_line([_text(each) for each in row]) for row in [columns, *rows])
    return _table([list(columns), *([_shown(each) for each in row] for row in rows)])


def csv_line(fields: Sequence[str]) -> str:
    """One record of CSV (RFC 4180), without a text that a spreadsheet would run (`app.formats.csv_cells`)."""
    line = io.StringIO(newline="")
    # With another line end the writer would leave line feeds in fields unquoted.
    csv.writer(line, lineterminator="\r\n").writerow([marked(each) for each in fields])
    return line.getvalue().removesuffix("\r\n")


def one_line(text: str) -> str:
    """The text with every character that can't be printed, line ends among them, escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """The lines as a file. Raises PipelineError where none can be."""
    try:
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line}\n" for line in lines)
    except OSError as fault:
        raise PipelineError(f"`{path}` can't be written: {fault.strerror}") from None


def _table(rows: list[list[str]]) -> Iterator[str]:
    widths = [min(_LARGEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _text(value: Value) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return str(value) if isinstance(value, int) else " ".join(value)


def _shown(value: Value) -> str:
    """A text on one line of a screen; what can't be seen is escaped."""
    return one_line(_text(value))
