"""Rows of a result: laid out for people, to the letter for programs."""

import io
import json
import sys

import pytest

from app.pipeline.spark.progress import Console
from app.pipeline.spark.row_output import Row

COLUMNS = ("principal", "operations")
ROWS: tuple[Row, ...] = (("User:a\x1b[2J\n", ["READ", "WRITE"]), ("=cmd|' /C calc'!A0", []))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _printed(output: str, results: io.StringIO) -> str:
    Console("who", steps=io.StringIO(), results=results).rows(COLUMNS, ROWS, output)
    return results.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_programs_read_the_same_on_a_terminal_and_elsewhere(stream: type[io.StringIO]) -> None:
    lines = _printed("json", stream()).splitlines()
    assert [json.loads(line) for line in lines] == [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
    table = _printed("csv", stream())
    assert table.startswith("principal,operations\n")
    assert "\n'=cmd|'' /C calc'!A0," in table


def test_a_table_on_a_terminal_fits_it_and_sends_it_nothing_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    shown = _printed("table", Terminal())
    assert "\x1b[2J" not in shown
    assert "\\x1b[2J\\n" in "".join(shown.split())
    assert all(len(line) <= 30 for line in shown.splitlines())


def test_without_rich_and_elsewhere_a_table_is_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = _printed("table", io.StringIO())
    assert plain.splitlines()[0] == "principal           operations"
    assert plain.splitlines()[1] == "User:a\\x1b[2J\\n     READ WRITE"
    for name in ("rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    assert _printed("table", Terminal()) == plain
    assert not Console("who", steps=Terminal()).is_lively
