"""The ingested decision log: its decisions, their sums day by day, and how many there are."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from app.pipeline.history.log_pieces import LoggedHour, Piece, is_among, logged_hours, pieces_of
from app.pipeline.history.schemas import BATCH, DAY, DECISIONS, USES
from app.pipeline.history.source import moment, timestamp
from app.pipeline.spark.errors import NoDecisionsError, PipelineError
from app.pipeline.spark.storage import Home

_STORED = StructType([*DECISIONS.fields, DAY, BATCH])
_STORED_USES = StructType([*USES.fields, DAY, BATCH])
# How these columns of USES are summed up; rows that agree in all others are one.
_SUMS = {
    "decisions": sf.sum,
    "first_time": sf.min,
    "last_time": sf.max,
    "first_offset": sf.min,
    "last_offset": sf.max,
}


@dataclass(frozen=True, slots=True)
class LogWindow:
    """`sampled` is the smallest share of requests logged in it."""

    decisions: int
    first_time: datetime | None
    last_time: datetime | None
    sampled: float | None

    def __str__(self) -> str:
        if self.first_time is None or self.last_time is None:
            return "no logged decision"
        is_whole = self.sampled is None or self.sampled >= 1
        of_some = "" if is_whole else f" (only {self.sampled:.0%} of requests are logged)"
        return f"{self.decisions} logged decisions, {self.first_time:%Y-%m-%d} to {self.last_time:%Y-%m-%d}{of_some}"


@dataclass(frozen=True)
class DecisionLog:
    """The whole log, of the batches that `ingest` has finished."""

    spark: SparkSession
    home: Home
    pieces: Sequence[Piece]

    def decisions(self, since: datetime | None = None, until: datetime | None = None) -> DataFrame:
        return _between(self._stored(self.pieces), since, until).drop("batch")

    def uses(self, since: datetime | None = None, until: datetime | None = None) -> DataFrame:
        """The same decisions, with a day's equal ones as one row (USES).

        For merged days that lie wholly in between, this was computed when they were merged.
        """
        whole = [each for each in self.pieces if each.is_merged and _lies_between(each, since, until)]
        rest = [each for each in self.pieces if not (each.is_merged and _lies_between(each, since, until))]
        counted_now = uses_of(_between(self._stored(rest), since, until))
        if not whole:
            return counted_now
        stored = self.spark.read.schema(_STORED_USES).parquet(self.home.room("decisions", "uses"))
        stored = stored.where(is_among(whole))
        self._refuse_lost_uses(stored, whole)
        return stored.select(USES.fieldNames()).unionByName(counted_now)

    def hours(self) -> list[LoggedHour]:
        return logged_hours(each for piece in self.pieces for each in piece.hours)

    def day_of(self, day: str) -> DataFrame:
        return self._stored([each for each in self.pieces if each.day == day]).drop("day", "batch")

    def counts(self) -> DataFrame:
        return self._stored(self.pieces).groupBy("batch", "day").count()

    def _stored(self, pieces: Collection[Piece]) -> DataFrame:
        log = self.spark.read.schema(_STORED).parquet(self.home.room("decisions", "log"))
        return log.where(is_among(pieces))

    def _refuse_lost_uses(self, stored: DataFrame, whole: Sequence[Piece]) -> None:
        sums = stored.groupBy(sf.col("day").cast("string").alias("day")).agg(sf.sum("decisions").alias("decisions"))
        found = {row["day"]: row["decisions"] for row in sums.collect()}
        for piece in whole:
            if found.get(piece.day) != piece.decisions:
                raise PipelineError(
                    f"the decision log is damaged: `{self.home.room('decisions', 'uses', f'day={piece.day}')}` does "
                    f"not add up to the {piece.decisions} decisions of that day; restore it"
                )


def open_log(spark: SparkSession, home: Home) -> DecisionLog:
    """Raises NoDecisionsError if nothing was ingested, PipelineError if some of it has been lost since."""
    pieces = pieces_of(spark, home)
    if not any(each.decisions for each in pieces):
        raise nothing_ingested(home.root)
    log = DecisionLog(spark, home, pieces)
    return replace(log, pieces=_left(log))


def read_decisions(
    spark: SparkSession, home: Home, since: datetime | None = None, until: datetime | None = None
) -> DataFrame:
    return open_log(spark, home).decisions(since, until)


def uses_of(decisions: DataFrame) -> DataFrame:
    alike = [name for name in USES.fieldNames() if name not in _SUMS]
    sums = (of(name).alias(name) for name, of in _SUMS.items())
    return weighted(decisions).groupBy(*alike).agg(*sums).select(USES.fieldNames())


def weighted(decisions: DataFrame) -> DataFrame:
    """Decisions of the log itself in the form of USES, one row each."""
    if "decisions" in decisions.columns:
        return decisions
    own = {name: sf.col(of) for of in ("time", "offset") for name in (f"first_{of}", f"last_{of}")}
    return decisions.withColumns({"decisions": sf.lit(1).cast("bigint"), **own})


def nothing_ingested(home: str) -> NoDecisionsError:
    return NoDecisionsError(
        f"`{home}` holds no decisions; run `klamm pipeline ingest --decisions FOLDER` with the folder that "
        "the service's decision.log.path names"
    )


def _left(log: DecisionLog) -> list[Piece]:
    """The pieces without days that were removed. Raises PipelineError if, by the manifests, a decision is missing: a
    used ACL would look unused.

    Whole days may be removed, the oldest first.
    """
    there = {(row["batch"], str(row["day"])): row["count"] for row in log.counts().collect()}
    if not there:
        raise nothing_ingested(log.home.root)
    first_day = min(day for _, day in there)
    left = [each for each in log.pieces if each.day >= first_day]
    for piece in sorted(left, key=lambda each: (each.batch, each.day)):
        found = there.get((piece.batch, piece.day), 0)
        if found != piece.decisions:
            raise PipelineError(
                f"the decision log is damaged: there are {found} decisions in "
                f"`{log.home.room('decisions', 'log', f'day={piece.day}', f'batch={piece.batch}')}`, and "
                f"{piece.decisions} were ingested; restore it, or remove this and all earlier days (`day=...`) to go "
                f"on with what came later"
            )
    return left


def _between(rows: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    if since is not None:
        rows = rows.filter(
            (sf.col("day") >= sf.lit(since.astimezone(UTC).date())) & (sf.col("time") >= timestamp(since))
        )
    if until is not None:
        last_day = (until - timedelta(microseconds=1)).astimezone(UTC).date()
        rows = rows.filter((sf.col("day") <= sf.lit(last_day)) & (sf.col("time") < timestamp(until)))
    return rows


def _lies_between(piece: Piece, since: datetime | None, until: datetime | None) -> bool:
    began = datetime.combine(date.fromisoformat(piece.day), datetime.min.time(), UTC)
    ends = began + timedelta(days=1)
    return (since is None or since <= began) and (until is None or ends <= until)


def log_window(decisions: DataFrame) -> LogWindow:
    sums = weighted(decisions).agg(
        sf.coalesce(sf.sum("decisions"), sf.lit(0)),
        sf.unix_micros(sf.min("first_time")),
        sf.unix_micros(sf.max("last_time")),
        sf.min("sampled"),
    )
    number, *times, sampled = sums.collect()[0]
    first, last = (None if each is None else moment(each) for each in times)
    return LogWindow(number, first, last, sampled)
