"""`export`: what the store has recorded since the last run, into Parquet."""

import argparse
import os

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from app.core.records import GENESIS_HASH
from app.core.token import Token
from app.formats.arguments import whole_number
from app.pipeline.context import Job, JobContext
from app.pipeline.history.export import Copying, damage, export_batch, refuse_other_history, take_base
from app.pipeline.history.manifests import Exported, exporter_of, read_exported
from app.pipeline.history.schemas import INT_MAX
from app.pipeline.history.source import ROWS_PER_RANGE, read_head, stretches, tell_exported
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.faults import explain
from app.pipeline.spark.jdbc import JdbcSource, jdbc_source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ranges",
        type=whole_number(1, INT_MAX),
        default=8,
        metavar="N",
        help=f"at most this many ranges of about {ROWS_PER_RANGE:,} records per batch, each read over its own "
        "connection (default: 8); more new records than that become several batches",
    )


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    """Copy (H0, H1]: H0 is where the last run ended, H1 where the store ends as this one begins."""
    source = jdbc_source(arguments, os.environ)
    exported = read_exported(context.spark, context.home) or _begin(context, source)
    if exported is not None and (faults := exported.faults()):
        raise PipelineError(damage(faults))
    _copy_new(context, source, exported, arguments.ranges)
    return 0


def _begin(context: JobContext, source: JdbcSource) -> Exported | None:
    """A first export. If the first records are gone already, or there are none yet, it begins with the state itself."""
    head = read_head(context.spark, source)
    if head.log_start_offset == 1 and head.last_offset > 0:
        return None
    why = f"records before {head.log_start_offset} are trimmed" if head.last_offset else "there is no record yet"
    with context.console.step(f"taking a base, for {why}"):
        base = take_base(context.spark, source, context.home)
    context.console.say(f"base of {base.acls:,} ACLs at offset {base.offset}")
    context.metrics.count("base_acls_written", base.acls)
    return Exported(base, ())


def _copy_new(context: JobContext, source: JdbcSource, exported: Exported | None, most_ranges: int) -> None:
    after, previous = (0, GENESIS_HASH) if exported is None else (exported.last_offset, exported.hash)
    # INVARIANT: read once. What is written during this run is left to the next one.
    head = read_head(context.spark, source, after)
    if exported is not None:
        refuse_other_history(exported, head)
    if head.last_offset == after:
        context.console.say(f"nothing new since offset {after}")
        _tell(context, source, head.epochs.token_of(after))
        return
    for first, through in stretches(after, head.last_offset, most_ranges):
        with context.console.step(f"copying offsets {first + 1:,} to {through:,}"):
            copying = Copying(source, context.home, context.check_lock, head, first, through, previous)
            batch = export_batch(context.spark, copying, most_ranges)
        previous = bytes.fromhex(batch.hash)
        _tell(context, source, head.epochs.token_of(through))
        context.metrics.count("records_exported", through - first)
    context.console.say(f"exported offsets {after + 1} to {head.last_offset}; the store is in epoch {head.epochs.last}")


def _tell(context: JobContext, source: JdbcSource, through: Token) -> None:
    """Tells the store how far the export is, as its retention waits for that. The export stands even if that fails."""
    exporter = exporter_of(context.spark, context.home)
    try:
        tell_exported(context.spark, source, exporter, through)
    except (PySparkException, Py4JError) as fault:
        why, _ = explain(fault, os.environ)
        context.console.warn(
            f"could not tell the store that offsets up to {through.offset} are exported, so it may trim later records "
            f"before the next export: {why}"
        )


JOB = Job(
    "export", "copy the records of the change feed that are new into Parquet", add_arguments, run, database="always"
)
