"""The nightly run: one job after the other in one session, up to the first that fails."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from app.pipeline.context import Job, JobContext
from app.pipeline.jobs import effective, export, hygiene, ingest, report, snapshot
from app.pipeline.jobs.inputs import add_allow_everyone, add_keep, add_resource_list
from app.pipeline.spark.errors import NotYetError
from app.pipeline.spark.faults import explain
from app.pipeline.spark.options import JobParser

_IS_OPEN = "allow_everyone_if_no_acl_found"
_PASSED_ON = {
    "ingest": ("decisions",),
    "snapshot": ("keep",),
    "effective": ("resources", "keep"),
    "hygiene": ("resources", "min_days", "days", "tool", _IS_OPEN, "keep"),
    "report": (_IS_OPEN, "teams", "output"),
}
"""The options of the nightly run that each job gets."""

STEPS = tuple(each.JOB for each in (export, ingest, snapshot, effective, hygiene, report))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    ingest.add_decisions(
        parser,
        "the folders that the services' decision.log.path names; without them nothing is ingested",
        required=False,
    )
    add_resource_list(
        parser, "list of the resources that exist, as for `effective` (default: those that the decision log names)"
    )
    # Without the option its attribute is missing, so that the job's own default holds.
    for flag, kind, what in (
        ("--min-days", hygiene.MIN_DAYS, "of an ACL's life the log must cover to judge it, as for `hygiene` (30)"),
        ("--days", hygiene.DAYS, "of the log `hygiene` looks at (90)"),
    ):
        parser.add_argument(flag, metavar="N", type=kind, default=argparse.SUPPRESS, help=f"how many days {what}")
    hygiene.add_tool(parser, argparse.SUPPRESS)
    add_allow_everyone(parser, ", as for `hygiene` and `report`", argparse.SUPPRESS)
    add_keep(parser)
    parser.add_argument("--teams", metavar="FILE", help="CSV file of principals and teams, as for `report`")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="the report to write (report.html in a local --home)"
    )


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    """1 if any of the jobs found something. What a job raises ends the run, except NotYetError."""
    orders = _orders(arguments)
    if arguments.decisions is None:
        context.console.note("without --decisions there is no decision log to ingest")
    if (why := report.undrawable()) is not None:
        context.console.note(f"left out tonight: {why}")
    return run_in_turn(orders, context, arguments)


def _check(arguments: argparse.Namespace) -> None:
    for step, options in _orders(arguments):
        step.check(_parsed(step, options, arguments))


def _orders(arguments: argparse.Namespace) -> list[tuple[Job, list[str]]]:
    return [(step, options) for step in STEPS if (options := options_of(step, arguments)) is not None]


def _parsed(step: Job, options: list[str], arguments: argparse.Namespace) -> argparse.Namespace:
    parser = JobParser(prog=step.name)
    step.add_arguments(parser)
    return parser.parse_args(options, namespace=argparse.Namespace(**vars(arguments)))


def options_of(step: Job, arguments: argparse.Namespace) -> list[str] | None:
    """The arguments for this job; None if it has nothing to do."""
    options = [
        word
        for name in _PASSED_ON.get(step.name, ())
        if (value := getattr(arguments, name, None)) is not None
        for word in (f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value]))
    ]
    if (step is ingest.JOB and not options) or (step is report.JOB and report.undrawable()):
        return None
    if step is effective.JOB and arguments.resources is not None and arguments.decisions is not None:
        options.append("--seen")
    return options


def run_in_turn(orders: Sequence[tuple[Job, list[str]]], context: JobContext, arguments: argparse.Namespace) -> int:
    """Each job with its own options and numbers; the worst of their exit codes."""
    worst = 0
    for step, options in orders:
        own = context.of(step.name)
        try:
            status = step.run(own, _parsed(step, options, arguments))
        except NotYetError as missing:
            own.console.note(f"left out tonight: {missing}")
            # Nothing was done: neither a success nor a failure.
            context.runs.remove(own.metrics)
            continue
        except BaseException as fault:
            own.metrics.end(explain(fault, os.environ)[1])
            raise
        own.metrics.end(status)
        own.console.note(str(own.metrics))
        worst = max(worst, status)
    return worst


JOB = Job(
    "nightly",
    "export, ingest, snapshot, effective, hygiene and report, one after the other in one session",
    add_arguments,
    run,
    check=_check,
    database="always",
)
