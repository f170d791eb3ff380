"""From which commit a change began, and what differs since then."""

import subprocess
from pathlib import Path

import pytest

from tests.proof.picking import NothingPickedError
from tests.proof.repository import GitError, Repository
from tests.proof.run import list_files, main, pick_changed, pick_due


class Clone:
    """A clone in a folder, on a branch of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = Repository(folder)

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *who, *arguments],  # noqa: S607 - whichever git made the clone
            cwd=self.folder,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        """Commit files, named as words with `__` for a slash; the commit comes back."""
        for name, text in files.items():
            path = self.folder / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "it")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def origin(tmp_path: Path) -> Clone:
    (tmp_path / "origin").mkdir()
    origin = Clone(tmp_path / "origin")
    origin.git("init", "--quiet", "--initial-branch", "trunk")
    origin.commit(app__a="", t__test_a="import app.a\n", t__test_b="")
    return origin


@pytest.fixture
def clone(tmp_path: Path, origin: Clone) -> Clone:
    origin.git("clone", "--quiet", str(origin.folder), str(tmp_path / "clone"))
    return Clone(tmp_path / "clone")


def test_the_base_is_where_the_branch_left_the_remotes_default_branch(clone: Clone) -> None:
    left = clone.git("rev-parse", "HEAD")
    clone.git("switch", "--quiet", "--create", "work")
    clone.commit(app__b="1")
    clone.commit(app__c="1")
    base = clone.repository.base()
    assert (base.commit, base.reason) == (left, "the merge base with origin/trunk")
    assert clone.repository.changed(base.commit) == ["app/b.py", "app/c.py"]


def test_what_is_wanted_is_the_base(clone: Clone) -> None:
    first = clone.git("rev-parse", "HEAD")
    clone.commit(app__b="1")
    assert clone.repository.base(first).commit == first
    with pytest.raises(GitError, match="BASE=nowhere is no commit"):
        clone.repository.base("nowhere")
    with pytest.raises(GitError, match="is no commit"):
        clone.repository.base("--all")


def test_on_the_default_branch_itself_it_is_the_parent(clone: Clone) -> None:
    first = clone.git("rev-parse", "HEAD")
    clone.commit(app__b="1")
    clone.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
    base = clone.repository.base()
    assert (base.commit, base.reason) == (first, "HEAD's parent, for HEAD is on origin/trunk")


def test_without_a_remote_it_is_the_parent(origin: Clone) -> None:
    first = origin.git("rev-parse", "HEAD")
    origin.commit(app__b="1")
    assert origin.repository.base().commit == first


def test_from_the_first_commit_everything_differs(origin: Clone) -> None:
    base = origin.repository.base()
    assert origin.repository.changed(base.commit) == ["app/a.py", "t/test_a.py", "t/test_b.py"]


def test_without_a_commit_git_can_not_tell(tmp_path: Path) -> None:
    with pytest.raises(GitError):
        Repository(tmp_path).base()


def test_what_is_not_committed_new_or_gone_differs_too(clone: Clone) -> None:
    base = clone.git("rev-parse", "HEAD")
    (clone.folder / ".gitignore").write_text("*.log\n")
    (clone.folder / "said.log").write_text("")
    (clone.folder / "app" / "new ü.py").write_text("")
    (clone.folder / "t" / "test_b.py").unlink()
    clone.git("mv", "app/a.py", "app/moved.py")
    assert clone.repository.changed(base) == [
        ".gitignore",
        "app/a.py",
        "app/moved.py",
        "app/new ü.py",
        "t/test_b.py",
    ]
    assert "t/test_b.py" not in clone.repository.files()


def test_a_turn_counts_commits_but_one_for_a_merge(origin: Clone) -> None:
    origin.git("switch", "--quiet", "--create", "work")
    origin.commit(app__b="1")
    origin.commit(app__b="2")
    origin.git("switch", "--quiet", "trunk")
    origin.git("merge", "--quiet", "--no-ff", "--message", "work", "work")
    assert origin.repository.turn() == (2, "the branch has 2 commits")


def test_a_shallow_clone_has_a_turn_too(tmp_path: Path, origin: Clone) -> None:
    origin.git("clone", "--quiet", "--depth", "1", f"file://{origin.folder}", str(tmp_path / "shallow"))
    number, reason = Clone(tmp_path / "shallow").repository.turn()
    assert number > 1
    assert "shallow" in reason


def test_base_picks_and_what_is_left_out_are_printed(clone: Clone, capsys: pytest.CaptureFixture[str]) -> None:
    clone.git("switch", "--quiet", "--create", "work")
    clone.commit(app__a="1", app__unmet="1", t__test_b="1")
    assert pick_changed(clone.repository, clone.folder, "t", 0.1, None) == ["t/test_a.py"]
    said = capsys.readouterr().out
    assert said.splitlines() == [
        f"base: {clone.git('rev-parse', 'origin/trunk')[:12]}, the merge base with origin/trunk; 3 files differ",
        "picked 1 of 2 test files that meet them (about 0.3 min):",
        "  t/test_a.py (20 s)",
        "left out, for more than 0.1 minutes would be needed (about 0.3 min):",
        "  t/test_b.py (20 s)",
        "no test meets: app/unmet.py",
    ]


def test_each_commit_has_the_next_part(clone: Clone) -> None:
    (clone.folder / "tests" / "proof").mkdir(parents=True)
    times = '{"workers": 1, "seconds": {"t/test_a.py": 800, "t/test_b.py": 800}}'
    (clone.folder / "tests" / "proof" / "times.json").write_text(times)
    first = pick_due(clone.repository, clone.folder, "t")
    clone.commit()
    second = pick_due(clone.repository, clone.folder, "t")
    assert sorted([*first, *second]) == ["t/test_a.py", "t/test_b.py"]


def test_a_folder_without_tests_is_an_error(clone: Clone) -> None:
    with pytest.raises(NothingPickedError, match="nowhere holds no test file"):
        pick_due(clone.repository, clone.folder, "nowhere")


def test_what_only_another_level_meets_is_no_error_and_told(clone: Clone, capsys: pytest.CaptureFixture[str]) -> None:
    clone.commit(tests__gate__test_it="import app.a\n", tests__proof__test_far="")
    clone.commit(app__a="1")
    assert pick_changed(clone.repository, clone.folder, "tests/proof", 25.0, "HEAD^") == []
    assert capsys.readouterr().out.splitlines()[-1] == "met by tests of other levels alone: app/a.py"
    clone.commit(app__b="1")
    with pytest.raises(NothingPickedError, match=r"differs: app/b\.py$"):
        pick_changed(clone.repository, clone.folder, "tests/proof", 25.0, "HEAD^")


def test_what_draws_in_laws_and_gate_is_a_part_of_proof(clone: Clone) -> None:
    clone.commit(
        tests__laws__test_law="from hypothesis import given\n",
        tests__gate__test_seed="import tests.budgets\n",
        tests__gate__test_plain="x = 'from hypothesis import given'\n",
        tests__campaign__test_it="import hypothesis\n",
        tests__proof__test_own="",
    )
    files = clone.repository.files()
    drawn = ["tests/gate/test_seed.py", "tests/laws/test_law.py"]
    assert list_files(clone.folder, files, "tests/proof") == [drawn[0], drawn[1], "tests/proof/test_own.py"]
    assert list_files(clone.folder, files, "tests/gate") == ["tests/gate/test_plain.py", "tests/gate/test_seed.py"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--changed", "yes"], "--changed: it takes 1 or is left out, and is 'yes'"),
        (["--due", "0"], "--due: it takes 1"),
        (["--changed", "1", "--due", "1"], "not allowed with"),
        (["--changed", "1", "--minutes", "abc"], "--minutes: it takes a number of minutes, such as 25, and is 'abc'"),
        (["--changed", "1", "--minutes", "nan"], "--minutes: it takes"),
        (["--changed", "1", "--minutes", "0"], "--minutes: it takes"),
        (["--due", "1", "--minutes", "5"], "--minutes is for --changed"),
        (["--seed", "x"], "--seed: it takes a whole number up to 4294967295, and is 'x'"),
        (["--seed", "-1"], "--seed: "),
        (["--seed", "4294967296"], "--seed: it takes"),
        (["--times", "1", "--folder", "tests/proof/e2e"], "--times needs a run of all"),
    ],
)
def test_an_odd_option_is_refused(options: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(options)
    assert end.value.code == 2
    assert why in capsys.readouterr().err
