"""`hygiene`: ACLs that could go, or could be narrower, each with the reason and the command that mends it."""

import argparse
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.core.records import AccessControlEntryRecord
from app.pipeline.context import JobContext
from app.pipeline.decision_log import log_window, read_decisions
from app.pipeline.detached import detached
from app.pipeline.effective import masks_of, nodes_of
from app.pipeline.errors import PipelineError
from app.pipeline.export import exported_records
from app.pipeline.hygiene_tables import HygieneFindings, in_order, save_findings
from app.pipeline.jobs.inputs import add_offset
from app.pipeline.jobs.what_if import add_replay_arguments, allows_everyone
from app.pipeline.manifests import read_exported
from app.pipeline.mending import csv_lines, script_lines
from app.pipeline.replay import questions, replay
from app.pipeline.resources import read_resources, seen_resources
from app.pipeline.row_output import lines_of
from app.pipeline.schemas import ACLS
from app.pipeline.shadowed import shadowed, with_reading
from app.pipeline.snapshot import Snapshot, load_snapshot
from app.pipeline.usage import over_broad, unused

NAME = "hygiene"
HELP = "find ACLs that are unused, redundant, void, over-broad or detached"

_COLUMNS = ("kind", "resource_type", "pattern_type", "resource_name", "principal", "operation", "why")
_DAYS = 90
_GRACE_DAYS = 7
_TOP = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is looked at, and where findings go."""
    add_offset(parser)
    parser.add_argument("--resources", metavar="FILE", help="resources that exist; else those that the log names")
    parser.add_argument("--days", type=int, default=_DAYS, metavar="N", help=f"look at N days of the log ({_DAYS})")
    parser.add_argument(
        "--grace-days",
        type=int,
        default=_GRACE_DAYS,
        metavar="N",
        help=f"don't call an ACL unused that is younger than N days where the log ends ({_GRACE_DAYS}); "
        "their age is known from an export",
    )
    add_replay_arguments(parser)
    parser.add_argument("--top", type=int, default=_TOP, metavar="N", help=f"show N findings ({_TOP})")
    parser.add_argument("--csv", metavar="FILE", help="write all findings here as well")
    parser.add_argument("--script", metavar="FILE", help="write the commands that mend them as a shell script")
    parser.add_argument("--fail-on-findings", action="store_true", help="exit with 1 if anything was found")


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    """Find, save, and show the totals and the first findings."""
    snapshot = load_snapshot(context.spark, context.home, arguments.offset)
    log = _log(context, arguments.days)
    with context.console.step(f"looking through the ACLs at offset {snapshot.offset:,}"):
        looked_at = {"days": None if log is None else arguments.days, "resources": arguments.resources}
        read = with_reading(snapshot.acls).persist()

        def others(idle: DataFrame) -> Iterator[DataFrame]:
            read.unpersist()
            return _others(context, arguments, snapshot, idle, log)

        found = save_findings(context.home, snapshot, shadowed(read), others, looked_at)
    _show(context, found, arguments.top)
    _write_files(context, found, arguments)
    return 1 if arguments.fail_on_findings and any(found.manifest["counts"].values()) else 0


def _others(
    context: JobContext, arguments: argparse.Namespace, snapshot: Snapshot, idle: DataFrame, log: DataFrame | None
) -> Iterator[DataFrame]:
    known = _known(context, arguments, log)
    if known is not None:
        yield detached(snapshot.acls, known)
    if log is None or known is None:
        return
    # INVARIANT: all findings may be mended together. An ACL that decided nothing since a narrower one did may be all
    # that makes the narrower one redundant, so the log is asked what it needs of the ACLs that are left.
    left = snapshot.acls.join(idle.select(sf.col("acl_id").alias("id")), "id", "left_anti").select(ACLS.fieldNames())
    open_to_all = allows_everyone(arguments, snapshot, log)
    window = log_window(log)
    replayed = replay(left, questions(log), allow_everyone=open_to_all, buckets=arguments.buckets).persist()
    yield unused(
        left,
        replayed,
        log,
        log=str(window),
        allow_everyone=open_to_all,
        created_at=_created_at(context),
        judged_before=window.last_time and window.last_time - timedelta(days=arguments.grace_days),
    )
    yield over_broad(left, replayed, nodes_of(known, masks_of(left)), allow_everyone=open_to_all)
    replayed.unpersist()


def _created_at(context: JobContext) -> DataFrame | None:
    """When ACLs came to be, as far as an export tells."""
    if read_exported(context.spark, context.home) is None:
        return None
    created = exported_records(context.spark, context.home).filter(sf.col("kind") == AccessControlEntryRecord.__name__)
    return created.select("acl_id", sf.col("recorded_at").alias("created_at"))


def _log(context: JobContext, days: int) -> DataFrame | None:
    """The last days of the log; None, and a note, if nothing was ingested."""
    try:
        decisions = read_decisions(context.spark, context.home)
    except PipelineError as fault:
        context.console.note(f"without a log there is no UNUSED and no OVER_BROAD: {fault}")
        return None
    last = log_window(decisions).last_time
    return decisions if last is None else read_decisions(context.spark, context.home, last - timedelta(days=days))


def _known(context: JobContext, arguments: argparse.Namespace, log: DataFrame | None) -> DataFrame | None:
    """The resources of the list and of the log."""
    listed = None if arguments.resources is None else read_resources(context.spark, arguments.resources)
    if log is None:
        if listed is None:
            context.console.note("without a log or --resources there is no DETACHED")
        return listed
    seen = seen_resources(log)
    return seen if listed is None else listed.unionByName(seen).distinct()


def _show(context: JobContext, found: HygieneFindings, top: int) -> None:
    counts = found.manifest["counts"]
    for kind, count in counts.items():
        context.metrics.count(f"findings_{kind.lower()}", count)
    context.console.say(", ".join(f"{kind} {count:,}" for kind, count in counts.items()))
    rows = in_order(found.findings).select(*_COLUMNS).limit(top).collect()
    if rows:
        for line in lines_of(_COLUMNS, (tuple(row) for row in rows), "table"):
            context.console.say(line)
    if sum(counts.values()) > len(rows):
        context.console.say(f"and {sum(counts.values()) - len(rows):,} more; --csv FILE and --script FILE have all")


def _write_files(context: JobContext, found: HygieneFindings, arguments: argparse.Namespace) -> None:
    wanted = [
        (arguments.csv, csv_lines),
        (arguments.script, lambda rows: script_lines(rows, found.manifest["cluster_id"], found.manifest["offset"])),
    ]
    for path, lines in wanted:
        if path is not None:
            with context.console.step(f"writing {path}"):
                rows = (row.asDict() for row in in_order(found.findings).toLocalIterator())
                _write(Path(path), lines(rows))


def _write(path: Path, lines: Iterable[str]) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line}\n" for line in lines)
    except OSError as fault:
        raise PipelineError(f"`{path}` can't be written: {fault.strerror}") from None
