"""Every case of the earlier listing is kept, moved, merged or gone; nothing else passes."""

import gzip
from pathlib import Path

import pytest

from tests.campaign.compare_collections import Explanation, compare, draft, main, read_explanations, read_listing


def test_kept_and_moved_are_found_without_help() -> None:
    comparison = compare(["t/a.py::test_x", "t/a.py::test_y[1]"], ["t/a.py::test_x", "t/gate/b.py::test_y[1]"])
    assert comparison.fates == {
        "t/a.py::test_x": ("kept", "t/a.py::test_x"),
        "t/a.py::test_y[1]": ("moved", "t/gate/b.py::test_y[1]"),
    }
    assert comparison.is_whole


def test_other_parameters_are_another_case() -> None:
    assert compare(["t/a.py::test_x[1]"], ["t/b.py::test_x[2]"]).unexplained == ["t/a.py::test_x[1]"]


def test_one_new_case_stands_for_one_old_case_only() -> None:
    comparison = compare(["t/a.py::test_x", "t/b.py::test_x"], ["t/gate/b.py::test_x"])
    assert comparison.fates == {"t/b.py::test_x": ("moved", "t/gate/b.py::test_x")}
    assert comparison.unexplained == ["t/a.py::test_x"]


def test_the_file_of_the_same_name_comes_first() -> None:
    comparison = compare(["t/a.py::test_x", "t/b.py::test_x"], ["t/gate/b.py::test_x", "t/gate/a.py::test_x"])
    assert comparison.fates["t/a.py::test_x"] == ("moved", "t/gate/a.py::test_x")


def test_a_line_explains_a_function_with_all_its_cases_and_no_longer_name() -> None:
    lines = read_explanations("# why\n\nmerged: t/a.py::test_x -> t/b.py::test_all\n")
    comparison = compare(["t/a.py::test_x[1]", "t/a.py::test_x[2]", "t/a.py::test_xy"], ["t/b.py::test_all"], lines)
    assert {case: fate for case, (fate, _) in comparison.fates.items()} == {
        "t/a.py::test_x[1]": "merged",
        "t/a.py::test_x[2]": "merged",
    }
    assert comparison.unexplained == ["t/a.py::test_xy"]


def test_the_most_exact_line_holds() -> None:
    lines = read_explanations("gone: t/: tested what went\nmerged: t/a.py::test_x[1] -> t2/b.py::test_all\n")
    comparison = compare(["t/a.py::test_x[1]", "t/a.py::test_x[2]"], ["t2/b.py::test_all"], lines)
    assert [fate for fate, _ in comparison.fates.values()] == ["merged", "gone"]
    assert comparison.is_whole


def test_a_new_test_is_no_excuse_for_one_that_a_line_explains() -> None:
    lines = [Explanation("t/a.py::test_x", "gone", "the command went")]
    comparison = compare(["t/a.py::test_x"], ["t/other.py::test_x"], lines)
    assert comparison.fates["t/a.py::test_x"] == ("gone", "the command went")
    assert comparison.added == ["t/other.py::test_x"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("gone: t/a.py::test_kept: why", "explains no case that is missing"),
        ("merged: t/a.py::test_x -> t/b.py::test_nowhere", "not there"),
        ("gone: t/a.py::test_x: ?", "still open"),
    ],
)
def test_wrong_explanations_are_faults(line: str, fault: str) -> None:
    comparison = compare(["t/a.py::test_x", "t/a.py::test_kept"], ["t/a.py::test_kept"], read_explanations(line))
    assert not comparison.is_whole
    assert fault in comparison.faults[0]


@pytest.mark.parametrize("line", ["gone: t/a.py::test_x", "merged: t/a.py::test_x", "moved: a -> b"])
def test_a_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        read_explanations(line)


def test_a_draft_proposes_what_remains_and_leaves_reasons_open() -> None:
    assert draft(["t/a.py::test_x[1]", "t/a.py::test_x[2]", "t/a.py::test_y"], ["t/gate/a.py::test_x"]) == [
        "merged: t/a.py::test_x -> t/gate/a.py::test_x",
        "gone: t/a.py::test_y: ?",
    ]


def test_a_listing_may_be_compressed_and_must_list_tests(tmp_path: Path) -> None:
    packed, empty, twice = tmp_path / "packed", tmp_path / "empty", tmp_path / "twice"
    packed.write_bytes(gzip.compress(b"t/a.py::test_x[a b::c]\n\n1 test collected in 0.1s\n"))
    assert read_listing(packed) == ["t/a.py::test_x[a b::c]"]
    empty.write_text("no tests collected\n")
    with pytest.raises(ValueError, match="lists no test"):
        read_listing(empty)
    twice.write_text("t/a.py::test_x\nt/a.py::test_x\n")
    with pytest.raises(ValueError, match="twice"):
        read_listing(twice)


def test_the_command_fails_unless_everything_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after, lines, table = (tmp_path / name for name in ("before", "after", "lines", "table"))
    before.write_text("t/a.py::test_x\nt/a.py::test_y\n")
    after.write_text("t/b.py::test_x\n")
    assert main([str(before), str(after)]) == 1
    assert "NOT EXPLAINED t/a.py::test_y" in capsys.readouterr().out
    lines.write_text("gone: t/a.py::test_y: tested the door that went\n")
    assert main([str(before), str(after), "--explanations", str(lines), "--output", str(table)]) == 0
    assert capsys.readouterr().out == "2 cases before: 0 kept, 1 moved, 0 merged, 1 gone, 0 not explained; 0 are new\n"
    assert table.read_text().splitlines() == [
        "moved\tt/a.py::test_x\tt/b.py::test_x",
        "gone\tt/a.py::test_y\ttested the door that went",
    ]
