"""`report`: one HTML file with charts of all that the other jobs have found."""

import argparse
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from app.core.readable import visible
from app.pipeline.access.effective import load_effective, not_effective_at
from app.pipeline.access.replay import open_to_all
from app.pipeline.context import Job, JobContext, LocalHome
from app.pipeline.history.decision_log import open_log
from app.pipeline.history.export import growth_by_hour, records_of, whole_export
from app.pipeline.history.manifests import Exported
from app.pipeline.history.schemas import FLIPS
from app.pipeline.history.snapshot import Snapshot, load_snapshot
from app.pipeline.hygiene.findings import load_findings
from app.pipeline.jobs.inputs import add_allow_everyone, add_offset
from app.pipeline.jobs.what_if import change_name
from app.pipeline.report.figures import (
    AccessFigures,
    Figures,
    GrowthFigures,
    Head,
    HygieneFigures,
    WhatIfFigures,
)
from app.pipeline.report.heat import heat_figures
from app.pipeline.report.reach import open_by_default, reach, read_teams
from app.pipeline.report.sections import sections_of
from app.pipeline.report.totals import decision_figures, growth_figures, hygiene_figures, what_if_figures
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.options import home_of
from app.pipeline.spark.row_output import write_whole
from app.pipeline.spark.storage import Home, existing

_Read = TypeVar("_Read")

_FILE = "report.html"
_DRAWN_BY = ("jinja2", "plotly")
_TITLES_SHOWN = 3
"""The first titles of the page: access, what-if and hygiene, if they are there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_offset(parser)
    parser.add_argument("--output", metavar="FILE", type=Path, help=f"file to write ({_FILE} in a local --home)")
    parser.add_argument("--teams", metavar="FILE", help="CSV file with the columns principal and team")
    parser.add_argument("--what-if", metavar="NAME", type=change_name, help="the change to show (the one tried last)")
    add_allow_everyone(parser, ", unless its store says otherwise (the snapshot's, else false)")


def run(context: JobContext, arguments: argparse.Namespace) -> int:
    snapshot = load_snapshot(context.spark, context.home, arguments.offset)
    output = _output(context.home.root, arguments.output)
    console, why = context.console, dict[str, str]()
    log = _unless_missing(open_log, context, "decisions", why)
    with console.step("who reaches what"):
        access, counts = _access(context, snapshot, arguments)
    with console.step("how the store grew"):
        exported = _unless_missing(whole_export, context, "growth", why)
        growth = None if exported is None else _growth(context, exported, counts["ACLs"], snapshot.offset)
    with console.step("what could be tidied up, and what a change would break"):
        hygiene = _hygiene(context, snapshot, why)
        what_if = _what_if(context, arguments.what_if)
    with console.step("what was decided"):
        decisions = None if log is None else decision_figures(log.hours(), log.uses(), log.decisions)
    if decisions is not None:
        counts["decisions"] = round(decisions.allowed + decisions.denied)
    if hygiene is not None:
        counts["findings"] = sum(hygiene.kinds.values())
    if what_if is not None:
        counts["flips"] = what_if.lost + what_if.opened
    supers = len(snapshot.config.super_users)
    head = Head(snapshot.cluster_id, snapshot.offset, snapshot.as_of, supers, counts)
    text, titles = _drawn(Figures(head, access, growth, hygiene, what_if, decisions, why))
    write_whole(output, text)
    context.metrics.count("charts_drawn", 1 + sum(each is not None for each in (growth, hygiene, what_if, decisions)))
    for title in titles[:_TITLES_SHOWN]:
        console.say(visible(title))
    console.say(f"report: {output}")
    return 0


def _drawn(figures: Figures) -> tuple[str, list[str]]:
    from app.pipeline.report.page import page  # noqa: PLC0415 - executors and other jobs may lack jinja2

    return page(figures), [each.title for each in sections_of(figures) if each.chart is not None]


def undrawable() -> str | None:
    """Why no page can be drawn on this machine; None if one can."""
    missing = [name for name in _DRAWN_BY if find_spec(name) is None]
    return f"the report needs {' and '.join(missing)}; install klamm[spark] here" if missing else None


def _check(arguments: argparse.Namespace) -> None:
    if (why := undrawable()) is not None:
        raise PipelineError(why)
    home = home_of(arguments, os.environ)
    if "://" in home:
        _output(home, arguments.output)


def _check_home(arguments: argparse.Namespace, home: LocalHome) -> None:
    home.effective(home.snapshot(arguments.offset))


def _output(root: str, output: Path | None) -> Path:
    if output is None and "://" in root:
        raise PipelineError(f"`{root}` is not a local folder; name the file to write with --output {_FILE}")
    path = Path(root) / _FILE if output is None else output
    if path.is_dir() or not path.parent.is_dir():
        raise PipelineError(f"can't write `{path}`: name a file in an existing folder, such as --output {_FILE}")
    return path


def _access(
    context: JobContext, snapshot: Snapshot, arguments: argparse.Namespace
) -> tuple[AccessFigures, dict[str, int]]:
    spark = context.spark
    tables = load_effective(spark, context.home, snapshot.offset)
    if tables is None:
        raise not_effective_at(snapshot.offset)
    allow_everyone = open_to_all(arguments.allow_everyone_if_no_acl_found, snapshot)
    named = None if arguments.teams is None else read_teams(spark, arguments.teams)
    reached = reach(tables, named, allow_everyone=allow_everyone).persist()
    opened = open_by_default(tables).count() if allow_everyone else 0
    figures = heat_figures(reached, tables.resources, open_by_default=opened)
    reached.unpersist()
    sums = snapshot.acls.agg(sf.count("*").alias("ACLs"), sf.countDistinct("principal").alias("principals"))
    counts = {**sums.collect()[0].asDict(), "resources": tables.manifest["counts"]["resources"]}
    return figures, counts


def _hygiene(context: JobContext, snapshot: Snapshot, why: dict[str, str]) -> HygieneFigures | None:
    saved = load_findings(context.spark, context.home, snapshot.offset)
    if saved is None and (other := load_findings(context.spark, context.home)) is not None:
        why["hygiene"] = (
            f"Hygiene was run at offset {other.manifest['offset']}, not at {snapshot.offset}. Run: klamm pipeline "
            "hygiene"
        )
    return None if saved is None else hygiene_figures(saved.findings, saved.manifest["left_out"] or "")


def _what_if(context: JobContext, name: str | None) -> WhatIfFigures | None:
    documents = existing(context.spark, context.home.room("what-if", "*", "manifest"), "text")
    rows = [] if documents is None else documents.select("value", "_metadata.file_modification_time").collect()
    tried = [json.loads(row["value"]) for row in sorted(rows, key=lambda row: row["file_modification_time"])]
    if name is None and not tried:
        return None
    wanted = tried[-1] if name is None else next((each for each in tried if each["name"] == name), None)
    if wanted is None:
        there = ", ".join(sorted(each["name"] for each in tried)) or "none yet"
        raise PipelineError(f"--what-if: no change `{name}` was tried; there are: {there}")
    flips = context.spark.read.schema(FLIPS).parquet(context.home.room("what-if", wanted["name"], "flips"))
    return what_if_figures(wanted["name"], wanted["offset"], flips)


def _growth(context: JobContext, exported: Exported, acls: int, offset: int) -> GrowthFigures | None:
    by_hour = growth_by_hour(context.spark, context.home, exported, offset)
    return growth_figures(by_hour, lambda: records_of(context.spark, context.home, exported), acls, offset)


def _unless_missing(
    read: Callable[[SparkSession, Home], _Read], context: JobContext, part: str, why: dict[str, str]
) -> _Read | None:
    """What is read; None if its job has not been run, and the page says so."""
    try:
        return read(context.spark, context.home)
    except PipelineError as missing:
        text = str(missing)
        why[part] = f"{text[:1].upper()}{text[1:]}."
        return None


JOB = Job(
    "report",
    "draw the results of the other jobs as one self-contained HTML file",
    add_arguments,
    run,
    check=_check,
    check_home=_check_home,
    writes_home=False,
)
