"""Which tests meet a change, which of them fit into the time, and whose turn it is."""

from pathlib import Path

import pytest

from tests.proof.inputs import Inputs
from tests.proof.picking import NothingPickedError, find_tests, parts, pick, rank
from tests.proof.times import Times

MINUTE = Times(dict.fromkeys("abcd", 60.0))


@pytest.fixture
def inputs(tmp_path: Path) -> Inputs:
    files = {
        "app/near.py": "",
        "app/wide.py": "import app.near\n",
        "app/other.py": "",
        "app/console/ask.css": "",
        "plugin/A.java": "",
        "t/test_near.py": "import app.near\nimport app.other\n",
        "t/test_both.py": "import app.near\n",
        "t/test_wide.py": "import app.wide\n",
        "t/test_nothing.py": "",
        "t/kafka/test_plugin.py": "",
        "t/e2e/test_console_in_a_browser.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Inputs(tmp_path, files)


def _ranked(inputs: Inputs, *changed: str) -> list[str]:
    tests = ["near", "both", "wide", "nothing"]
    files = [*(f"t/test_{name}.py" for name in tests), "t/kafka/test_plugin.py", "t/e2e/test_console_in_a_browser.py"]
    return rank(find_tests(inputs, "t", files, changed))


def test_the_nearest_comes_first_and_then_who_bears_the_name(inputs: Inputs) -> None:
    assert _ranked(inputs, "app/near.py") == ["t/test_near.py", "t/test_both.py", "t/test_wide.py"]


def test_each_changed_file_has_its_nearest_test_first(inputs: Inputs) -> None:
    assert _ranked(inputs, "app/near.py", "app/wide.py")[:2] == ["t/test_near.py", "t/test_wide.py"]


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("t/test_nothing.py", "t/test_nothing.py"),
        ("plugin/A.java", "t/kafka/test_plugin.py"),
        ("app/console/ask.css", "t/e2e/test_console_in_a_browser.py"),
    ],
)
def test_what_no_import_says_is_met_too(inputs: Inputs, changed: str, test: str) -> None:
    assert _ranked(inputs, changed) == [test]


def test_as_many_are_picked_as_fit_in_their_order() -> None:
    times = Times({"a": 120.0, "b": 180.0, "c": 60.0})
    picked = pick({"x": ["a", "b", "c"]}, times, 3.0)
    assert (picked.files, picked.left_out) == (["a", "c"], ["b"])


def test_the_first_is_picked_however_long_it_takes() -> None:
    assert pick({"x": ["a", "b"]}, MINUTE, 0.5).files == ["a"]


def test_workers_share_the_time_and_an_unknown_file_counts_as_the_median() -> None:
    times = Times({"a": 60.0, "b": 240.0, "c": 120.0}, workers=2)
    assert times.minutes_of("b") == 2.0
    assert times.minutes_of("new") == 1.0


@pytest.mark.parametrize("changed", ["app/near.py", "plugin/pom.xml", "deploy/Containerfile"])
def test_nothing_picked_for_what_is_served_or_delivered_is_an_error(changed: str) -> None:
    with pytest.raises(NothingPickedError, match=changed):
        pick({"README.md": [], changed: []}, MINUTE, 25.0)


def test_what_a_test_of_another_level_meets_need_not_be_picked() -> None:
    picked = pick({"app/near.py": []}, MINUTE, 25.0, met_elsewhere=["app/near.py"])
    assert (picked.files, picked.unmet) == ([], [])
    with pytest.raises(NothingPickedError, match=r"differs: app/far\.py$"):
        pick({"app/near.py": [], "app/far.py": []}, MINUTE, 25.0, met_elsewhere=["app/near.py"])


def test_what_no_test_meets_is_told_beside_what_is_picked() -> None:
    picked = pick({"app/near.py": ["a"], "app/far.py": [], "README.md": []}, MINUTE, 25.0)
    assert (picked.files, picked.unmet) == (["a"], ["app/far.py"])


def test_nothing_need_be_picked_for_a_page() -> None:
    assert pick({"README.md": []}, MINUTE, 25.0).files == []


def test_parts_hold_each_test_once_and_take_about_the_same_time() -> None:
    times = Times({f"{number:02d}": 60.0 * (number % 5 + 1) for number in range(30)})
    divided = parts(times.seconds, times, minutes=15.0)
    assert len(divided) == 6
    assert sorted(test for part in divided for test in part) == sorted(times.seconds)
    lengths = [sum(map(times.minutes_of, part)) for part in divided]
    assert max(lengths) - min(lengths) <= 1.0


def test_few_tests_are_one_part() -> None:
    assert parts(["b", "a"], MINUTE) == [["a", "b"]]
