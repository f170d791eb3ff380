"""`hygiene`: ACLs that could go, or could be narrower, each with the reason and the command that mends it."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.core.authorize import Rule
from app.core.kafka.configs import ALLOW_EVERYONE
from app.pipeline.access.effective import masks_of, nodes_of
from app.pipeline.access.replay import questions, replay
from app.pipeline.access.resources import resource_list
from app.pipeline.context import JobContext
from app.pipeline.history.export import acls_ever
from app.pipeline.history.schemas import ACLS, FOUND
from app.pipeline.history.snapshot import Snapshot, load_snapshot
from app.pipeline.hygiene.detached import detached
from app.pipeline.hygiene.kafka_acls import KLAMM, TOOLS
from app.pipeline.hygiene.mending import csv_lines, script_lines
from app.pipeline.hygiene.shadowed import shadowed, with_reading
from app.pipeline.hygiene.tables import HygieneFindings, in_order, save_findings
from app.pipeline.hygiene.usage import UNUSED, broad_acls, closed_without_acl, over_broad, unused
from app.pipeline.jobs.evidence import Log, left_out, log_of, names_of
from app.pipeline.jobs.inputs import add_offset, needs_snapshot
from app.pipeline.jobs.what_if import add_replay_arguments, allows_everyone
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.manifests import read_exported
from app.pipeline.spark.parsing import number_from, told_by
from app.pipeline.spark.row_output import lines_of, write_lines

NAME = "hygiene"
HELP = "find ACLs that are unused, redundant, void, over-broad or detached"

_COLUMNS = ("kind", "resource_type", "pattern_type", "resource_name", "principal", "operation", "why")
_DAYS = 90
_MIN_DAYS = 30
_MOST_DAYS = 36_500
_TOP = 20

DAYS, MIN_DAYS = number_from(1, _MOST_DAYS), number_from(0, _MOST_DAYS)
"""The types of the two options."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is looked at, and where findings go."""
    add_offset(parser)
    parser.add_argument(
        "--resources",
        metavar="FILE",
        type=told_by(resource_list),
        help="resources that exist; else those that the log names",
    )
    parser.add_argument(
        "--days",
        type=DAYS,
        default=_DAYS,
        metavar="N",
        help=f"look at N days of the log ({_DAYS})",
    )
    parser.add_argument(
        "--min-days",
        type=MIN_DAYS,
        default=_MIN_DAYS,
        metavar="N",
        help="judge by the log only ACLs that were there for N days that it covers, counted by hours with a decision "
        f"({_MIN_DAYS}; 0 takes a log of any length)",
    )
    add_replay_arguments(parser)
    parser.add_argument("--top", type=number_from(0), default=_TOP, metavar="N", help=f"show N findings ({_TOP})")
    parser.add_argument("--csv", metavar="FILE", type=Path, help="write all findings here as well")
    parser.add_argument(
        "--script", metavar="FILE", type=Path, help="write the commands that mend them as a shell script"
    )
    add_tool(parser, KLAMM)
    parser.add_argument("--fail-on-findings", action="store_true", help="exit with 1 if anything was found")
    parser.set_defaults(check=_check)
    needs_snapshot(parser)


def add_tool(parser: argparse.ArgumentParser, default: str) -> None:
    """Declare whose commands mend; nothing is set by a default of argparse.SUPPRESS."""
    parser.add_argument(
        "--tool",
        choices=TOOLS,
        default=default,
        help=f"whose commands mend: `klamm acls`, or kafka-acls where a broker keeps ACLs itself ({KLAMM})",
    )


def _check(arguments: argparse.Namespace) -> None:
    if arguments.days < arguments.min_days:
        raise PipelineError(
            f"--days {arguments.days} is less than --min-days {arguments.min_days}, so no log would be long enough; "
            f"look at more days, or say --min-days {arguments.days} as well"
        )


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    """Find, save, and show the totals and the first findings."""
    snapshot = load_snapshot(context.spark, context.home, arguments.offset)
    log = log_of(context, arguments, snapshot)
    with context.console.step(f"looking through the ACLs at offset {snapshot.offset:,}"):
        looked_at = {
            "days": None if log is None else arguments.days,
            "min_days": arguments.min_days,
            "covered_hours": None if log is None else log.coverage.covered_hours,
            "left_out": left_out(log),
            "resources": arguments.resources,
        }
        read = with_reading(snapshot.acls).persist()

        def others(saved: Callable[[], DataFrame]) -> Iterator[DataFrame]:
            read.unpersist()
            return _others(context, arguments, snapshot, saved, log)

        found = save_findings(context.home, snapshot, shadowed(read), others, looked_at, arguments.tool)
    _show(context, found, arguments.top, log)
    _write_files(context, found, arguments)
    return 1 if arguments.fail_on_findings and any(found.manifest["counts"].values()) else 0


def _others(
    context: JobContext,
    arguments: argparse.Namespace,
    snapshot: Snapshot,
    saved: Callable[[], DataFrame],
    log: Log | None,
) -> Iterator[DataFrame]:
    names = names_of(context, arguments, log)
    if names.of_listed_types is not None:
        yield detached(snapshot.acls, names.of_listed_types)
    if log is not None and log.judged is not None and names.seen is not None:
        judged = log.judged.select(sf.col("acl_id").alias("id"))
        yield detached(snapshot.acls.join(judged, "id", "left_semi"), names.of_other_types(names.seen))
        open_to_all = _open_to_all(context, arguments, snapshot, log.decisions)
        by_use = _ByUse(log, log.judged, names.known(names.seen), open_to_all, arguments.buckets)
        yield from by_use.findings(snapshot, saved)
    if names.seen is not None:
        names.seen.unpersist()


@dataclass(frozen=True, slots=True)
class _ByUse:
    """What the log shows not to be used. Only ACLs that it is long enough for (`judged`) are ever in it."""

    log: Log
    judged: DataFrame
    known: DataFrame
    open_to_all: bool
    buckets: int

    def findings(self, snapshot: Snapshot, saved: Callable[[], DataFrame]) -> Iterator[DataFrame]:
        # INVARIANT: all findings may be mended together. An ACL that decided nothing since a narrower one did may be
        # all that makes the narrower one redundant, so the log is asked what it needs of the ACLs that are left.
        left = snapshot.acls.join(saved().select(sf.col("acl_id").alias("id")), "id", "left_anti")
        # Whatever Spark keeps of files that are appended to it forgets at each append: the replay would be made twice.
        left = left.select(ACLS.fieldNames()).localCheckpoint()
        # Who was a super user may not be one tomorrow, and with the authorizer switched off everybody is logged as one.
        asked = questions(self.log.decisions.withColumn("rule", sf.lit(Rule.MATCHING_ACL.value)))
        replayed = replay(left, asked, allow_everyone=self.open_to_all, buckets=self.buckets).persist()
        window = f"{self.log.coverage.window}, which cover {self.log.coverage}"
        yield unused(
            left, replayed, self.log.decisions, log=window, allow_everyone=self.open_to_all, judged=self.judged
        )
        # What keeps a resource closed may be one that the log does not need: it is not there any more to rely on.
        idle_by_log = saved().filter(sf.col("kind") == UNUSED).select(sf.col("acl_id").alias("id"))
        needed = left.join(idle_by_log, "id", "left_anti").select(ACLS.fieldNames())
        nodes = nodes_of(self.known, masks_of(broad_acls(needed)))
        broad = over_broad(needed, replayed, nodes, allow_everyone=self.open_to_all)
        yield broad.join(self.judged, "acl_id", "left_semi").select(FOUND.fieldNames())
        replayed.unpersist()


def _open_to_all(context: JobContext, arguments: argparse.Namespace, snapshot: Snapshot, log: DataFrame) -> bool:
    """Whether resources without ACLs are to be taken for open. True where nobody knows: that only keeps more ACLs."""
    if arguments.allow_everyone_if_no_acl_found or ALLOW_EVERYONE in snapshot.configs:
        return allows_everyone(arguments, snapshot)
    if not log.filter(sf.col("rule") == Rule.DEFAULT_ALLOW.value).isEmpty():
        return True
    if not closed_without_acl(*_known_states(context, snapshot, log)).isEmpty():
        return False
    context.console.note(
        "the log does not tell whether resources without ACLs are open, so ACLs that keep one closed are kept; "
        "say --allow-everyone-if-no-acl-found false if they are not"
    )
    return True


def _known_states(context: JobContext, snapshot: Snapshot, log: DataFrame) -> tuple[DataFrame, DataFrame]:
    """All ACLs that there were at any of some decisions, and these decisions: of the others it is not known."""
    of_this = log.filter(sf.col("epoch") == snapshot.epoch)
    exported = read_exported(context.spark, context.home)
    if exported is None or exported.epoch != snapshot.epoch or exported.faults():
        return snapshot.acls, of_this.filter(sf.col("offset") == snapshot.offset)
    known = of_this.filter(sf.col("offset").between(exported.start_offset, exported.last_offset))
    return acls_ever(context.spark, context.home, exported), known


def _show(context: JobContext, found: HygieneFindings, top: int, log: Log | None) -> None:
    counts = found.manifest["counts"]
    for kind, count in counts.items():
        context.metrics.count(f"findings_{kind.lower()}", count)
    context.console.say(", ".join(f"{kind} {count:,}" for kind, count in counts.items()))
    if log is not None:
        context.console.say(log.told)
    rows = []
    # Each kind is seen, though there may be thousands of the first.
    for kind, share in _shares(counts, top).items():
        of_kind = found.findings.where(sf.col("kind") == kind)
        rows += [tuple(row) for row in in_order(of_kind).select(*_COLUMNS).limit(share).collect()]
    if rows:
        for line in lines_of(_COLUMNS, rows, "table"):
            context.console.say(line)
    if sum(counts.values()) > len(rows):
        context.console.say(f"and {sum(counts.values()) - len(rows):,} more; --csv FILE and --script FILE have all")


def _shares(counts: Mapping[str, int], top: int) -> dict[str, int]:
    """How many of each kind are shown, in the order of kinds: what one leaves free the others take."""
    shares = dict.fromkeys(counts, 0)
    few_first = sorted((kind for kind in counts if counts[kind]), key=counts.__getitem__)
    for number, kind in enumerate(few_first):
        shares[kind] = min(counts[kind], (top - sum(shares.values())) // (len(few_first) - number))
    return {kind: share for kind, share in shares.items() if share}


def _write_files(context: JobContext, found: HygieneFindings, arguments: argparse.Namespace) -> None:
    wanted = [
        (arguments.csv, csv_lines),
        (arguments.script, lambda rows: script_lines(rows, found.manifest)),
    ]
    for path, lines in wanted:
        if path is not None:
            with context.console.step(f"writing {path}"):
                rows = (row.asDict() for row in in_order(found.findings).toLocalIterator())
                write_lines(path, lines(rows))
