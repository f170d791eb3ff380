"""The search for what tests find, in a small repository: its own files stay as they are."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.campaign import drawn_faults
from tests.campaign.drawn_faults import main

_CODE = "def may_read(a, b):\n    if a > 5:\n        return b\n    return a == 3 or min(a, 4) < b\n"
_GATE = """
from app.core.it import may_read
def test_gate():
    assert may_read(6, 7) == 7
    assert may_read(5, 5) is True
"""
_PROOF = """
from app.core.it import may_read
def test_proof():
    assert [may_read(a, 4) for a in range(7)] == [True, True, True, True, False, False, 4]
"""
_LAW = """
from hypothesis import given, settings, strategies
from tests.budgets import budget
from app.core.it import may_read
@settings(max_examples=budget())
@given(strategies.integers(0, 5))
def test_law(a):
    assert may_read(a, 4) is (a < 4)
"""
_BUDGETS = """
from hypothesis import settings
settings.register_profile("proof", max_examples=200)
def budget():
    return 200 if settings.get_current_profile_name() == "proof" else 1
"""
_LOOP = """
def count(a):
    times = 0
    while a > 0:
        times += 1
        a -= 1
    return times
"""
_TEST_OF_LOOP = """
import pytest
from hypothesis import given, strategies
from app.core.it import count
@pytest.mark.parametrize("it", ["a b"])
@given(strategies.integers(1, 9))
def test_gate(it, number):
    assert count(number) == number
"""


def _git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *who, *arguments],  # noqa: S607 - whichever git made the clone
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    files = {
        "app/__init__.py": "",
        "app/core/__init__.py": "",
        "app/core/it.py": _CODE,
        "tests/budgets.py": _BUDGETS,
        "tests/conftest.py": "import tests.budgets",
        "tests/gate/test_gate.py": _GATE,
        "tests/proof/test_proof.py": _PROOF,
        "pytest.ini": "[pytest]\npythonpath = .\naddopts = --import-mode=importlib -p no:schemathesis -p no:asyncio\n",
        ".gitignore": ".venv\n__pycache__\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    _git(root, "init", "--quiet")
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", "it")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return root


def _main(root: Path, *more: str) -> int:
    return main(["--seed", "3", "--number", "5", "--packages", "app/core", "--workers", "1", *more], root)


def test_the_faults_are_shown_without_a_run(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(repository, "--list") == 0
    assert len(re.findall(r"^app/core/it.py:\d+:\d+:\w+", capsys.readouterr().out, re.MULTILINE)) == 5


def test_who_finds_a_fault_is_told_and_all_is_as_before(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "app" / "core" / "it.py").write_text("a change that nobody has committed")
    assert _main(repository) == 1
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if line.startswith("| app/core/it.py:")]
    assert len(rows) == 5
    assert sum("tests/gate/test_gate.py::test_gate | gate" in row for row in rows) >= 1
    assert sum("tests/proof/test_proof.py::test_proof | proof" in row for row in rows) >= 1
    # What changes nothing is found by nobody: it is to be named, and another one drawn.
    assert [row for row in rows if "a, 4 -> 4, a |  | NOT FOUND |" in row]
    assert re.search(r"seed 3: 5 faults: gate finds \d, proof finds \d, not found or uncertain \d", said)
    assert (repository / "app" / "core" / "it.py").read_text() == "a change that nobody has committed"
    assert len(_git(repository, "worktree", "list").splitlines()) == 1


def test_a_fault_with_which_a_test_never_ends_is_found_by_that_test(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn_faults, "_TEST_LIMIT_S", 5)
    (repository / "app" / "core" / "it.py").write_text(_LOOP)
    (repository / "tests" / "gate" / "test_gate.py").write_text(_TEST_OF_LOOP)
    _git(repository, "commit", "--quiet", "--all", "--message", "a loop")
    _main(repository, "--levels", "tests/gate")
    said = capsys.readouterr().out
    assert "a > 0 -> True | tests/gate/test_gate.py::test_gate[a b] | gate |" in said


def test_proof_draws_more_in_what_the_gate_draws(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "tests" / "gate" / "test_law.py").write_text(_LAW)
    (repository / "tests" / "proof" / "test_proof.py").write_text("from app.core import it\ndef test_proof(): pass\n")
    _git(repository, "add", "--all")
    _git(repository, "commit", "--quiet", "--message", "a law")
    _main(repository)
    rows = [line for line in capsys.readouterr().out.splitlines() if "| proof |" in line]
    assert {row.split(" | ")[2] for row in rows} == {"tests/gate/test_law.py::test_law"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--number", "4"], "at least 5"),
        (["--only", "nowhere"], "not drawn by this seed"),
        (["--levels", "tests/nowhere"], "holds no test file"),
    ],
)
def test_what_can_not_be_done_is_said_and_all_is_as_before(
    repository: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        _main(repository, *options)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert len(_git(repository, "worktree", "list").splitlines()) == 1
