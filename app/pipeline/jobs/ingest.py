"""`ingest`: the service's decision log files into the decision log, each line once."""

import argparse
import re
from collections import Counter

from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

from app.formats.arguments import whole_number
from app.pipeline.context import Job, JobContext
from app.pipeline.history.ingest import batch_writer, finished_batches, lines_of
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.home_lock import home_lock
from app.pipeline.spark.options import INT_MAX, checked
from app.pipeline.spark.storage import existing

_FILES_AT_ONCE = 200
_GLOB = re.compile(r"[*?\[\]{}\\]")
_UNREADABLE = ("FAILED_READ_FILE", "FILE_NOT_EXIST", "EOFException", "ZipException", "not in gzip format")
_FILE = re.compile(r"(?:file:|[a-z0-9]+://)[^\s'\"]*decisions-[^\s'\"]*\.jsonl(?:\.gz)?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--decisions",
        metavar="FOLDER",
        required=True,
        type=checked(log_folder),
        help="the folder that the service's decision.log.path names; its closed files (decisions-*.jsonl, .jsonl.gz)",
    )
    parser.add_argument(
        "--files-at-once",
        metavar="N",
        type=whole_number(1, INT_MAX),
        default=_FILES_AT_ONCE,
        help=f"at most so many files in one batch, which is held on disk for a while ({_FILES_AT_ONCE})",
    )
    parser.add_argument(
        "--fail-on-quarantine", action="store_true", help="exit code 1 if any line was put aside in this run"
    )
    parser.add_argument(
        "--skip-unreadable-files",
        action="store_true",
        help="go on past files that have disappeared, and past the tear in a torn .gz file",
    )


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    with home_lock(context.home, "ingest"):
        return _ingest(context, arguments)


def _ingest(context: JobContext, arguments: argparse.Namespace) -> int:
    before = set(finished_batches(context.spark, context.home))
    if before:
        _refuse_lost_checkpoint(context)
    with context.console.step(f"reading new files of {arguments.decisions}"):
        _stream(context, arguments)
    batches = finished_batches(context.spark, context.home)
    new = [manifest for number, manifest in batches.items() if number not in before]
    decisions, quarantined = (sum(manifest[name] for manifest in new) for name in ("decisions", "quarantined"))
    context.metrics.count("decisions_written", decisions)
    context.metrics.count("lines_quarantined", quarantined)
    batches_taken = "1 batch" if len(new) == 1 else f"{len(new)} batches"
    context.console.say(f"{decisions:,} decisions taken in {batches_taken}, {quarantined:,} lines put aside")
    if quarantined:
        by_column = Counter[str]()
        for manifest in new:
            by_column.update(manifest["quarantined_by_column"])
        wrong = ", ".join(f"{column} {count:,}" for column, count in sorted(by_column.items()))
        context.console.say(f"put aside by column: {wrong}")
        context.console.say(f"they are in {context.home.room('decisions', 'quarantine')} (file, reason, line)")
    return 1 if quarantined and arguments.fail_on_quarantine else 0


def _stream(context: JobContext, arguments: argparse.Namespace) -> None:
    checkpoint = context.home.room("decisions", "checkpoint")
    try:
        lines = lines_of(
            context.spark,
            arguments.decisions,
            files_at_once=arguments.files_at_once,
            skip_unreadable=arguments.skip_unreadable_files,
        )
        writer = lines.writeStream.foreachBatch(batch_writer(context.home.root))
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
    except AnalysisException as fault:
        if fault.getCondition() == "PATH_NOT_FOUND":
            raise PipelineError(f"there is no folder `{arguments.decisions}`; --decisions names the log's") from None
        raise
    except StreamingQueryException as fault:
        raise _explained(fault) from fault


def _explained(fault: PySparkException) -> Exception:
    text = str(fault)
    if not any(each in text for each in _UNREADABLE):
        return fault
    found = _FILE.search(text)
    named = f"`{found[0]}`" if found else "a file of the decision log"
    return PipelineError(
        f"{named} can't be read (it has disappeared, or is torn); put a whole one in its place and run again, or with "
        "--skip-unreadable-files. What was ingested before is kept"
    )


def _refuse_lost_checkpoint(context: JobContext) -> None:
    room = context.home.room
    if existing(context.spark, room("decisions", "checkpoint", "metadata"), "text") is None:
        raise PipelineError(
            f"`{room('decisions')}` holds decisions, but its checkpoint is gone, so nobody knows which files were "
            "read: restore the folder checkpoint, or move the whole folder away to ingest all files anew"
        )


def log_folder(name: str) -> str:
    """The folder of the decision log. Raises PipelineError for a name that Spark would take for a pattern."""
    if not name:
        raise PipelineError("the name of the folder is empty; name the one that decision.log.path names")
    if found := _GLOB.search(name):
        raise PipelineError(f"Spark reads `{found[0]}` in a folder's name as a wildcard; rename the folder")
    return name


JOB = Job("ingest", "take what is new in the service's decision log", add_arguments, run)
