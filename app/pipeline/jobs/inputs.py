"""Options that several jobs have: which snapshot, which resources, which part of the log."""

import argparse

from pyspark.sql import DataFrame

from app.pipeline.access.resources import read_resources, resource_list, seen_resources
from app.pipeline.context import JobContext
from app.pipeline.history.decision_log import read_decisions
from app.pipeline.jobs.local_home import LocalHome
from app.pipeline.spark.errors import NoDecisionsError, PipelineError
from app.pipeline.spark.parsing import LONG_MAX, number_from, parse_time, told_by


def add_offset(parser: argparse.ArgumentParser) -> None:
    """Which snapshot is looked at."""
    parser.add_argument(
        "--offset", type=number_from(0, LONG_MAX), metavar="N", help="the snapshot at this offset (default: the latest)"
    )


def add_resources(parser: argparse.ArgumentParser) -> None:
    """Where the names of resources come from."""
    parser.add_argument(
        "--resources",
        metavar="FILE",
        type=told_by(resource_list),
        help="their list: .csv, .jsonl, .ndjson or .parquet with resource_type and resource_name, or .txt with a topic "
        "a line; .gz too",
    )
    parser.add_argument("--seen", action="store_true", help="resources that the decision log names; the default")
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=told_by(parse_time),
        help="of the log, from this time on: 2026-11-22T12:00:00Z",
    )
    parser.set_defaults(check=_check, check_home=_check_home)


def needs_snapshot(parser: argparse.ArgumentParser) -> None:
    """Say that the job reads the snapshot of `add_offset`, for `local_home` to look for it."""
    parser.set_defaults(check_home=lambda arguments, home: home.snapshot(arguments.offset))


def _check_home(arguments: argparse.Namespace, home: LocalHome) -> None:
    home.snapshot(arguments.offset)
    if arguments.resources is None:
        try:
            home.decisions()
        except NoDecisionsError as fault:
            raise _or_list(fault) from None


def _check(arguments: argparse.Namespace) -> None:
    if arguments.since is not None and arguments.resources is not None and not arguments.seen:
        raise PipelineError(
            "--since is about the decision log, and only the list is read; say --seen as well, or leave --since out"
        )


def resources_of(context: JobContext, arguments: argparse.Namespace) -> DataFrame:
    """The resources that the options name; of a file and the log, both, or the file's if there is no log yet.

    Raises NoDecisionsError if there is neither.
    """
    listed = None if arguments.resources is None else read_resources(context.spark, arguments.resources)
    if listed is not None and not arguments.seen:
        return listed
    try:
        seen = seen_resources(read_decisions(context.spark, context.home, arguments.since))
    except NoDecisionsError as fault:
        if listed is None:
            raise _or_list(fault) from None
        context.console.note(f"only the resources of the list: {fault}")
        return listed
    return seen if listed is None else listed.unionByName(seen).distinct()


def _or_list(fault: NoDecisionsError) -> NoDecisionsError:
    return NoDecisionsError(f"{fault}; or name the resources by --resources FILE")
