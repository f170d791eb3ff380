"""One run at a time: also after one that was killed, and whose JVM has not noticed yet."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.home_lock import Child, await_end, children, children_from, home_lock
from app.pipeline.spark.storage import Home
from tests.cases import each_case

PATIENCE_S = 60

_RUN = """
import subprocess, sys
from app.pipeline.spark.home_lock import home_lock
from app.pipeline.spark.storage import Home
jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
with home_lock(Home(sys.argv[1]), "export"):
    print(jvm.pid, flush=True)
    sys.stdin.read()
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at by Linux' /proc")


@contextmanager
def killed_run(home: Path) -> Iterator[int]:
    """A run that was killed in the middle; the process that it has left behind."""
    run = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    left = int(run.stdout.readline())
    run.kill()
    run.communicate(timeout=PATIENCE_S)
    try:
        yield left
    finally:
        os.kill(left, signal.SIGKILL)


def enter(home: Path, entered: threading.Event) -> None:
    with home_lock(Home(str(home)), "nightly"):
        entered.set()


def left_in(home: Path) -> list[Child]:
    return children_from((home / ".lock").read_text())


@pytest.mark.long
@linux_only
def test_what_a_killed_run_has_left_is_waited_for(tmp_path: Path) -> None:
    with killed_run(tmp_path) as pid:
        left = left_in(tmp_path)
        assert [child.pid for child in left] == [pid]
        with pytest.raises(PipelineError, match=rf"process {pid}.*kill {pid}"):
            await_end(left, str(tmp_path), patience_s=0.2)
        entered = threading.Event()
        next_run = threading.Thread(target=enter, args=(tmp_path, entered), daemon=True)
        next_run.start()
        assert not entered.wait(0.5)
        with pytest.raises(PipelineError, match="another nightly is running"), home_lock(Home(str(tmp_path)), "who"):
            pass
        assert [child.pid for child in left_in(tmp_path)] == [pid]
        os.kill(pid, signal.SIGKILL)
        assert entered.wait(PATIENCE_S)
        next_run.join(PATIENCE_S)
        assert pid not in [child.pid for child in left_in(tmp_path)]


@linux_only
def test_whoever_has_got_the_number_of_one_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    with killed_run(tmp_path) as pid:
        (left,) = left_in(tmp_path)
        await_end([Child(pid, left.parent, left.started - 1)], str(tmp_path), patience_s=0.0)


@linux_only
def test_runs_of_one_process_do_not_wait_for_its_own_children(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as jvm:
        for _ in range(2):
            with home_lock(Home(str(tmp_path)), "export"):
                assert jvm.pid in [child.pid for child in left_in(tmp_path)]
        assert jvm.pid in [child.pid for child in children()]
        jvm.kill()


def test_a_second_run_at_the_same_time_is_refused_and_leaves_the_first_ones_note(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    with home_lock(home, "export"):
        (tmp_path / ".lock").write_text("generation 1\njob export\n1 2 3\n")
        with pytest.raises(PipelineError, match="another export is running"), home_lock(home, "export"):
            pass
        assert left_in(tmp_path) == [Child(1, 2, 3)]


@each_case("text", ["", "\n", "1 2", "1 2 3 4", "a b c", "-1 2 3", "1 2 \N{SUPERSCRIPT TWO}"])
def test_a_note_that_is_none_is_passed_over(text: str) -> None:
    assert children_from(f"{text}\n4 5 6") == [Child(4, 5, 6)]
