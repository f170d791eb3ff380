"""`snapshot`: the ACLs at any offset or time, for all jobs that ask about a state."""

import argparse
import os

from app.core.kafka.bindings import rfc3339
from app.formats.arguments import whole_number
from app.pipeline.context import Job, JobContext, LocalHome
from app.pipeline.history.folding import snapshot_at
from app.pipeline.history.manifests import read_exported
from app.pipeline.history.schemas import LONG_MAX
from app.pipeline.history.snapshot import SNAPSHOTS, Snapshot, load_snapshot, refuse_other, save_snapshot
from app.pipeline.history.source import read_table
from app.pipeline.jobs.inputs import add_keep, keep_latest
from app.pipeline.spark.jdbc import check_reachable, jdbc_source
from app.pipeline.spark.options import parse_time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--offset",
        type=whole_number(0, LONG_MAX),
        metavar="N",
        help="the state after this record, the end of a transaction",
    )
    which.add_argument(
        "--time",
        metavar="TIME",
        type=parse_time,
        help="the state after the last transaction recorded at or before 2026-11-22T12:00:00Z",
    )
    which.add_argument("--from-table", action="store_true", help="the state as of now, read from the tables themselves")
    add_keep(parser)


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    if arguments.from_table:
        with context.console.step("reading the tables"):
            snapshot = _from_table(context, arguments)
    else:
        with context.console.step("finding the last record"):
            tell = context.console.warn
            snapshot = snapshot_at(context.spark, context.home, arguments.offset, arguments.time, tell)
    with context.console.step(f"saving the state at offset {snapshot.offset:,}"):
        save_snapshot(context.spark, context.home, snapshot)
        saved = load_snapshot(context.spark, context.home, snapshot.offset)
        count, ended = saved.acls.count(), saved.acls.count() - saved.in_effect.count()
    keep_latest(context, SNAPSHOTS, arguments.keep, snapshot.offset)
    context.metrics.count("acls_written", count)
    context.console.say(f"{count:,} ACLs and {len(snapshot.configs)} configs at offset {snapshot.offset}")
    if ended:
        context.console.say(f"{ended:,} of them had ended by {rfc3339(saved.as_of)}, and have no effect")
    return 0


def _from_table(context: JobContext, arguments: argparse.Namespace) -> Snapshot:
    reading = read_table(context.spark, jdbc_source(arguments, os.environ))
    head = reading.head
    snapshot = Snapshot(
        reading.acls, reading.configs, head.cluster_id, head.epochs, head.last_offset, head.read_at, head.hash.hex()
    )
    exported = read_exported(context.spark, context.home)
    if exported is not None:
        refuse_other(context.home, snapshot, exported.cluster_id, exported.epochs, exported.last_offset)
    return snapshot


def _check(arguments: argparse.Namespace) -> None:
    if arguments.from_table:
        check_reachable(arguments, os.environ)


def _check_home(arguments: argparse.Namespace, home: LocalHome) -> None:
    if not arguments.from_table:
        home.export()


JOB = Job(
    "snapshot",
    "save the ACLs at one offset, from the exported records or from the tables",
    add_arguments,
    run,
    check=_check,
    check_home=_check_home,
    database="perhaps",
)
