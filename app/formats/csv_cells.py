"""Texts that a spreadsheet would run as formulas, marked in CSV so that it shows them, and so that they are read back.

A text is marked by an apostrophe at its begin, and behind each `;`, `|`, tab and line end in it: a spreadsheet set to
another separator than the comma begins a cell there, quotes or not.
"""

import csv
import io
import re
from collections.abc import Iterable

MARK = "'"

_PASSED_OVER = re.compile("[^\\S\t\r\n]|['\"\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2060\ufeff]")
"""White space, quotes and what can't be seen, which a spreadsheet may drop before it looks at a cell; and marks."""

_FORMULA = re.compile("(?:\\A|[;|\t\r\n])[=+\\-@\uff1d\uff0b\uff0d\uff20]|\\A[\t\r\n]")
_CELL_BEGINS = re.compile("(\\A|[;|\t\r\n])")
_MARKED = re.compile("(\\A|[;|\t\r\n])'")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet may take the text, or a part that it splits off, for a formula, marks or not."""
    # INVARIANT: marks are passed over here, so that a marked text is as much of a formula as before.
    return _FORMULA.search(_PASSED_OVER.sub("", text)) is not None


def marked(text: str) -> str:
    """The text as a cell: as it is, or with marks if it looks like a formula."""
    return _CELL_BEGINS.sub(r"\1'", text) if is_formula(text) else text


def unmarked(cell: str) -> str | None:
    """The text that was `marked`; None if a mark is missing, and with it what the text was."""
    if not is_formula(cell):
        return cell
    text, marks = _MARKED.subn(r"\1", cell)
    return text if marks == len(_CELL_BEGINS.findall(cell)) else None


def csv_line(fields: Iterable[str]) -> str:
    """One record (RFC 4180) in which texts that a spreadsheet would run are marked."""
    line = io.StringIO(newline="")
    # With another line end the writer would leave line feeds in fields unquoted.
    csv.writer(line, lineterminator="\r\n").writerow([marked(each) for each in fields])
    return line.getvalue().removesuffix("\r\n")
