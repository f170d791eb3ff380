"""`effective`: all ACLs over all resources, for hygiene and the report."""

import argparse

from app.pipeline.access.effective import save_effective
from app.pipeline.context import Job, JobContext
from app.pipeline.history.snapshot import load_snapshot
from app.pipeline.jobs.inputs import (
    add_keep,
    add_offset,
    add_resources,
    check_resources,
    keep_latest,
    resources_are_there,
    resources_of,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_offset(parser)
    add_resources(parser)
    parser.add_argument(
        "--expanded", action="store_true", help="also write a row for each resource, principal and host; can be long"
    )
    add_keep(parser)


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    snapshot = load_snapshot(context.spark, context.home, arguments.offset)
    with context.console.step("reading the resources"):
        resources = resources_of(context, arguments)
    with context.console.step(f"working out the masks at offset {snapshot.offset:,}"):
        saved = save_effective(context.spark, context.home, snapshot, resources, pairs=arguments.expanded)
    keep_latest(context, JOB.name, arguments.keep, snapshot.offset)
    for table, count in saved["counts"].items():
        context.metrics.count(f"{table}_written", count)
    counts = ", ".join(f"{count:,} {table}" for table, count in saved["counts"].items())
    context.console.say(f"effective access at offset {snapshot.offset}: {counts}")
    return 0


JOB = Job(
    "effective",
    "work out who can do what on all resources, from a snapshot",
    add_arguments,
    run,
    check=check_resources,
    check_home=resources_are_there,
)
