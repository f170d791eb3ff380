"""Runs one job: `klamm pipeline JOB`, `python -m app.pipeline.job JOB`, or by spark-submit.

0: done; 1: done, and it found something; 2: it was asked for wrongly; 3: Spark or the database failed; 4: `propose`
could not prove its proposal; 130: Ctrl-C.
"""

import argparse
import io
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from pyspark.sql import SparkSession

from app import __version__
from app.pipeline.context import Job, JobContext, LocalHome
from app.pipeline.jobs import JOBS
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.faults import SPARK_FAILED, explain, masked
from app.pipeline.spark.home_lock import file_lock, home_lock, unlocked
from app.pipeline.spark.java import find_java
from app.pipeline.spark.jdbc import check_reachable, check_url, jdbc_source
from app.pipeline.spark.jdbc_driver import find_driver
from app.pipeline.spark.named_files import check_files, local_folder
from app.pipeline.spark.options import (
    JobParser,
    Service,
    add_common_arguments,
    home_of,
    refuse_unknown_variables,
    session_options,
)
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics, write_metrics
from app.pipeline.spark.session import SessionOptions, is_submitted, spark_session
from app.pipeline.spark.shipping import WritePackage, ship, ships
from app.pipeline.spark.storage import Home, listed_once

INTERRUPTED = 130
_EPILOG = (
    "Exit codes: 0 done; 1 done, and something was found (flips, a broken chain); 2 wrong usage; 3 Spark or the "
    "database failed; 4 a proposal failed its check; 130 Ctrl-C."
)


def main(argv: Sequence[str] | None = None, service: Service | None = None, prog: str = "klamm pipeline") -> int:
    """`service` has the database to read unless the arguments name another."""
    # INVARIANT: 1 means that a job has found something. Python exits with 1 if an exception escapes.
    try:
        return _main(argv, service, prog)
    except Exception:  # noqa: BLE001 - see the invariant
        with suppress(OSError, ValueError):
            sys.stderr.write(masked(traceback.format_exc(), os.environ))
        return SPARK_FAILED


def _main(argv: Sequence[str] | None, service: Service | None, prog: str) -> int:
    arguments = parser_of(prog, service).parse_args(argv)
    arguments.service = service
    if not arguments.debug:
        # py4j logs Ctrl-C with a traceback; without a handler here, the root logger would get one and print it.
        logging.getLogger().addHandler(logging.NullHandler())
    job: Job = arguments.run_job
    with _own_stderr() as steps:
        console = Console(job.name, quiet=arguments.quiet, steps=steps)
        metrics = RunMetrics(job.name)
        runs = [metrics]
        status = _status(job, arguments, console, runs)
        metrics.end(status)
        with suppress(KeyboardInterrupt):
            if arguments.metrics_file is not None and status != INTERRUPTED:
                try:
                    write_metrics(arguments.metrics_file, runs)
                except PipelineError as fault:
                    console.warn(str(fault))
                    status = max(status, fault.exit_code)
        if metrics.succeeded:
            console.note(str(metrics))
    return status


def parser_of(prog: str = "klamm pipeline", service: Service | None = None) -> argparse.ArgumentParser:
    parser = JobParser(
        prog=prog,
        description="Spark jobs over the whole store and the decision log, run here or on a cluster.",
        epilog=f"klamm pipeline JOB --help shows a job's options. {_EPILOG} See docs/pipeline.md.",
    )
    parser.add_argument("--version", action="version", version=f"klamm {__version__}")
    parser.add_argument(
        "--package",
        action=WritePackage,
        metavar="FILE.zip",
        help="write the code of the jobs to FILE, for spark-submit --py-files in cluster mode, and exit",
    )
    jobs = parser.add_subparsers(required=True, metavar="JOB", dest="job")
    for job in JOBS:
        description = f"{job.help[0].upper()}{job.help[1:]}."
        each = jobs.add_parser(job.name, help=job.help, description=description, epilog=_EPILOG)
        job.add_arguments(each)
        add_common_arguments(each, service)
        each.set_defaults(run_job=job)
    return parser


def _status(job: Job, arguments: argparse.Namespace, console: Console, runs: list[RunMetrics]) -> int:
    # What is held ends only now: Spark, as its errors ask the JVM for their text, and after it the home's lock.
    with ExitStack() as held:
        try:
            return _run(job, arguments, console, runs, held)
        except KeyboardInterrupt:
            console.warn("interrupted; what was written is complete, and the job can be run again")
            return INTERRUPTED
        except Exception as fault:  # noqa: BLE001 - every fault becomes one line
            if arguments.debug:
                console.warn(masked(traceback.format_exc(), os.environ))
            text, status = explain(fault, os.environ)
            is_whole = arguments.debug or status == PipelineError.exit_code
            console.warn(text if is_whole else f"{text} (--debug shows all)")
            return status


def _run(job: Job, arguments: argparse.Namespace, console: Console, runs: list[RunMetrics], held: ExitStack) -> int:
    home = _checked(job, arguments)
    options = _options(job, arguments, console)
    if job.database == "always":
        check_reachable(arguments, os.environ)
    room = job.room(arguments)
    place = Home(home).room(room) if room else home
    folder, check_lock = _known_folder(arguments, home, place), unlocked
    if job.writes_home and folder is not None:
        check_lock = held.enter_context(file_lock(folder, job.name))
    with _quiet_python(debug=arguments.debug), listed_once():
        with console.step(f"starting Spark ({_where(options)})"):
            spark = spark_session(options)
        held.callback(_stop, spark)
        if ships(spark):
            with console.step("sending Klamm to the executors"):
                ship(spark)
        if job.writes_home and folder is None:
            check_lock = held.enter_context(home_lock(spark, place, job.name, console.warn))
        context = JobContext(spark, Home(home), console, runs[0], runs, check_lock)
        return job.run(context, arguments)


def _checked(job: Job, arguments: argparse.Namespace) -> str:
    """The home, after all that can be checked without Java, Spark and the network."""
    refuse_unknown_variables(os.environ)
    if arguments.jdbc_url is not None:
        check_url(arguments.jdbc_url, "--jdbc-url")
    job.check(arguments)
    if job.database == "always":
        # A missing password is reported before Spark starts, which takes seconds.
        jdbc_source(arguments, os.environ)
    home = home_of(arguments, os.environ)
    check_files(arguments, home, os.environ, writes_home=job.writes_home)
    folder = local_folder(arguments, home, os.environ)
    if folder is not None:
        job.check_home(arguments, LocalHome(folder))
    return home


def _known_folder(arguments: argparse.Namespace, home: str, place: str) -> Path | None:
    """The folder that the job writes into; None if it may be on another file system, which Spark knows."""
    is_known = home.startswith("file:") or local_folder(arguments, home, os.environ) is not None
    return Path(place.removeprefix("file:")) if is_known else None


def _stop(spark: SparkSession) -> None:
    with suppress(Exception):
        spark.stop()


def _options(job: Job, arguments: argparse.Namespace, console: Console) -> SessionOptions:
    options = session_options(arguments, os.environ)
    if is_submitted(os.environ):
        return options
    return replace(
        options,
        java=find_java(os.environ),
        driver=None if job.database == "never" else find_driver(arguments.jdbc_jar, os.environ),
        on_stage=console.on_stage if console.is_lively else None,
    )


def _where(options: SessionOptions) -> str:
    if options.java is None:
        return "as it was submitted"
    driver = "" if options.driver is None else f", PostgreSQL's driver from {options.driver.origin}"
    return f"{options.master or 'local[*]'}, {options.java}{driver}"


@contextmanager
def _own_stderr() -> Iterator[TextIO]:
    """Standard error under its own descriptor, as the JVM's standard error is redirected."""
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except (OSError, io.UnsupportedOperation):
        yield sys.stderr
        return
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
        yield stream


@contextmanager
def _quiet_python(*, debug: bool) -> Iterator[None]:
    """Silences PySpark's loggers, as its exceptions say the same."""
    loggers = [logging.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    with warnings.catch_warnings():
        if not debug:
            warnings.simplefilter("ignore")
            for each in loggers:
                each.disabled = True
        try:
            yield
        finally:
            for each in loggers:
                each.disabled = False


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(prog="python -m app.pipeline.job"))
