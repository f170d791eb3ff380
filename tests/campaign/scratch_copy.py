"""A worktree of the last commit with a virtual environment of its own, in which code may be damaged."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.campaign.code_faults import CodeFault


class ScratchCopy:
    """Nothing outside of its folder is written to, and its packages are those of the running Python."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def damaged(self, fault: CodeFault) -> Iterator[None]:
        """The file has the fault in here, and is restored whatever happens."""
        path = self.folder / fault.path
        whole = path.read_bytes()
        try:
            path.write_bytes(fault.apply(whole))
            yield
        finally:
            path.write_bytes(whole)

    def pytest(self, arguments: Sequence[str], limit_s: float | None = None) -> tuple[int, str]:
        """Run pytest here: exit status and output; the status is that of the signal if the time runs out."""
        environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [str(self.folder / ".venv" / "bin" / "python"), "-m", "pytest", *arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(limit_s)
            finally:
                # A session that has ended in the middle of a test leaves its processes.
                _kill_group(process.pid)
                process.wait()
            output.seek(0)
            return process.returncode, output.read().decode(errors="replace")


def _kill_group(leader: int) -> None:
    """What the tests have started is of the same group."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


@contextmanager
def scratch_copy(root: Path, folder: Path) -> Iterator[ScratchCopy]:
    """Make the copy in this folder, which is not there yet, and remove it at the end."""
    _git(root, "worktree", "add", "--quiet", "--detach", str(folder), "HEAD")
    try:
        _make_environment(folder / ".venv", folder)
        yield ScratchCopy(folder)
    finally:
        _git(root, "worktree", "remove", "--force", str(folder))


def _git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True)  # noqa: S607 - whichever git made the clone


def _make_environment(venv: Path, folder: Path) -> None:
    """The copy's code comes before the packages, and so before an editable install of the checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    packages = sysconfig.get_path("purelib")
    site = venv / "lib" / Path(packages).parent.name / "site-packages"
    (site / "scratch.pth").write_text(f"{folder}\n{packages}\n", encoding="utf-8")
    programs = Path(sys.executable).parent
    for program in programs.iterdir():
        target = venv / "bin" / program.name
        if target.exists() or not program.is_file():
            continue
        content = program.read_bytes()
        if content.startswith(b"#!"):
            target.write_bytes(content.replace(os.fsencode(programs), os.fsencode(venv / "bin")))
            shutil.copymode(program, target)
        else:
            target.symlink_to(program)
    # make takes the environment for one that is set up.
    for stamp in (".serves", ".installed"):
        (venv / stamp).touch()
