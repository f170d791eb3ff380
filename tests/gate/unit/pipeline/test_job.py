"""How a job is run: codes, lines and numbers, whatever comes of it. Spark itself is not started here."""

import argparse
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from app.pipeline.spark.errors import NoDecisionsError, PipelineError
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from app.pipeline.context import Job, JobContext
    from app.pipeline.spark.session import SessionOptions


def _probe(name: str, work: "Callable[[JobContext], int]") -> "Job":
    """A job that does what it is told."""

    from app.pipeline.context import Job, JobContext

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--depth", type=int, default=3)

    def run(context: JobContext, arguments: argparse.Namespace) -> int:
        context.metrics.count("rows_read", arguments.depth)
        return work(context)

    return Job(name, "try it", add_arguments, run, writes_home=False)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> "list[SessionOptions]":
    """Sessions that were begun and stopped again."""
    from app.pipeline import job as runner
    from app.pipeline.spark.session import SessionOptions

    ended: list[SessionOptions] = []

    def begin(options: SessionOptions) -> "SparkSession":
        return cast(
            "SparkSession", SimpleNamespace(stop=lambda: ended.append(options), conf={"spark.master": "local[2]"})
        )

    monkeypatch.setattr(runner, "spark_session", begin)
    # Under spark-submit no Java is looked for.
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    return ended


def _with(monkeypatch: pytest.MonkeyPatch, work: "Callable[[JobContext], int]") -> None:
    from app.pipeline import job as runner

    monkeypatch.setattr(runner, "JOBS", (_probe("probe", work),))


def _raising(fault: BaseException) -> "Callable[[JobContext], int]":
    from app.pipeline.context import JobContext

    def work(_context: JobContext) -> int:
        raise fault

    return work


@pytest.mark.parametrize("status", [0, 1])
def test_a_job_that_ends_well_tells_its_numbers(
    status: int, stopped: "list[SessionOptions]", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.pipeline.context import JobContext
    from app.pipeline.job import main

    def work(context: JobContext) -> int:
        context.console.say("42")
        return status

    _with(monkeypatch, work)
    assert main(["probe", "--depth", "5"]) == status
    said = capsys.readouterr()
    assert said.out == "42\n"
    assert said.err.splitlines()[0].startswith("probe     starting Spark (as it was submitted) ... ")
    assert said.err.splitlines()[-1].endswith(": 5 rows read")
    assert len(stopped) == 1


@pytest.mark.parametrize(
    ("fault", "status", "line"),
    [
        (PipelineError("`x` is no file; name one"), 2, "probe     `x` is no file; name one"),
        (ZeroDivisionError("oh"), 3, "probe     ZeroDivisionError: oh (--debug shows all)"),
        (KeyboardInterrupt(), 130, "probe     interrupted; what was written is complete, and the job can be run again"),
    ],
)
def test_every_fault_is_one_line_and_a_code(
    fault: BaseException,
    status: int,
    line: str,
    stopped: "list[SessionOptions]",
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from app.pipeline.job import main

    _with(monkeypatch, _raising(fault))
    assert main(["probe", "--quiet"]) == status
    assert capsys.readouterr().err == f"{line}\n"
    assert len(stopped) == 1


def test_debug_shows_all_but_secrets(
    stopped: "list[SessionOptions]", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.pipeline.job import main

    monkeypatch.setenv("KLAMM_PIPELINE_JDBC_PASSWORD", "geheim")
    _with(monkeypatch, _raising(ZeroDivisionError("with geheim")))
    assert main(["probe", "--debug"]) == 3
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "geheim" not in said
    assert not stopped[0].quiet


def test_the_metrics_file_tells_of_failures_too(
    stopped: "list[SessionOptions]", monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from app.pipeline.job import main

    _with(monkeypatch, _raising(PipelineError("no")))
    assert main(["probe", "--metrics-file", str(tmp_path / "k.prom")]) == 2
    assert 'klamm_pipeline_exit_code{job="probe"} 2' in (tmp_path / "k.prom").read_text()
    _with(monkeypatch, lambda _context: 0)
    assert main(["probe", "--metrics-file", str(tmp_path / "none" / "k.prom")]) == 2
    assert len(stopped) == 2


def test_the_home_is_the_one_that_is_named(stopped: "list[SessionOptions]", monkeypatch: pytest.MonkeyPatch) -> None:
    from app.pipeline.context import JobContext
    from app.pipeline.job import main

    homes: list[str] = []

    def work(context: JobContext) -> int:
        homes.append(context.home.root)
        return 0

    _with(monkeypatch, work)
    main(["probe", "--home", "s3a://bucket/x"])
    assert homes == ["s3a://bucket/x"]
    assert stopped


@pytest.mark.parametrize("given", [["export", "--bogus"], ["exprot"], [], ["export", "--jdbc-ur", "x"]])
def test_what_is_asked_for_wrongly_is_named(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from app.pipeline.job import main

    with pytest.raises(SystemExit) as end:
        main(given)
    assert end.value.code == 2
    assert (given or ["JOB"])[-1 if len(given) < 3 else 1] in capsys.readouterr().err


def test_every_job_has_help_that_says_what_it_does(
    subtests: pytest.Subtests, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.pipeline.job import main
    from app.pipeline.jobs import JOBS

    for job in JOBS:
        with subtests.test(job.name):
            with pytest.raises(SystemExit) as end:
                main([job.name, "--help"])
            assert end.value.code == 0
            said = capsys.readouterr().out
            assert f"klamm pipeline {job.name}" in said
            assert "--home" in said
            assert job.help[0].islower()
            assert not job.help.endswith(".")


def test_a_database_that_is_not_named_is_told_before_spark_starts(
    stopped: "list[SessionOptions]", capsys: pytest.CaptureFixture[str]
) -> None:
    from app.pipeline.job import main

    assert main(["export"]) == 2
    assert "no database is named; give --jdbc-url" in capsys.readouterr().err
    assert not stopped


def test_a_variable_that_is_misspelt_is_told_before_spark_starts(
    stopped: "list[SessionOptions]", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.pipeline.job import main

    monkeypatch.setenv("KLAMM_PIPELINE_HOMES", "x")
    assert main(["export"]) == 2
    assert "did you mean KLAMM_PIPELINE_HOME?" in capsys.readouterr().err
    assert not stopped


def _night(*works: "Callable[[JobContext], int]") -> tuple[int | str, list[tuple[str, int]]]:
    from app.pipeline.context import JobContext
    from app.pipeline.jobs import nightly
    from app.pipeline.spark.storage import Home

    orders = [(_probe(f"job-{number}", work), ["--depth", str(number)]) for number, work in enumerate(works)]
    context = JobContext(
        cast("SparkSession", None),
        Home("x"),
        Console("nightly", quiet=True),
        RunMetrics("nightly"),
    )
    try:
        status: int | str = nightly.run_in_turn(orders, context, argparse.Namespace())
    except PipelineError as fault:
        status = str(fault)
    return status, [(each.job, each.exit_code) for each in context.runs]


def test_a_night_goes_through_all_its_jobs_whatever_they_find() -> None:
    status, runs = _night(lambda _context: 0, lambda _context: 1, lambda _context: 0)
    assert status == 1
    assert runs == [("job-0", 0), ("job-1", 1), ("job-2", 0)]


def test_a_night_ends_with_the_first_job_that_fails() -> None:
    status, runs = _night(lambda _context: 0, _raising(PipelineError("no")), lambda _context: 0)
    assert status == "no"
    assert runs == [("job-0", 0), ("job-1", 2)]


def test_a_night_before_the_first_decision_does_what_can_be_done() -> None:
    status, runs = _night(_raising(NoDecisionsError("none yet")), lambda _context: 0)
    assert status == 0
    assert runs == [("job-1", 0)], "what was left out has not succeeded"


def test_a_first_night_ends_well_without_what_would_need_a_decision() -> None:
    from app.pipeline.access.effective import not_effective_at

    unmade = [_raising(NoDecisionsError("none yet")), _raising(not_effective_at(7))]
    assert _night(lambda _context: 0, *unmade) == (0, [("job-0", 0)])


def test_a_crash_outside_of_a_job_is_not_taken_for_a_find(
    stopped: "list[SessionOptions]", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.pipeline import job as runner
    from app.pipeline.job import main

    _with(monkeypatch, lambda _context: 0)
    for name in ("Console", "write_metrics", "parser_of"):
        with monkeypatch.context() as broken:
            broken.setenv("KLAMM_PIPELINE_JDBC_PASSWORD", "geheim")
            broken.setattr(runner, name, _crash)
            assert main(["probe", "--metrics-file", "k.prom"]) == 3
        said = capsys.readouterr().err
        assert "ZeroDivisionError" in said
        assert "geheim" not in said
    assert stopped


def _crash(*_arguments: object, **_named: object) -> None:
    raise ZeroDivisionError("with geheim")


def test_a_night_tells_each_job_what_is_its_own() -> None:
    from app.pipeline.jobs import effective, export, ingest, nightly, report

    night = argparse.Namespace(decisions="/log", resources="r.csv", teams="t.csv", output=None)
    assert nightly.options_of(ingest.JOB, night) == ["--decisions", "/log"]
    assert nightly.options_of(effective.JOB, night) == ["--resources", "r.csv", "--seen"]
    assert nightly.options_of(report.JOB, night) == ["--teams", "t.csv"]
    assert nightly.options_of(export.JOB, night) == []
    night = argparse.Namespace(decisions=None, resources=None, teams=None, output="o.html")
    assert nightly.options_of(ingest.JOB, night) is None
    assert nightly.options_of(effective.JOB, night) == []
    assert nightly.options_of(report.JOB, night) == ["--output", "o.html"]
