"""The evidence of `hygiene`: the last days of the log, how much time they cover, and which ACLs are old enough for it.

A log can't say that nobody asked: a silent hour may never have been logged, or its files may have been deleted before
they were ingested. So an hour counts if a decision from it exists, once, however many services wrote, and as the
smallest share of requests that was logged in it.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.pipeline.access.resources import read_resources, seen_resources
from app.pipeline.context import JobContext
from app.pipeline.history.decision_log import LogWindow, open_log
from app.pipeline.history.export import damage, records_of
from app.pipeline.history.folding import refuse_partial
from app.pipeline.history.log_pieces import LoggedHour, hours_of, logged_hours
from app.pipeline.history.manifests import read_exported
from app.pipeline.history.records import CREATED, HOUR_S
from app.pipeline.history.snapshot import Snapshot
from app.pipeline.history.source import timestamp
from app.pipeline.spark.errors import NoDecisionsError, PipelineError

_HOURS_A_DAY = 24
_ROUNDING = 1e-9
_LEFT_OUT = "UNUSED, OVER_BROAD, and DETACHED by the names in the log, are left out"


@dataclass(frozen=True, slots=True)
class Coverage:
    hours: Sequence[LoggedHour]

    @property
    def covered_hours(self) -> float:
        """An hour with a tenth of its requests logged counts as a tenth of an hour."""
        return sum(each.sampled for each in self.hours)

    @property
    def window(self) -> LogWindow:
        if not self.hours:
            return LogWindow(0, None, None, None)
        decisions, sampled = sum(each.decisions for each in self.hours), min(each.sampled for each in self.hours)
        return LogWindow(decisions, self.hours[0].first_time, self.hours[-1].last_time, sampled)

    def last_days(self, days: int) -> "Coverage":
        """The hours in this many days before its last decision; no hour is split."""
        if not self.hours:
            return self
        began = self.hours[-1].last_time - timedelta(days=days)
        return Coverage([each for each in self.hours if each.began > began - timedelta(seconds=HOUR_S)])

    def reaching_back(self, days: int) -> datetime | None:
        """The latest time since which it covers this many days; None if it covers less."""
        covered = 0.0
        for each in reversed(self.hours):
            covered += each.sampled
            if covered + _ROUNDING >= days * _HOURS_A_DAY:
                return each.began
        return None

    def __str__(self) -> str:
        hours = self.covered_hours
        if hours < 2 * _HOURS_A_DAY:
            return "1 hour" if hours == 1 else f"{hours:.3g} hours"
        return f"{hours / _HOURS_A_DAY:.1f} days"


def coverage_of(decisions: DataFrame) -> Coverage:
    return Coverage(logged_hours(hours_of(decisions)))


@dataclass(frozen=True, slots=True)
class Log:
    """A part of the decision log. `summary` says what it covers, or why it is not used."""

    decisions: DataFrame
    """USES, persisted."""
    coverage: Coverage
    judged: DataFrame | None
    """The ACLs (`id`) of which it covers enough time to judge them."""
    summary: str

    @property
    def words(self) -> str:
        return f"{self.coverage.window}, which cover {self.coverage}"


@dataclass(frozen=True, slots=True)
class Names:
    """Resources known from a list and from the log. `seen` is persisted."""

    listed: DataFrame | None
    seen: DataFrame | None

    def known(self, seen: DataFrame) -> DataFrame:
        return seen if self.listed is None else self.listed.unionByName(seen).distinct()

    @property
    def of_listed_types(self) -> DataFrame | None:
        """Resources of the types that the list has: what is in neither list nor log does not exist."""
        if self.listed is None or self.seen is None:
            return self.listed
        types = self.listed.select("resource_type").distinct()
        return self.listed.unionByName(self.seen.join(types, "resource_type", "left_semi")).distinct()

    def of_other_types(self, seen: DataFrame) -> DataFrame:
        if self.listed is None:
            return seen
        return seen.join(self.listed.select("resource_type").distinct(), "resource_type", "left_anti")


def log_of(context: JobContext, arguments: argparse.Namespace, snapshot: Snapshot) -> Log | None:
    try:
        whole = open_log(context.spark, context.home)
    except NoDecisionsError as fault:
        context.console.note(f"UNUSED and OVER_BROAD are left out, as they need a decision log: {fault}")
        return None
    coverage = Coverage(whole.hours()).last_days(arguments.days)
    decisions = whole.uses(coverage.hours[0].began if coverage.hours else None).persist()
    return Log(decisions, coverage, *_judged(context, arguments.min_days, snapshot, coverage))


def _judged(context: JobContext, days: int, snapshot: Snapshot, coverage: Coverage) -> tuple[DataFrame | None, str]:
    covered = f"the log covers {coverage}"
    if days == 0:
        return snapshot.in_effect.select("id"), covered
    since = coverage.reaching_back(days)
    if since is None:
        need = f"{_LEFT_OUT}: {covered} and must cover {days} days (--min-days)"
        return None, f"{need}; hours without a logged decision don't count"
    there = _there_at(context, snapshot, since)
    if there is None:
        why = f"{_LEFT_OUT}: only an export up to this offset shows which ACLs existed for {days} days of the log"
        return None, f"{why}; run `klamm pipeline export`"
    return there, f"{covered}; only ACLs that existed for {days} days of that are judged by it (--min-days)"


def left_out(log: Log | None) -> str | None:
    if log is None:
        return f"{_LEFT_OUT}: no decision was ingested"
    return log.summary if log.judged is None else None


def names_of(context: JobContext, arguments: argparse.Namespace, log: Log | None) -> Names:
    listed = None if arguments.resources is None else read_resources(context.spark, arguments.resources)
    if log is None:
        if listed is None:
            context.console.note("DETACHED is left out, as it needs a decision log or --resources")
        return Names(listed, None)
    # The whole log has to be read to know them.
    return Names(listed, seen_resources(log.decisions).persist())


def _there_at(context: JobContext, snapshot: Snapshot, time: datetime) -> DataFrame | None:
    """The ACLs (`id`) of the snapshot that, by an export, existed at this time; None if no export shows it.

    Only records after this time are read. The ACLs that an export begins with are only known to have existed
    when it began.
    """
    exported = read_exported(context.spark, context.home)
    if exported is not None and (faults := exported.faults()):
        raise PipelineError(damage(faults))
    if exported is None or not exported.epochs.has(snapshot.token, exported.last_offset):
        return None
    there = snapshot.in_effect.select("id")
    if exported.base is not None and datetime.fromisoformat(exported.base.taken_at) > time:
        return there.limit(0)
    later = exported.since(time.astimezone(UTC).date())
    records = records_of(context.spark, context.home, later)
    # INVARIANT: an ACL whose record is lost must not look old.
    refuse_partial(records, later)
    young = records.filter((sf.col("kind") == CREATED) & (sf.col("recorded_at") > timestamp(time)))
    return there.join(young.select(sf.col("acl_id").alias("id")), "id", "left_anti")
