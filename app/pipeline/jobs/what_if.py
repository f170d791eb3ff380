"""`what-if`: a change of ACLs, tried on the decisions of the log before it is made."""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from app.core.kafka.bindings import rfc3339
from app.core.kafka.configs import SUPER_USERS
from app.formats.file_flags import add_file_flags, file_flags
from app.pipeline.access.changes import Candidate, refuse_excessive
from app.pipeline.access.replay import open_to_all, questions, replay_change
from app.pipeline.access.what_if import CREATED, DELETED, changes_of, flips_of, sided_acls, totals_of
from app.pipeline.context import Job, JobContext
from app.pipeline.history.decision_log import LogWindow, log_window, open_log
from app.pipeline.history.schemas import FLIPS
from app.pipeline.history.snapshot import load_snapshot
from app.pipeline.jobs.inputs import add_period, add_replay_arguments, add_top, check_period, log_is_there
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.row_output import csv_lines, write_lines
from app.pipeline.spark.storage import versions, write_document

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HEADS = ("PRINCIPAL", "ACTION", "BECOMES", "DECISIONS", "FIRST (UTC)", "LAST (UTC)", "BY ACL")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for kind, what in (
        ("create", "ACLs in any format that `klamm plan` takes, or saved plans (plan --save), including their deletes"),
        ("delete", "the JSON body of deleteAcls"),
    ):
        parser.add_argument(
            f"--{kind}",
            metavar="FILE",
            nargs="+",
            action="extend",
            type=_of_kind(kind),
            dest="changes",
            help=f"files with {what}; all files take effect in the order given",
        )
    add_file_flags(parser, "the created files'")
    parser.add_argument(
        "--name", type=change_name, default="candidate", help="name under which the result is kept (candidate)"
    )
    add_period(parser)
    add_replay_arguments(parser)
    parser.add_argument(
        "--fail-on",
        choices=("any", "denied"),
        default="any",
        help="exit code 1 if any decision flips, or only if one would be denied that is allowed now (any)",
    )
    add_top(parser, "rows")
    parser.add_argument("--csv", metavar="FILE", type=Path, help="write all flips here as well")


def _of_kind(kind: str) -> Callable[[str], tuple[str, str]]:
    return lambda path: (kind, path)


def change_name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise PipelineError(f"`{text}` can't be a folder's name; use letters, digits, `.`, `_`, `-`")
    return text


def _check(arguments: argparse.Namespace) -> Candidate:
    if not arguments.changes:
        raise PipelineError("nothing to try; name the change's files with --create and --delete")
    check_period(arguments)
    try:
        from app.pipeline.access.change_files import read_candidate  # noqa: PLC0415 - its packages may be missing
    except ModuleNotFoundError as missing:
        raise PipelineError(f"reading files of ACLs needs the package {missing.name}; install it here") from None
    return read_candidate(arguments.changes, file_flags(arguments))


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    candidate, spark = _check(arguments), context.spark
    for note in candidate.notes:
        context.console.say(note)
    changes_path, flips_path, manifest_path = (
        context.home.room("what-if", arguments.name, part) for part in ("changes", "flips", "manifest")
    )
    snapshot = load_snapshot(spark, context.home)
    decisions = open_log(spark, context.home).uses(arguments.since, arguments.until).persist()
    sided = sided_acls(snapshot.in_effect, candidate).persist(StorageLevel.DISK_ONLY)
    with context.console.step(f"applying {len(arguments.changes)} files to the ACLs at offset {snapshot.offset}"):
        counts = _write_changes(changes_path, sided, candidate)
    _say_what_ends(context, snapshot.in_effect)
    with context.console.step("counting the log"):
        window = log_window(decisions)
    # Without stored super users, the log says who was one.
    supers = snapshot.config.super_users if SUPER_USERS in snapshot.configs else None
    asked = questions(decisions, supers).persist()
    replayed = replay_change(
        sided,
        asked,
        allow_everyone=open_to_all(arguments.allow_everyone_if_no_acl_found, snapshot, decisions),
        buckets=arguments.buckets,
    ).persist(StorageLevel.DISK_ONLY)
    with context.console.step(f"replaying the log: {window}"):
        counts |= {name: int(number) for name, number in totals_of(replayed).collect()[0].asDict().items()}
        flips_of(replayed).write.mode("overwrite").parquet(flips_path)
    flips = spark.read.schema(FLIPS).parquet(flips_path)
    counts["flips"] = flips.count()
    document = {
        "job": JOB.name,
        "name": arguments.name,
        "cluster_id": snapshot.cluster_id,
        "epoch": str(snapshot.token.epoch),
        "offset": snapshot.offset,
        "files": [path for _, path in arguments.changes],
        "first_time": window.first_time and window.first_time.isoformat(),
        "last_time": window.last_time and window.last_time.isoformat(),
        "sampled": window.sampled,
        "counts": counts,
        **versions(spark),
    }
    write_document(spark, manifest_path, document)
    _show(context, counts, window, flips, arguments.top)
    if arguments.csv is not None:
        with context.console.step(f"writing {arguments.csv}"):
            _write_csv(arguments.csv, flips)
    for each in (decisions, asked, replayed, sided):
        each.unpersist()
    fatal = counts["newly_denied"] + (counts["newly_allowed"] if arguments.fail_on == "any" else 0)
    return 1 if fatal else 0


def _say_what_ends(context: JobContext, acls: DataFrame) -> None:
    ending, first_s = acls.agg(sf.count("expires_s"), sf.min("expires_s")).collect()[0]
    if ending:
        first = rfc3339(datetime.fromtimestamp(first_s, UTC))
        context.console.say(
            f"{ending:,} ACLs end later, the first at {first}: here they are treated as if they never ended"
        )


def _write_changes(path: str, sided: DataFrame, candidate: Candidate) -> dict[str, int]:
    changes = changes_of(sided)
    rows = changes.groupBy("step", "change").count().collect()
    by_step = Counter({(row["step"], row["change"]): row["count"] for row in rows})
    for number, step in enumerate(candidate.steps):
        refuse_excessive(step, by_step[number, CREATED], by_step[number, DELETED])
    changes.write.mode("overwrite").parquet(path)
    return {
        f"acls_{kind.lower()}": sum(row["count"] for row in rows if row["change"] == kind)
        for kind in (CREATED, DELETED)
    }


def _show(context: JobContext, counts: Mapping[str, int], window: LogWindow, flips: DataFrame, top: int) -> None:
    for name, number in counts.items():
        # `flips` are rows, each a group of decisions.
        context.metrics.count("rows_of_flips" if name == "flips" else name, number)
    say = context.console.say
    say(f"{counts['acls_created']:,} ACLs would be created, {counts['acls_deleted']:,} deleted")
    say(f"{counts['decisions']:,} decisions replayed as {counts['questions']:,} questions: {window}")
    say(f"newly denied {counts['newly_denied']:,}, newly allowed {counts['newly_allowed']:,} decisions")
    if counts["drifted"]:
        say(f"{counts['drifted']:,} logged decisions differ from what the snapshot answers: ACLs have changed since")
    if not counts["flips"]:
        return
    order = (sf.desc("decisions"), "principal", "resource_type", "resource_name", "operation", "after")
    # Timestamps would lose their zone on the way to Python.
    shown = [sf.date_format(f"{name}_time", "yyyy-MM-dd HH:mm").alias(name) for name in ("first", "last")]
    rows = [_cells(row) for row in flips.orderBy(*order).limit(top).select("*", *shown).collect()]
    context.console.rows(_HEADS, rows)
    if counts["flips"] > top:
        say(f"... and {counts['flips'] - top:,} more rows; --csv FILE has all")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row["principal"],
        f"{row['operation']} {row['resource_type']} {row['resource_name']}",
        row["after"],
        f"{row['decisions']:,}",
        row["first"],
        row["last"],
        # The ACL that decides after the change, or the deleted one that decided before.
        row["after_acl_id"] or row["before_acl_id"] or "(none)",
    )


def _write_csv(path: Path, flips: DataFrame) -> None:
    times = {
        f"{each}_time": sf.date_format(f"{each}_time", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'") for each in ("first", "last")
    }
    hosts = {"hosts": sf.concat_ws(" ", "hosts")}
    rows = flips.withColumns({**times, **hosts}).orderBy(sf.desc("decisions"), *flips.columns[:4]).toLocalIterator()
    write_lines(path, csv_lines(FLIPS.fieldNames(), map(tuple, rows)))


JOB = Job(
    "what-if",
    "try a change of ACLs on the decisions of the log",
    add_arguments,
    run,
    check=_check,
    check_home=log_is_there,
    room=lambda arguments: f"what-if/{arguments.name}",
)
