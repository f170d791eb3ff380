"""`hygiene`: ACLs that could go, or could be narrower, each with the reason and the command that mends it."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Row
from pyspark.sql import functions as sf

from app.core.readable import readable
from app.formats.arguments import whole_number
from app.pipeline.context import Job, JobContext
from app.pipeline.history.snapshot import load_snapshot
from app.pipeline.hygiene.evidence import Log, log_of
from app.pipeline.hygiene.findings import HygieneFindings, in_order
from app.pipeline.hygiene.mending import KLAMM, TOOLS, csv_lines, script_lines
from app.pipeline.hygiene.search import Search
from app.pipeline.jobs.inputs import (
    add_keep,
    add_offset,
    add_replay_arguments,
    add_resource_list,
    add_top,
    keep_latest,
    snapshot_is_there,
)
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.row_output import write_lines

_COLUMNS = ("kind", "resource_type", "pattern_type", "resource_name", "principal", "operation", "why")
_DAYS, _MIN_DAYS, _MOST_DAYS = 90, 30, 36_500

DAYS, MIN_DAYS = whole_number(1, _MOST_DAYS), whole_number(0, _MOST_DAYS)
"""The types of the two options."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_offset(parser)
    add_resource_list(parser, "resources that exist (default: those that the log names)")
    parser.add_argument("--days", type=DAYS, default=_DAYS, metavar="N", help=f"look at N days of the log ({_DAYS})")
    parser.add_argument(
        "--min-days",
        type=MIN_DAYS,
        default=_MIN_DAYS,
        metavar="N",
        help="judge by the log only ACLs that existed for N days that it covers, counted in hours with a decision "
        f"({_MIN_DAYS}; 0 accepts a log of any length)",
    )
    add_replay_arguments(parser)
    add_keep(parser)
    add_top(parser, "findings")
    parser.add_argument("--csv", metavar="FILE", type=Path, help="also write all findings to this file")
    parser.add_argument(
        "--script", metavar="FILE", type=Path, help="write the commands that fix them to this file, as a shell script"
    )
    add_tool(parser, KLAMM)
    parser.add_argument("--fail-on-findings", action="store_true", help="exit with 1 if anything was found")


def add_tool(parser: argparse.ArgumentParser, default: str) -> None:
    """--tool; with the default argparse.SUPPRESS its attribute is not set."""
    parser.add_argument(
        "--tool",
        choices=TOOLS,
        default=default,
        help="tool whose commands fix findings: `klamm acls`, or kafka-acls where a broker keeps ACLs itself "
        f"({KLAMM})",
    )


def _check(arguments: argparse.Namespace) -> None:
    if arguments.days < arguments.min_days:
        raise PipelineError(
            f"--days {arguments.days} is less than --min-days {arguments.min_days}, so no log would be long enough; "
            f"look at more days, or add --min-days {arguments.days}"
        )


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    snapshot = load_snapshot(context.spark, context.home, arguments.offset)
    log = log_of(context, arguments, snapshot)
    with context.console.step(f"looking through the ACLs at offset {snapshot.offset:,}"):
        found = Search(context, arguments, snapshot, log).run()
    if log is not None:
        log.decisions.unpersist()
    _show(context, found, arguments.top, log)
    _write_files(context, found, arguments)
    keep_latest(context, JOB.name, arguments.keep, snapshot.offset)
    return 1 if arguments.fail_on_findings and any(found.manifest["counts"].values()) else 0


def _show(context: JobContext, found: HygieneFindings, top: int, log: Log | None) -> None:
    counts, say = found.manifest["counts"], context.console.say
    for kind, count in counts.items():
        context.metrics.count(f"findings_{kind.lower()}", count)
    say(", ".join(f"{kind} {count:,}" for kind, count in counts.items()))
    if log is not None:
        say(log.summary)
    rows = []
    for kind, share in _shares(counts, top).items():
        of_kind = found.findings.where(sf.col("kind") == kind)
        rows += [_cells(row) for row in in_order(of_kind).select(*_COLUMNS).limit(share).collect()]
    if rows:
        context.console.rows(_COLUMNS, rows)
    if sum(counts.values()) > len(rows):
        say(f"and {sum(counts.values()) - len(rows):,} more; --csv FILE and --script FILE have all")


def _cells(row: Row) -> tuple[str, ...]:
    return tuple(readable(row[name]) if name in ("resource_name", "principal") else row[name] for name in _COLUMNS)


def _shares(counts: Mapping[str, int], top: int) -> dict[str, int]:
    """How many findings of each kind are shown, in the order of kinds: no kind crowds out another."""
    shares = dict.fromkeys(counts, 0)
    rarest_first = sorted((kind for kind in counts if counts[kind]), key=counts.__getitem__)
    for number, kind in enumerate(rarest_first):
        shares[kind] = min(counts[kind], (top - sum(shares.values())) // (len(rarest_first) - number))
    return {kind: share for kind, share in shares.items() if share}


def _write_files(context: JobContext, found: HygieneFindings, arguments: argparse.Namespace) -> None:
    for path, lines in (
        (arguments.csv, csv_lines),
        (arguments.script, lambda rows: script_lines(rows, found.manifest)),
    ):
        if path is not None:
            with context.console.step(f"writing {path}"):
                rows = (row.asDict() for row in in_order(found.findings).toLocalIterator())
                write_lines(path, lines(rows))


JOB = Job(
    "hygiene",
    "find ACLs that are unused, redundant, void, over-broad or detached",
    add_arguments,
    run,
    check=_check,
    check_home=snapshot_is_there,
)
