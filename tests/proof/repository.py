"""What Git says: from which commit a change began, what differs since then, and how many commits there are."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Git's name of the tree without files: everything differs from it."""


class GitError(Exception):
    """Git can't tell."""


@dataclass(frozen=True, slots=True)
class Base:
    """What a change is compared with, and why."""

    commit: str
    reason: str


class Repository:
    def __init__(self, root: Path) -> None:
        self._root = root

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - whichever git made the clone
            cwd=self._root,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise GitError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def _commit(self, name: str) -> str | None:
        try:
            return self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
        except GitError:
            return None

    def base(self, wanted: str | None = None) -> Base:
        """The commit that is wanted, else where the branch left the remote's default branch, else HEAD's parent.

        Raises GitError if what is wanted is no commit here, or this is no repository with a commit.
        """
        if wanted:
            commit = self._commit(wanted)
            if commit is None:
                raise GitError(f"BASE={wanted} is no commit of this repository; fetch it, or name another one")
            return Base(commit, f"BASE={wanted}")
        head = self._commit("HEAD")
        if head is None:
            raise GitError("this is no Git repository with a commit: name test files, or run all of them")
        merge_base, branch = self._merge_base()
        if merge_base is not None and merge_base != head:
            return Base(merge_base, f"the merge base with {branch}")
        parent = self._commit("HEAD^")
        if parent is None:
            return Base(_EMPTY_TREE, "HEAD has no parent here, so everything differs")
        why = f"HEAD is on {branch}" if merge_base is not None else "no merge base with a remote's default branch"
        return Base(parent, f"HEAD's parent, for {why}")

    def _merge_base(self) -> tuple[str | None, str]:
        try:
            default = [self._git("symbolic-ref", "--short", "refs/remotes/origin/HEAD").strip()]
        except GitError:
            default = ["origin/main", "origin/master"]
        for branch in default:
            try:
                return self._git("merge-base", "HEAD", branch).strip(), branch
            except GitError:
                continue
        return None, default[0]

    def changed(self, base: str) -> list[str]:
        """Every file that differs from the base, in commits or not yet, also one that is gone or is new."""
        differ = self._git("diff", "--name-only", "--no-renames", "-z", base)
        new = self._git("ls-files", "--others", "--exclude-standard", "-z")
        return sorted({*differ.split("\0"), *new.split("\0")} - {""})

    def files(self) -> list[str]:
        """Every file that is there and not ignored."""
        listed = self._git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
        return sorted({file for file in listed if file and (self._root / file).is_file()})

    def turn(self) -> tuple[int, str]:
        """A number that is another one for each change, and what it is: commits of the branch, one for each merge.

        A shallow clone can't count them; the commit's name stands for the number there.
        """
        if self._git("rev-parse", "--is-shallow-repository").strip() == "true":
            return int(self._git("rev-parse", "HEAD").strip(), 16), "by the commit's name, as the clone is shallow"
        number = int(self._git("rev-list", "--count", "--first-parent", "HEAD"))
        return number, f"the branch has {number} commits"
