"""Options that several jobs share, and the data that is read by them."""

import argparse

from pyspark.sql import DataFrame

from app.formats.arguments import whole_number
from app.pipeline.access.replay import DEFAULT_BUCKETS
from app.pipeline.access.resources import read_resources, resource_list, seen_resources
from app.pipeline.context import JobContext, LocalHome
from app.pipeline.history.decision_log import open_log
from app.pipeline.history.retention import KEPT, remove_old
from app.pipeline.history.schemas import INT_MAX, LONG_MAX
from app.pipeline.spark.errors import NoDecisionsError, PipelineError
from app.pipeline.spark.options import parse_time

_MOST_BUCKETS = 10_000
_SHOWN = 20
_OFFSETS_SHOWN = 5


def add_offset(parser: argparse.ArgumentParser) -> None:
    """--offset. A job that has it checks the home by `snapshot_is_there`."""
    parser.add_argument(
        "--offset",
        type=whole_number(0, LONG_MAX),
        metavar="N",
        help="the snapshot at this offset (default: the latest)",
    )


def add_keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep",
        type=whole_number(1, INT_MAX),
        default=KEPT,
        metavar="N",
        help=f"keep the results at the N latest offsets, and those that later jobs rely on; remove older ones ({KEPT})",
    )


def keep_latest(context: JobContext, job: str, keep: int, made: int) -> None:
    """Call this at the end, once the results at the offset `made` are complete."""
    context.check_lock()
    gone = remove_old(context.spark, context.home, job, keep, made)
    context.metrics.count("results_removed", len(gone))
    if gone:
        shown = ", ".join(map(str, gone[:_OFFSETS_SHOWN])) + (", ..." if len(gone) > _OFFSETS_SHOWN else "")
        context.console.note(f"removed {len(gone):,} older than the {keep:,} latest, at offset {shown} (--keep)")


def snapshot_is_there(arguments: argparse.Namespace, home: LocalHome) -> None:
    home.snapshot(arguments.offset)


def log_is_there(arguments: argparse.Namespace, home: LocalHome) -> None:
    """Besides the snapshot, which is the latest for a job without --offset."""
    home.snapshot(getattr(arguments, "offset", None))
    home.decisions()


def add_resource_list(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--resources", metavar="FILE", type=resource_list, help=what)


def add_resources(parser: argparse.ArgumentParser) -> None:
    add_resource_list(
        parser,
        "list of resources: .csv, .jsonl, .ndjson or .parquet with resource_type and resource_name, or .txt with "
        "one topic per line; may be .gz",
    )
    parser.add_argument("--seen", action="store_true", help="resources that the decision log names; the default")
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=parse_time,
        help="only decisions of the log from this time on: 2026-11-22T12:00:00Z",
    )


def check_resources(arguments: argparse.Namespace) -> None:
    if arguments.since is not None and arguments.resources is not None and not arguments.seen:
        raise PipelineError(
            "--since applies to the decision log, but only the list is read; add --seen, or leave out --since"
        )


def resources_are_there(arguments: argparse.Namespace, home: LocalHome) -> None:
    home.snapshot(arguments.offset)
    if arguments.resources is None:
        try:
            home.decisions()
        except NoDecisionsError as fault:
            raise _or_list(fault) from None


def resources_of(context: JobContext, arguments: argparse.Namespace) -> DataFrame:
    """The resources of the list, of the log, or of both; of the list if there is no log yet.

    Raises NoDecisionsError if there is neither.
    """
    listed = None if arguments.resources is None else read_resources(context.spark, arguments.resources)
    if listed is not None and not arguments.seen:
        return listed
    try:
        seen = seen_resources(open_log(context.spark, context.home).uses(arguments.since))
    except NoDecisionsError as fault:
        if listed is None:
            raise _or_list(fault) from None
        context.console.note(f"only the resources of the list: {fault}")
        return listed
    return seen if listed is None else listed.unionByName(seen).distinct()


def _or_list(fault: NoDecisionsError) -> NoDecisionsError:
    return NoDecisionsError(f"{fault}; or list the resources with --resources FILE")


def add_allow_everyone(parser: argparse.ArgumentParser, note: str, default: str | None = None) -> None:
    parser.add_argument(
        "--allow-everyone-if-no-acl-found",
        choices=("true", "false"),
        default=default,
        help=f"the value that the service is started with{note}",
    )


def add_top(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--top", type=whole_number(0, INT_MAX), default=_SHOWN, metavar="N", help=f"show N {what} ({_SHOWN})"
    )


def add_period(parser: argparse.ArgumentParser) -> None:
    for flag, which in (("--since", "from this time on, as 2026-11-22T00:00:00Z"), ("--until", "before this time")):
        parser.add_argument(flag, metavar="TIME", type=parse_time, help=f"only decisions {which}")


def check_period(arguments: argparse.Namespace) -> None:
    if None not in (arguments.since, arguments.until) and arguments.since >= arguments.until:
        raise PipelineError("--since must be before --until; change one of them")


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    add_allow_everyone(parser, " (what the snapshot says, else true if the log has such a decision)")
    add_buckets(parser)


def add_buckets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--buckets",
        metavar="N",
        type=whole_number(1, _MOST_BUCKETS),
        default=DEFAULT_BUCKETS,
        help=f"how many parts principals are split into; more take less memory each ({DEFAULT_BUCKETS})",
    )
