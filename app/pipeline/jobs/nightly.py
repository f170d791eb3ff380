"""What is run every night: one job after the other in one session, up to the first that fails."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from app.pipeline.access.resources import resource_list
from app.pipeline.context import Job, JobContext
from app.pipeline.jobs import effective, export, hygiene, ingest, report, snapshot
from app.pipeline.spark.errors import NotYetError
from app.pipeline.spark.faults import explain
from app.pipeline.spark.parsing import JobParser, told_by

NAME = "nightly"
HELP = "export, ingest, snapshot, effective, hygiene and report, one after the other in one session"
_OPEN = "--allow-everyone-if-no-acl-found"
STEPS: tuple[Job, ...] = (export, ingest, snapshot, effective, hygiene, report)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The few options of its jobs that a night needs; all else is as those have it by default."""
    parser.add_argument(
        "--decisions",
        metavar="FOLDER",
        type=told_by(ingest.log_folder),
        help="the folder that the service's decision.log.path names; without it nothing is ingested",
    )
    parser.add_argument(
        "--resources",
        metavar="FILE",
        type=told_by(resource_list),
        help="the resources that exist, a list as `effective` takes it; without it those that the decision log names",
    )
    # Without it the attribute is not there, so that the default of `hygiene` holds.
    parser.add_argument(
        "--min-days",
        metavar="N",
        type=hygiene.MIN_DAYS,
        default=argparse.SUPPRESS,
        help="how many days of an ACL's life the log must cover to judge it, as `hygiene` has it (30)",
    )
    parser.add_argument(
        "--days",
        metavar="N",
        type=hygiene.DAYS,
        default=argparse.SUPPRESS,
        help="how many days of the log `hygiene` looks at (90)",
    )
    hygiene.add_tool(parser, argparse.SUPPRESS)
    parser.add_argument(
        "--allow-everyone-if-no-acl-found",
        choices=("true", "false"),
        default=argparse.SUPPRESS,
        help="what the service is started with, as `hygiene` and `report` have it",
    )
    parser.add_argument("--teams", metavar="FILE", help="whose principals are whose in the report, as `report` has it")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="the report to write (report.html in a local --home)"
    )
    parser.set_defaults(check=_check)


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    """1 if any of the jobs found something. What a job raises ends the night.

    But a service may have decided nothing yet: what needs decisions is left out until there are some.
    """
    orders = _orders(arguments)
    if len(orders) < len(STEPS):
        context.console.note("without --decisions there is no decision log to ingest")
    return run_in_turn(orders, context, arguments)


def _check(arguments: argparse.Namespace) -> None:
    """What its jobs would refuse in the middle of the night."""
    for step, options in _orders(arguments):
        told = _parsed(step, options, arguments)
        if getattr(told, "check", None) is not None:
            told.check(told)


def _orders(arguments: argparse.Namespace) -> list[tuple[Job, list[str]]]:
    return [(step, told) for step in STEPS if (told := options_of(step, arguments)) is not None]


def _parsed(step: Job, options: list[str], arguments: argparse.Namespace) -> argparse.Namespace:
    """What the job is told, behind what every job is."""
    parser = JobParser(prog=step.NAME, allow_abbrev=False)
    step.add_arguments(parser)
    everyone = {name: value for name, value in vars(arguments).items() if name not in ("check", "check_home")}
    return parser.parse_args(options, namespace=argparse.Namespace(**everyone))


def options_of(step: Job, arguments: argparse.Namespace) -> list[str] | None:
    """What this job is told of what the night was told; None if it has nothing to do."""
    if step is ingest:
        return None if arguments.decisions is None else ["--decisions", arguments.decisions]
    given: list[tuple[Job, str, str | int | Path | None]] = [
        (effective, "--resources", arguments.resources),
        (hygiene, "--resources", arguments.resources),
        (hygiene, "--min-days", getattr(arguments, "min_days", None)),
        (hygiene, "--days", getattr(arguments, "days", None)),
        (hygiene, "--tool", getattr(arguments, "tool", None)),
        (hygiene, _OPEN, getattr(arguments, "allow_everyone_if_no_acl_found", None)),
        (report, _OPEN, getattr(arguments, "allow_everyone_if_no_acl_found", None)),
        (report, "--teams", arguments.teams),
        (report, "--output", arguments.output),
    ]
    told = [part for job, flag, value in given if job is step and value is not None for part in (flag, str(value))]
    both = step is effective and arguments.resources is not None and arguments.decisions is not None
    return [*told, "--seen"] if both else told


def run_in_turn(orders: Sequence[tuple[Job, list[str]]], context: JobContext, arguments: argparse.Namespace) -> int:
    """Each job with its own options and numbers of its own; the worst of their exit codes."""
    worst = 0
    for step, options in orders:
        own = context.of(step.NAME)
        try:
            status = step.run(own, _parsed(step, options, arguments))
        except NotYetError as missing:
            own.console.note(f"left out tonight: {missing}")
            status = 0
        except BaseException as fault:
            own.metrics.end(explain(fault, os.environ)[1])
            raise
        own.metrics.end(status)
        own.console.note(str(own.metrics))
        worst = max(worst, status)
    return worst
