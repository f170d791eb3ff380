"""`what-if`: a change of ACLs, tried on the decisions of the log before it is made."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from app.core.authorize import Rule
from app.core.kafka.configs import ALLOW_EVERYONE, SUPER_USERS, parse_configs
from app.pipeline.access.candidates import Candidate, refuse_excessive
from app.pipeline.access.change_files import read_candidate
from app.pipeline.access.replay import DEFAULT_BUCKETS, questions, replay_change
from app.pipeline.access.what_if import CREATED, DELETED, changes_of, flips_of, sided_acls, totals_of
from app.pipeline.context import JobContext
from app.pipeline.history.decision_log import LogWindow, log_window, read_decisions
from app.pipeline.history.schemas import FLIPS
from app.pipeline.history.snapshot import Snapshot, load_snapshot
from app.pipeline.jobs.local_home import LocalHome
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.manifests import versions
from app.pipeline.spark.parsing import number_from, parse_time, told_by
from app.pipeline.spark.row_output import lines_of, write_lines
from app.pipeline.spark.storage import write_document

NAME = "what-if"
HELP = "try a change of ACLs on the decisions of the log"

_SHOWN = 20
_MOST_BUCKETS = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_WIDEST = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the job's options."""
    for kind, what in (
        ("create", "ACLs in any format that `klamm plan` takes, or saved plans (plan --save), deletes and all"),
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
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="the format of the files to create, if it is not recognised, as for `klamm plan`",
    )
    parser.add_argument(
        "--name", type=told_by(change_name), default="candidate", help="what the result is kept under (candidate)"
    )
    for flag, which in (("--since", "from this time on, as 2026-11-22T00:00:00Z"), ("--until", "before this time")):
        parser.add_argument(flag, metavar="TIME", type=told_by(parse_time), help=f"only decisions {which}")
    add_replay_arguments(parser)
    parser.add_argument(
        "--fail-on",
        choices=("any", "denied"),
        default="any",
        help="exit code 1 if any decision flips, or only if one would be denied that is allowed now (any)",
    )
    parser.add_argument("--top", type=number_from(0), default=_SHOWN, metavar="N", help=f"show N rows ({_SHOWN})")
    parser.add_argument("--csv", metavar="FILE", type=Path, help="write all flips here as well")
    parser.set_defaults(check=_check, check_home=_check_home)


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what every job has that asks core again."""
    parser.add_argument(
        "--allow-everyone-if-no-acl-found",
        choices=("true", "false"),
        help="what the service is started with (what the snapshot says, else true if the log has such a decision)",
    )
    parser.add_argument(
        "--buckets",
        metavar="N",
        type=number_from(1, _MOST_BUCKETS),
        default=DEFAULT_BUCKETS,
        help=f"how many parts principals are dealt out to; more take less memory each ({DEFAULT_BUCKETS})",
    )


def allows_everyone(arguments: argparse.Namespace, snapshot: Snapshot, decisions: DataFrame | None = None) -> bool:
    """Whether resources without ACLs are open: what the arguments say, else the snapshot's configuration.

    The service's start-up configuration is not in its store; a log shows it by decisions that were made for that.
    """
    given = arguments.allow_everyone_if_no_acl_found or snapshot.configs.get(ALLOW_EVERYONE)
    if given is None and decisions is not None:
        return not decisions.filter(sf.col("rule") == Rule.DEFAULT_ALLOW.value).isEmpty()
    return parse_configs({ALLOW_EVERYONE: given}).allow_everyone_if_no_acl_found


def _super_users(snapshot: Snapshot) -> frozenset[str] | None:
    """Who is a super user by the snapshot; None where only the service's start-up configuration says."""
    stored = snapshot.configs.get(SUPER_USERS)
    return None if stored is None else parse_configs({SUPER_USERS: stored}).super_users


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    """Replay the log on both sides of the change. 1 if decisions flip."""
    candidate = _check(arguments)
    snapshot = load_snapshot(context.spark, context.home)
    decisions = read_decisions(context.spark, context.home, arguments.since, arguments.until)
    sided = sided_acls(snapshot.acls, candidate).persist(StorageLevel.DISK_ONLY)
    with context.console.step(f"applying {len(arguments.changes)} files to the ACLs at offset {snapshot.offset}"):
        changed = _write_changes(context, arguments.name, sided, candidate)
    with context.console.step("counting the log"):
        window = log_window(decisions)
    replayed = replay_change(
        sided,
        questions(decisions, _super_users(snapshot)),
        allow_everyone=allows_everyone(arguments, snapshot, decisions),
        buckets=arguments.buckets,
    ).persist(StorageLevel.DISK_ONLY)
    with context.console.step(f"asking core again: {window}"):
        totals = _first(totals_of(replayed))
        room = _room(context, arguments.name, "flips")
        flips_of(replayed).write.mode("overwrite").parquet(room)
    flips = context.spark.read.schema(FLIPS).parquet(room).count()
    counts = {**changed, **{name: int(number) for name, number in totals.items()}, "flips": flips}
    document = {
        "job": NAME,
        "name": arguments.name,
        "cluster_id": snapshot.cluster_id,
        "epoch": snapshot.epoch,
        "offset": snapshot.offset,
        "files": [path for _, path in arguments.changes],
        "first_time": window.first_time and window.first_time.isoformat(),
        "last_time": window.last_time and window.last_time.isoformat(),
        "sampled": window.sampled,
        "counts": counts,
        **versions(context.spark),
    }
    write_document(context.spark, _room(context, arguments.name, "manifest"), document)
    for name, number in counts.items():
        # The rows are groups of decisions, and what flips is decisions.
        context.metrics.count("rows_of_flips" if name == "flips" else name, number)
    _show(context, counts, window)
    _show_flips(context, room, counts["flips"], arguments.top)
    if arguments.csv is not None:
        with context.console.step(f"writing {arguments.csv}"):
            _write_csv(arguments.csv, context.spark.read.schema(FLIPS).parquet(room))
    replayed.unpersist()
    sided.unpersist()
    fatal = counts["newly_denied"] + (counts["newly_allowed"] if arguments.fail_on == "any" else 0)
    return 1 if fatal else 0


def _write_changes(context: JobContext, name: str, sided: DataFrame, candidate: Candidate) -> dict[str, int]:
    """Keep which ACLs come and go, and count them."""
    changes = changes_of(sided)
    by_step = {
        (row["step"], row["change"]): row["count"] for row in changes.groupBy("step", "change").count().collect()
    }
    for number, step in enumerate(candidate.steps):
        refuse_excessive(step, by_step.get((number, CREATED), 0), by_step.get((number, DELETED), 0))
    changes.write.mode("overwrite").parquet(_room(context, name, "changes"))
    created, deleted = (
        sum(count for (_, change), count in by_step.items() if change == kind) for kind in (CREATED, DELETED)
    )
    return {"acls_created": created, "acls_deleted": deleted}


def _check_home(_arguments: argparse.Namespace, home: LocalHome) -> None:
    home.snapshot(None)
    home.decisions()


def _check(arguments: argparse.Namespace) -> Candidate:
    """The change that the files describe. Raises PipelineError."""
    if not arguments.changes:
        raise PipelineError("nothing to try; name the change's files with --create and --delete")
    if None not in (arguments.since, arguments.until) and arguments.since >= arguments.until:
        raise PipelineError("--since is not before --until, so there is nothing between them; change one of them")
    return read_candidate(arguments.changes, arguments.format)


def change_name(text: str) -> str:
    """The name that a change is kept under. Raises PipelineError for one that is none."""
    if _NAME.fullmatch(text) is None:
        raise PipelineError(f"`{text}` can't be a folder's name; use letters, digits, `.`, `_`, `-`")
    return text


def _show(context: JobContext, counts: Mapping[str, int], window: LogWindow) -> None:
    say = context.console.say
    say(f"{counts['acls_created']:,} ACLs would be created, {counts['acls_deleted']:,} deleted")
    say(f"{counts['decisions']:,} decisions replayed as {counts['questions']:,} questions: {window}")
    say(f"newly denied {counts['newly_denied']:,}, newly allowed {counts['newly_allowed']:,} decisions")
    if counts["drifted"]:
        say(f"{counts['drifted']:,} logged decisions differ from what the snapshot answers: ACLs have changed since")


def _show_flips(context: JobContext, room: str, number: int, top: int) -> None:
    if not number:
        return
    say, flips = context.console.say, context.spark.read.schema(FLIPS).parquet(room)
    order = (sf.desc("decisions"), "principal", "resource_type", "resource_name", "operation", "after")
    # Timestamps would lose their zone on the way to Python.
    shown = [sf.date_format(f"{name}_time", "yyyy-MM-dd HH:mm").alias(name) for name in ("first", "last")]
    rows = [_cells(row) for row in flips.orderBy(*order).limit(top).select("*", *shown).collect()]
    for line in _table(("PRINCIPAL", "ACTION", "BECOMES", "DECISIONS", "FIRST (UTC)", "LAST (UTC)", "BY ACL"), rows):
        say(line)
    if number > top:
        say(f"... and {number - top:,} more rows; --csv FILE has all")


def _write_csv(path: Path, flips: DataFrame) -> None:
    """All flips, times in UTC, several hosts in one field."""
    times = {
        f"{each}_time": sf.date_format(f"{each}_time", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'") for each in ("first", "last")
    }
    hosts = {"hosts": sf.concat_ws(" ", "hosts")}
    rows = flips.withColumns({**times, **hosts}).orderBy(sf.desc("decisions"), *flips.columns[:4]).toLocalIterator()
    write_lines(path, lines_of(FLIPS.fieldNames(), map(tuple, rows), "csv"))


def _cells(row: Row) -> tuple[str, ...]:
    # The ACL that decides now, or the one that did and has gone.
    acl_id = row["after_acl_id"] or row["before_acl_id"]
    return (
        row["principal"],
        f"{row['operation']} {row['resource_type']} {row['resource_name']}",
        row["after"],
        f"{row['decisions']:,}",
        row["first"],
        row["last"],
        acl_id or "(none)",
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    shown = [head, *([_shortened(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def _shortened(text: str) -> str:
    visible = text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
    return visible if len(visible) <= _WIDEST else f"{visible[: _WIDEST - 3]}..."


def _first(frame: DataFrame) -> dict[str, Any]:
    return frame.collect()[0].asDict()


def _room(context: JobContext, name: str, part: str) -> str:
    return context.home.room("what-if", name, part)


def _of_kind(kind: str) -> Callable[[str], tuple[str, str]]:
    return lambda path: (kind, path)
