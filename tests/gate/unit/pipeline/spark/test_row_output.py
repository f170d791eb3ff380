"""Rows of a result: laid out for people, to the letter for programs."""

import csv
import io
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.progress import Console
from app.pipeline.spark.row_output import Row, csv_lines, write_lines

COLUMNS = ("principal", "operations")
ROWS: tuple[Row, ...] = (("User:a\x1b[2J\n", ["READ", "WRITE"]), ("=cmd|' /C calc'!A0", []))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _printed(results: io.StringIO) -> str:
    Console("hygiene", steps=io.StringIO(), results=results).rows(COLUMNS, ROWS)
    return results.getvalue()


def test_csv_keeps_texts_to_the_character_and_marks_what_a_spreadsheet_would_run() -> None:
    text = "\n".join(csv_lines(COLUMNS, [("a\nb", ["READ", "WRITE"]), ('"x",😀', []), *ROWS]))
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        list(COLUMNS),
        ["a\nb", "READ WRITE"],
        ['"x",😀', ""],
        ["User:a\x1b[2J\n", "READ WRITE"],
        ["'=cmd|'' /C calc'!A0", ""],
    ]


@pytest.mark.parametrize("columns", [40, 80, 132, 1_000])
def test_a_table_on_a_terminal_is_never_wider_has_all_and_sends_it_nothing_of_a_name(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    names = ("User:a\x1b[2J\n", "[bold]User:" + "日本" * 100, "😀" * 30, "e\u0301" * 50, "a b " * 99, "")
    rows: list[Row] = [(name, ["READ", "WRITE"], number, "x") for number, name in enumerate(names)]
    results = Terminal()
    Console("hygiene", steps=io.StringIO(), results=results).rows((*COLUMNS, "number", "by"), rows)
    shown = results.getvalue()
    assert "\x1b" not in shown
    assert max(cell_len(line) for line in shown.splitlines()) <= columns
    assert [shown.count(each) for each in ("日", "😀", "[bold]")] == [100, 30, 1]


def test_a_terminal_too_narrow_for_a_table_gets_each_row_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "15")
    assert _printed(Terminal()) == _printed(io.StringIO())


def test_more_rows_than_anybody_reads_are_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    fitted, plain = Terminal(), Terminal()
    for results, count in ((fitted, 1_000), (plain, 1_001)):
        Console("hygiene", steps=io.StringIO(), results=results).rows(COLUMNS, [("User:" + "x" * 60, ["READ"])] * count)
    assert len(fitted.getvalue().splitlines()) > 2_000
    assert len(plain.getvalue().splitlines()) == 1_002


def test_a_long_name_is_folded_and_numbers_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    results = Terminal()
    long = "User:" + "service-" * 12 + "the-last"
    Console("hygiene", steps=io.StringIO(), results=results).rows(("principal", "decisions"), [(long, "1,234,567")])
    head, *lines = results.getvalue().splitlines()
    assert head.split() == ["principal", "decisions"]
    assert lines[0].endswith("  1,234,567")
    assert lines[0].removesuffix("  1,234,567") + lines[1] == long


def test_behind_a_pipe_each_row_is_one_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    plain = _printed(io.StringIO())
    assert plain.splitlines()[0] == "principal           operations"
    assert plain.splitlines()[1] == "User:a\\x1b[2J\\n     READ WRITE"


def test_without_rich_there_is_no_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rich.console",):
        monkeypatch.setitem(sys.modules, name, None)
    assert not Console("hygiene", steps=Terminal()).is_lively


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is full")
def test_a_file_on_a_full_disk_is_named_with_a_way_out() -> None:
    with pytest.raises(
        PipelineError, match=r"^`/dev/full` can't be written \(No space .*\); name another file and run"
    ):
        write_lines(Path("/dev/full"), ["a"])
