"""`ingest`: the service's decision log files into the decision log, each line once."""

import argparse
import re
from collections import Counter
from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from app.formats.arguments import whole_number
from app.pipeline.context import Job, JobContext
from app.pipeline.history.ingest import BatchDone, Ingesting, Turn, ingest_batch
from app.pipeline.history.log_files import LogFile, Taken, explained, known_files, new_files
from app.pipeline.history.log_pieces import finished_batches
from app.pipeline.history.merging import merge_days, remove_merged
from app.pipeline.history.schemas import INT_MAX
from app.pipeline.spark.errors import PipelineError

_FILES_AT_ONCE = 200
_GLOB = re.compile(r"[*?\[\]{}\\]")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_decisions(
        parser,
        "the folders that the services' decision.log.path names, including subfolders; closed files "
        "(decisions-*.jsonl, .jsonl.gz) are read",
        required=True,
    )
    parser.add_argument(
        "--files-at-once",
        metavar="N",
        type=whole_number(1, INT_MAX),
        default=_FILES_AT_ONCE,
        help=f"at most this many files per batch, which is kept on disk for a while ({_FILES_AT_ONCE})",
    )
    parser.add_argument(
        "--fail-on-quarantine", action="store_true", help="exit code 1 if any line was put aside in this run"
    )
    parser.add_argument(
        "--skip-unreadable-files",
        action="store_true",
        help="go on past files that have disappeared, and past the tear in a torn .gz file",
    )


def add_decisions(parser: argparse.ArgumentParser, what: str, *, required: bool) -> None:
    parser.add_argument(
        "--decisions",
        metavar="FOLDER",
        nargs="+",
        action="extend",
        required=required,
        type=log_folder,
        help=what,
    )


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    remove_merged(context.spark, context.home)
    status = _ingest(context, arguments)
    with context.console.step("merging the batches of days"):
        merge_days(context.spark, context.home, context.check_lock)
    return status


def _ingest(context: JobContext, arguments: argparse.Namespace) -> int:
    spark, home, folders = context.spark, context.home, list(dict.fromkeys(arguments.decisions))
    finished = finished_batches(spark, home)
    known = known_files(spark, home, finished)
    with context.console.step(f"looking for new files in {', '.join(folders)}"):
        files = new_files(spark, folders, known)
    turn = Turn.begin(context.check_lock, finished)
    ingesting = Ingesting(spark, home, folders, Taken(known), turn, arguments.skip_unreadable_files)
    done = _take(context, ingesting, files, arguments.files_at_once)
    return _say(context, done, fails=arguments.fail_on_quarantine)


def _take(context: JobContext, ingesting: Ingesting, files: Sequence[LogFile], at_once: int) -> list[BatchDone]:
    done: list[BatchDone] = []
    for first in range(0, len(files), at_once):
        part = files[first : first + at_once]
        with context.console.step(f"reading {len(part):,} of {len(files) - first:,} files"):
            try:
                done.append(ingest_batch(ingesting, part, ingesting.turn.batch(len(done))))
            except (PySparkException, Py4JError) as fault:
                raise explained(context.spark, ingesting.folders, fault) from fault
        for file in done[-1].unread:
            context.console.warn(f"`{file.path}` gave no line, and was not marked as read")
    return done


def _say(context: JobContext, done: Sequence[BatchDone], *, fails: bool) -> int:
    decisions, quarantined = (sum(each.manifest[name] for each in done) for name in ("decisions", "quarantined"))
    context.metrics.count("decisions_written", decisions)
    context.metrics.count("lines_quarantined", quarantined)
    batches = "1 batch" if len(done) == 1 else f"{len(done)} batches"
    context.console.say(f"{decisions:,} decisions taken in {batches}, {quarantined:,} lines put aside")
    if quarantined:
        by_column = Counter[str]()
        for each in done:
            by_column.update(each.manifest["quarantined_by_column"])
        wrong = ", ".join(f"{column} {count:,}" for column, count in sorted(by_column.items()))
        context.console.say(f"put aside by column: {wrong}")
        context.console.say(f"they are in {context.home.room('decisions', 'quarantine')} (file, reason, line)")
    return 1 if quarantined and fails else 0


def log_folder(name: str) -> str:
    """The folder of the decision log. Raises PipelineError for a name that Spark would take for a pattern."""
    if not name:
        raise PipelineError("the name of the folder is empty; name the one that decision.log.path names")
    if found := _GLOB.search(name):
        raise PipelineError(f"Spark reads `{found[0]}` in a folder's name as a wildcard; rename the folder")
    return name


JOB = Job("ingest", "take what is new in the service's decision log", add_arguments, run)
