"""One run at a time writes into a folder: the lock ends with its process, and is asked for before Spark starts."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.pipeline import job
from app.pipeline.job import main
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.home_lock import file_lock
from app.pipeline.spark.session import SessionOptions

PATIENCE_S = 300

_RUN = """
import subprocess, sys
from pathlib import Path
from app.pipeline.spark.home_lock import file_lock
with file_lock(Path(sys.argv[1]), "export"):
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    print("held", flush=True)
    child.wait()
"""


@contextmanager
def other_run(home: Path) -> Iterator[subprocess.Popen[str]]:
    """An export that holds the lock, with a child as Spark's JVM is one, until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", _RUN, str(home)], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "held\n"
        yield run
        run.kill()


def test_a_second_run_is_refused_with_the_first_ones_name(tmp_path: Path) -> None:
    with other_run(tmp_path) as run:
        for _ in range(2):
            with (
                pytest.raises(
                    PipelineError,
                    match=rf"^another export \(process {run.pid} on .+, since 2.+\) is running in `{tmp_path}`; wait",
                ),
                file_lock(tmp_path, "nightly"),
            ):
                pass


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_goes_with_its_process_though_a_child_lives_on(tmp_path: Path, signal_number: int) -> None:
    with other_run(tmp_path) as run:
        run.send_signal(signal_number)
        run.wait(PATIENCE_S)
        with file_lock(tmp_path, "nightly") as check:
            check()
    with file_lock(tmp_path, "nightly"):
        pass


def test_of_many_at_once_one_gets_it(tmp_path: Path) -> None:
    start, end = threading.Barrier(6), threading.Barrier(6)
    held, refused = list[int](), list[str]()

    def run() -> None:
        start.wait(PATIENCE_S)
        try:
            with file_lock(tmp_path / "home", "hygiene"):
                held.append(1)
                end.wait(PATIENCE_S)
        except PipelineError as fault:
            refused.append(str(fault))
            end.wait(PATIENCE_S)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE_S)
    assert (len(held), len(refused)) == (1, 5), refused


def test_homes_have_a_lock_each_and_what_a_killed_run_staged_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "export" / "records" / ".spark-staging-1"
    kept = tmp_path / "export" / "records" / "day=2026-11-22"
    for folder in (left, kept):
        folder.mkdir(parents=True)
    with file_lock(tmp_path, "export"), file_lock(tmp_path / "what-if" / "name", "what-if"):
        assert (left.exists(), kept.exists()) == (False, True)


def test_a_run_whose_folder_is_gone_says_so(tmp_path: Path) -> None:
    with file_lock(tmp_path / "home", "nightly") as check:
        check()
        (tmp_path / "home").rename(tmp_path / "moved")
        with pytest.raises(PipelineError, match="was moved or deleted"):
            check()
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / ".lock").touch()
        with pytest.raises(PipelineError, match="was moved or deleted"):
            check()


def test_the_note_of_another_version_names_no_run(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for text in ["", "generation 3\njob export\n1 2 3\n", "[]", "null", '{"job": "export"}', "\udcff"]:
        with subtests.test(text=text), file_lock(tmp_path, "export"):
            (tmp_path / ".lock").write_text(text, encoding="utf-8", errors="surrogateescape")
            with pytest.raises(PipelineError, match=r"^another job is running in"), file_lock(tmp_path, "export"):
                pass


def test_a_second_run_is_refused_before_spark_starts(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for prefix in ["", "file:", "file://"]:
        with subtests.test(prefix=prefix):

            class StartedError(Exception):
                pass

            def start(_: SessionOptions) -> SparkSession:
                raise StartedError

            monkeypatch.setattr(job, "spark_session", start)
            monkeypatch.setattr(job, "find_java", lambda _: None)
            ingest = ["ingest", "--decisions", str(tmp_path), "--home", f"{prefix}{tmp_path / 'home'}"]
            with other_run(tmp_path / "home"):
                assert main(ingest) == 2
                said = capsys.readouterr().err
                assert "another export (process" in said
                assert "starting Spark" not in said
                # Jobs that write nothing into the home don't ask.
                assert main(["report", "--home", f"file:{tmp_path / 'home'}"]) == 3
                assert "StartedError" in capsys.readouterr().err
            assert main(ingest) == 3
            assert "StartedError" in capsys.readouterr().err
