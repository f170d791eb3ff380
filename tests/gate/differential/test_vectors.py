"""The vectors are whole: as many lines and answers as Kafka's harness wrote."""

import pytest

from tests.vectors.loader import Line, lines


def answers_in(line: Line) -> int:
    if "requests" in line:
        return sum(len(request["expected"]) for request in line["requests"])
    return len(line.get("filters", [line]))


@pytest.mark.parametrize(
    ("name", "lines_in_file", "answers"),
    [
        ("authorize", 1_979, 54_125),
        ("authorize_quirks", 33, 56),
        ("by_resource_type", 1_464, 39_813),
        ("authorized_operations", 977, 15_655),
        ("filters", 960, 11_520),
        ("validation", 173, 173),
        ("supported_operations", 6, 6),
    ],
)
def test_no_line_and_no_answer_is_missing(name: str, lines_in_file: int, answers: int) -> None:
    held = list(lines(name))
    assert len(held) == lines_in_file
    assert sum(map(answers_in, held)) == answers


def test_a_tenth_is_drawn_evenly() -> None:
    assert [line["n"] for line in lines("filters", 10)] == list(range(0, 960, 10))
