"""Records copied from the store into Parquet, and read from there.

A batch's manifest is written last, and readers go by manifests: a run that was killed has written nothing that counts.
The next one begins at the same offset, and overwrites what was left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from app.core.epochs import Standing
from app.core.records import record_hash
from app.core.token import Token
from app.pipeline.history.epochs import epochs_between, tokens_of
from app.pipeline.history.manifests import Base, Batch, Exported, read_exported, write_base, write_batch
from app.pipeline.history.records import CREATED, changes_by_hour, record_of
from app.pipeline.history.schemas import ACLS, BATCH, DAY, RECORDS
from app.pipeline.history.source import Head, ranges, read_changed_terms, read_records, read_table
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.home_lock import CheckLock
from app.pipeline.spark.jdbc import JdbcSource
from app.pipeline.spark.storage import Home

_WRITTEN = StructType([*RECORDS.fields, DAY, BATCH])


@dataclass(frozen=True, slots=True)
class Copying:
    """Records to copy: (after, through], their source and target."""

    source: JdbcSource
    home: Home
    check_lock: CheckLock
    head: Head
    after: int
    through: int
    previous_hash: bytes

    @property
    def first(self) -> int:
        return self.after + 1


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """`offsets` are distinct; more `rows` than offsets means duplicates."""

    rows: int
    offsets: int
    first_offset: int
    last_offset: int
    last_hash: bytes
    counts: dict[str, int]


def export_batch(spark: SparkSession, copying: Copying, most_ranges: int) -> Batch:
    """Raises PipelineError, and writes no manifest, if a record is not as it must be.

    The batch may end inside a transaction if it is not the last of a run.
    """
    days = _copy(spark, copying, most_ranges)
    written = _read(spark, copying.home, {copying.first: days})
    facts = measured(written).get(copying.first)
    _check_dense(copying, facts)
    ends = written.where(sf.col("offset").isin(copying.first, copying.through))
    ends = ends.withColumn("recorded_micros", sf.unix_micros("recorded_at"))
    edges = {row["offset"]: row for row in ends.collect()}
    _check_chain(copying, edges)
    changed = read_changed_terms(spark, copying.source, copying.after, copying.through)
    epochs = copying.head.epochs
    batch = Batch(
        copying.head.cluster_id,
        str(epochs.at(copying.through)),
        copying.first,
        copying.through,
        copying.previous_hash.hex(),
        bytes(edges[copying.through]["hash"]).hex(),
        tuple(sorted(days)),
        facts.counts if facts is not None else {},
        changes_by_hour(written.join(changed, "offset", "left_anti")),
        copying.head.read_at.isoformat() if copying.through == copying.head.last_offset else None,
        tokens_of(epochs_between(epochs, copying.after, copying.through)),
    )
    copying.check_lock()
    write_batch(spark, copying.home, batch)
    return batch


def take_base(spark: SparkSession, source: JdbcSource, home: Home) -> Base:
    """The present state, for an export of a store whose first records are already gone."""
    reading = read_table(spark, source)
    head = reading.head
    reading.acls.write.mode("overwrite").parquet(_base_room(home))
    count = spark.read.schema(ACLS).parquet(_base_room(home)).count()
    base = Base(
        head.cluster_id,
        str(head.epochs.at(head.last_offset)),
        head.last_offset,
        head.hash.hex(),
        count,
        reading.configs,
        head.read_at.isoformat(),
        tokens_of(epochs_between(head.epochs, head.last_offset, head.last_offset)),
    )
    write_base(spark, home, base)
    return base


def refuse_other_history(exported: Exported, head: Head) -> None:
    """Raises PipelineError unless the head, with the hash at the export's end, continues what was exported."""
    at, advice = exported.last_offset, ""
    there = head.hash if head.last_offset == at else head.hash_at
    standing = head.epochs.judge(exported.token, head.last_offset, head.read_at)
    is_behind = standing is Standing.AHEAD or (standing is Standing.PART and head.last_offset < at)
    if head.cluster_id != exported.cluster_id:
        why = f"the export is of cluster `{exported.cluster_id}`, but the store is of `{head.cluster_id}`"
    elif is_behind:
        raise PipelineError(
            f"the store is at `{head.token}`, but the export is at `{exported.token}`: the store is a standby that is "
            "behind, or was put back and no service has noticed yet. Nothing was changed; run this again later, when a "
            "service is running on the store"
        )
    elif standing is Standing.INVALID:
        why = (
            f"the export is at `{exported.token}`, an epoch that lies more than a day ahead of the store's clock, and "
            "the store has not begun it"
        )
    elif standing is Standing.LOST:
        why = _lost(exported.token, head)
    elif at > 0 and there is not None and there != exported.hash:
        why = f"the store has another record at offset {at} than the one exported"
    elif head.log_start_offset > at + 1:
        why = (
            f"the store has trimmed records {at + 1} to {head.log_start_offset - 1}, which were not exported: that "
            "part of the history is lost"
        )
        advice = ", and export more often than the store trims"
    else:
        return
    raise PipelineError(
        f"{why}; export into a new --home, and keep this one as the record of the old history (or rename its folder "
        f"`export`){advice}"
    )


def _lost(token: Token, head: Head) -> str:
    following = head.epochs.after(token.epoch)
    if following is None:
        return (
            f"the export is at `{token}`, but the store is at `{head.token}` and knows no such epoch: it was failed "
            "over or restored from a backup, and the same offsets may mean other records now"
        )
    return (
        f"the store has begun a new epoch, {following.id}, after offset {following.first_offset}: it was failed over "
        f"or restored from a backup, and offsets {following.first_offset + 1} to {token.offset} mean other records now"
    )


def whole_export(spark: SparkSession, home: Home) -> Exported:
    exported = read_exported(spark, home)
    if exported is None:
        raise nothing_exported(home.root)
    if faults := exported.faults():
        raise PipelineError(damage(faults))
    return exported


def nothing_exported(home: str) -> PipelineError:
    return PipelineError(f"nothing has been exported into `{home}` yet; run `klamm pipeline export`")


def damage(faults: Sequence[str]) -> str:
    return (
        f"the export is damaged: {faults[0]}; run `klamm pipeline reconcile` for all of it, and restore what is "
        "missing, or export into a new --home"
    )


def records_of(spark: SparkSession, home: Home, exported: Exported) -> DataFrame:
    """With `day` and `batch`. Raises PipelineError if Parquet is missing."""
    return _read(spark, home, {batch.first_offset: batch.days for batch in exported.batches})


def base_acls(spark: SparkSession, home: Home, exported: Exported) -> DataFrame:
    if exported.base is None:
        return spark.createDataFrame([], ACLS)
    return spark.read.schema(ACLS).parquet(_base_room(home))


def acls_ever(spark: SparkSession, home: Home, exported: Exported) -> DataFrame:
    """Every ACL (schemas.ACLS) that existed at any offset of this export."""
    created = records_of(spark, home, exported).where(sf.col("kind") == CREATED)
    acls = created.withColumnRenamed("acl_id", "id").select(ACLS.fieldNames())
    return acls.unionByName(base_acls(spark, home, exported))


def growth_by_hour(spark: SparkSession, home: Home, exported: Exported, offset: int) -> list[Sequence[int]]:
    """The changes of ACLs up to this offset, as `changes_by_hour` has them; an hour may come more than once.

    Manifests have them; only a batch that extends past the offset is read.
    """
    found = [each for batch in exported.batches if batch.last_offset <= offset for each in batch.changes]
    cut = tuple(batch for batch in exported.batches if batch.first_offset <= offset < batch.last_offset)
    if cut:
        records = records_of(spark, home, replace(exported, batches=cut))
        found += changes_by_hour(records.where(sf.col("offset") <= offset))
    return found


def measured(records: DataFrame) -> dict[int, BatchFacts]:
    offsets = records.groupBy("batch", "offset").agg(
        sf.count("*").alias("copies"), sf.first("kind").alias("kind"), sf.first("hash").alias("hash")
    )
    kinds = offsets.groupBy("batch", "kind").agg(
        sf.sum("copies").alias("rows"),
        sf.count("*").alias("offsets"),
        sf.min("offset").alias("first_offset"),
        sf.max("offset").alias("last_offset"),
        sf.max_by("hash", "offset").alias("last_hash"),
    )
    found = {}
    for batch, group in groupby(sorted(kinds.collect(), key=itemgetter("batch", "kind")), key=itemgetter("batch")):
        rows = list(group)
        newest = max(rows, key=itemgetter("last_offset"))
        found[batch] = BatchFacts(
            sum(row["rows"] for row in rows),
            sum(row["offsets"] for row in rows),
            min(row["first_offset"] for row in rows),
            newest["last_offset"],
            bytes(newest["last_hash"]),
            {row["kind"]: row["rows"] for row in rows},
        )
    return found


def _copy(spark: SparkSession, copying: Copying, most_ranges: int) -> list[str]:
    records = read_records(spark, copying.source, ranges(copying.after, copying.through, most_ranges))
    observed = Observation()
    (
        records.withColumn("day", sf.to_date("recorded_at"))
        .withColumn("batch", sf.lit(copying.first))
        .observe(observed, sf.collect_set(sf.col("day").cast("string")).alias("days"))
        .write.partitionBy("day", "batch")
        .mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .parquet(copying.home.room("export", "records"))
    )
    return sorted(observed.get["days"])


def _check_dense(copying: Copying, facts: BatchFacts | None) -> None:
    wanted = copying.through - copying.after
    there = None if facts is None else (facts.rows, facts.offsets, facts.first_offset, facts.last_offset)
    if there != (wanted, wanted, copying.first, copying.through):
        found = "none" if facts is None else f"{facts.offsets} of them in {facts.rows} rows"
        raise PipelineError(
            f"expected {wanted} records from offset {copying.first} to {copying.through}, but the store returned "
            f"{found}: it was trimmed in the meantime, or is damaged; nothing was added to the export, run it again"
        )


def _check_chain(copying: Copying, edges: dict[int, Row]) -> None:
    first, last = edges[copying.first], edges[copying.through]
    try:
        chained = record_hash(copying.previous_hash, record_of(first.asDict()))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as fault:
        raise PipelineError(
            f"the record at offset {copying.first} can't be read by this version of Klamm ({fault}); "
            "export with the version that wrote it"
        ) from None
    if chained != bytes(first["hash"]):
        raise PipelineError(
            f"the record at offset {copying.first} does not follow the record {copying.after} that was exported "
            "before: this is another store, or a damaged one; nothing was added to the export. Compare them with "
            "`klamm pipeline reconcile`, or export into a new --home"
        )
    if copying.through == copying.head.last_offset and bytes(last["hash"]) != copying.head.hash:
        raise PipelineError(
            f"the record at offset {copying.through} is not the one that the store's head names: the store is damaged; "
            "nothing was added to the export"
        )


def _read(spark: SparkSession, home: Home, days: dict[int, Sequence[str]]) -> DataFrame:
    root = home.room("export", "records")
    paths = [f"{root}/day={day}/batch={batch}" for batch, several in days.items() for day in several]
    if not paths:
        return spark.createDataFrame([], _WRITTEN)
    try:
        return spark.read.schema(_WRITTEN).option("basePath", root).parquet(*paths)
    except AnalysisException as fault:
        if fault.getCondition() != "PATH_NOT_FOUND":
            raise
        missing = (fault.getMessageParameters() or {}).get("path", root)
        raise PipelineError(
            f"the export lacks Parquet that its manifests name (`{missing}`); restore it, or export into a new --home"
        ) from None


def _base_room(home: Home) -> str:
    return home.room("export", "base", "acls")
