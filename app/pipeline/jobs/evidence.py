"""By what `hygiene` judges: the last days of the log, how much time they cover, and which ACLs were there for it."""

import argparse
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.pipeline.access.resources import read_resources, seen_resources
from app.pipeline.context import JobContext
from app.pipeline.history.decision_log import read_decisions
from app.pipeline.history.snapshot import Snapshot
from app.pipeline.hygiene.coverage import Coverage, coverage_of, there_at
from app.pipeline.spark.errors import NoDecisionsError

_LEFT_OUT = "UNUSED, OVER_BROAD, and DETACHED by the names in the log, are left out"


@dataclass(frozen=True, slots=True)
class Log:
    """A part of the decision log. `judged` are the ACLs (`acl_id`) that it covers as much time of as is asked for.

    It is None, and `told` says why, if that can be said of none.
    """

    decisions: DataFrame
    coverage: Coverage
    judged: DataFrame | None
    told: str


@dataclass(frozen=True, slots=True)
class Names:
    """Resources that are known: by a list, and by the log. `seen` is persisted."""

    listed: DataFrame | None
    seen: DataFrame | None

    def known(self, seen: DataFrame) -> DataFrame:
        """All of them, if the log has seen these."""
        return seen if self.listed is None else self.listed.unionByName(seen).distinct()

    @property
    def of_listed_types(self) -> DataFrame | None:
        """Those of the types that the list has any of: what is in neither list nor log does not exist."""
        if self.listed is None or self.seen is None:
            return self.listed
        types = self.listed.select("resource_type").distinct()
        return self.listed.unionByName(self.seen.join(types, "resource_type", "left_semi")).distinct()

    def of_other_types(self, seen: DataFrame) -> DataFrame:
        """Of these, which the log has seen, those of types that only it tells about."""
        if self.listed is None:
            return seen
        return seen.join(self.listed.select("resource_type").distinct(), "resource_type", "left_anti")


def log_of(context: JobContext, arguments: argparse.Namespace, snapshot: Snapshot) -> Log | None:
    """The last days of the log; None, and a note, if nothing was ingested."""
    try:
        decisions = read_decisions(context.spark, context.home)
    except NoDecisionsError as fault:
        context.console.note(f"without a log there is no UNUSED and no OVER_BROAD: {fault}")
        return None
    coverage = coverage_of(decisions).last_days(arguments.days)
    if coverage.hours:
        decisions = read_decisions(context.spark, context.home, coverage.hours[0].began)
    return _judged(context, arguments.min_days, snapshot, Log(decisions, coverage, None, ""))


def left_out(log: Log | None) -> str | None:
    """What can't be looked for, and why; None if all can."""
    if log is None:
        return f"{_LEFT_OUT}: no decision was ingested"
    return log.told if log.judged is None else None


def names_of(context: JobContext, arguments: argparse.Namespace, log: Log | None) -> Names:
    """The resources of the list and of the log."""
    listed = None if arguments.resources is None else read_resources(context.spark, arguments.resources)
    if log is None:
        if listed is None:
            context.console.note("without a log or --resources there is no DETACHED")
        return Names(listed, None)
    # The whole log has to be read to know them.
    return Names(listed, seen_resources(log.decisions).persist())


def _judged(context: JobContext, days: int, snapshot: Snapshot, log: Log) -> Log:
    covered = f"the log covers {log.coverage}"
    if days == 0:
        return Log(log.decisions, log.coverage, snapshot.acls.select(sf.col("id").alias("acl_id")), covered)
    since = log.coverage.reaching_back(days)
    if since is None:
        need = f"{_LEFT_OUT}: {covered} and must cover {days} days (--min-days)"
        return Log(log.decisions, log.coverage, None, f"{need}; hours without a logged decision don't count")
    there = there_at(context.spark, context.home, since)
    if there is None:
        why = f"{_LEFT_OUT}: only an export tells which ACLs were there for {days} days of the log"
        return Log(log.decisions, log.coverage, None, f"{why}; run `klamm pipeline export`")
    told = f"{covered}; by it only ACLs are judged that were there for {days} days of that (--min-days)"
    return Log(log.decisions, log.coverage, there, told)
