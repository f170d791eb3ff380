"""The ACLs and the configuration at one offset, folded from the export.

A fold begins at the latest snapshot saved before, so that its cost is that of the changes since.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from app.pipeline.history.export import base_acls, records_of, whole_export
from app.pipeline.history.manifests import Exported
from app.pipeline.history.records import fold_acls, fold_configs, refuse_unreadable
from app.pipeline.history.schemas import ACLS
from app.pipeline.history.snapshot import SNAPSHOTS, SavedResults, Snapshot, contents_of, snapshot_of, token_of
from app.pipeline.history.source import moment, timestamp
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.storage import Home, existing, read_documents


def snapshot_at(
    spark: SparkSession,
    home: Home,
    offset: int | None = None,
    time: datetime | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> Snapshot:
    """The state at an offset or a time, or at the last whole transaction of the export.

    `tell` gets the reason why a snapshot can't be the start. Raises PipelineError outside of the export, inside a
    transaction, and if Parquet is missing.
    """
    exported = whole_export(spark, home)
    _refuse_outside(exported, offset, time)
    # Only the records say what was recorded by a time.
    start = _beginning(spark, home, exported) if time is not None else _start(spark, home, exported, offset, tell)
    later = exported.after(start.offset)
    records = records_of(spark, home, later)
    refuse_partial(records, later)
    records = records.where(sf.col("offset") > start.offset)
    end = _end(records, start, offset, time)
    if end is None:
        at, recorded, chained = start.offset, start.as_of, start.hash
    else:
        at, recorded, chained = end["offset"], moment(end["micros"]), bytes(end["hash"]).hex()
    records = records.where(sf.col("offset") <= at)
    refuse_unreadable(records)
    acls, configs = fold_acls(records, start.acls), configs_after(start.configs, records)
    as_of = _as_of(exported, at, recorded, time)
    return Snapshot(acls, configs, exported.cluster_id, exported.epochs.upto(at), at, as_of, chained)


def _as_of(exported: Exported, offset: int, recorded: datetime, time: datetime | None) -> datetime:
    """The asked time, or the latest that the export knows the store to have been at this offset."""
    read = next((batch.read_at for batch in exported.batches if batch.last_offset == offset), None)
    known = recorded if read is None else max(recorded, datetime.fromisoformat(read))
    if time is None:
        return known
    # The next record tells how long this one was the last.
    return max(recorded, time if offset < exported.last_offset else min(time, known))


def configs_after(configs: dict[str, str], records: DataFrame) -> dict[str, str]:
    changed = {row["name"]: row["value"] for row in fold_configs(records).collect()}
    return {name: value for name, value in sorted({**configs, **changed}.items()) if value is not None}


def _beginning(spark: SparkSession, home: Home, exported: Exported) -> Snapshot:
    base, acls = exported.base, base_acls(spark, home, exported)
    configs, as_of = dict[str, str](), moment(0)
    if base is not None:
        if (found := acls.count()) != base.acls:
            raise PipelineError(_partial(found, base.acls))
        configs, as_of = dict(base.configs), datetime.fromisoformat(base.taken_at)
    at, chained = exported.start_offset, exported.start_hash.hex()
    return Snapshot(acls, configs, exported.cluster_id, exported.epochs.upto(at), at, as_of, chained)


def _start(
    spark: SparkSession, home: Home, exported: Exported, offset: int | None, tell: Callable[[str], object]
) -> Snapshot:
    """The latest snapshot, up to this offset, that the export continues; else the export's beginning."""
    last = exported.last_offset if offset is None else offset
    for document in _candidates(spark, home, exported, last):
        at = document["offset"]
        acls = existing(spark, SavedResults(spark, home, SNAPSHOTS).room(at, "acls"), schema=ACLS)
        why = _unfit(spark, home, exported, document, acls)
        if why is None and acls is not None:
            return snapshot_of(document, acls)
        tell(f"the snapshot at offset {at} {why}, so the state is folded from an earlier one")
    return _beginning(spark, home, exported)


def _candidates(spark: SparkSession, home: Home, exported: Exported, last: int) -> Iterator[dict[str, Any]]:
    found = read_documents(spark, SavedResults(spark, home, SNAPSHOTS).room(None, "manifest"))
    epochs, end = exported.epochs, exported.last_offset
    for document in sorted(found, key=lambda each: each["offset"], reverse=True):
        same = document["cluster_id"] == exported.cluster_id and epochs.has(token_of(document), end)
        if same and exported.start_offset < document["offset"] <= last:
            yield document


def _unfit(
    spark: SparkSession, home: Home, exported: Exported, document: Mapping[str, Any], acls: DataFrame | None
) -> str | None:
    # INVARIANT: a fault in one snapshot must not live on in all later ones.
    if document["hash"] != _hash_at(spark, home, exported, document["offset"]):
        return "does not belong to the history of the export"
    if acls is None or any(document[name] != number for name, number in contents_of(acls).items()):
        return "is damaged, its ACLs are not those of its manifest"
    return None


def _hash_at(spark: SparkSession, home: Home, exported: Exported, offset: int) -> str | None:
    of_batch = next(each for each in exported.batches if each.last_offset >= offset)
    if of_batch.last_offset == offset:
        return of_batch.hash
    records = records_of(spark, home, replace(exported, batches=(of_batch,)))
    row = records.where((sf.col("offset") == offset) & (sf.col("tx_last") == offset)).select("hash").first()
    return None if row is None else bytes(row["hash"]).hex()


def _refuse_outside(exported: Exported, offset: int | None, time: datetime | None) -> None:
    if offset is not None and not exported.start_offset <= offset <= exported.last_offset:
        raise PipelineError(
            f"offset {offset} is not in the export, which has {exported.start_offset} to {exported.last_offset}; "
            "run `klamm pipeline export` for later ones"
        )
    base = exported.base
    if time is not None and base is not None and time < datetime.fromisoformat(base.taken_at):
        raise PipelineError(
            f"the export begins at offset {base.offset} as of {base.taken_at}, and holds nothing earlier"
        )


def refuse_partial(records: DataFrame, exported: Exported) -> None:
    wanted = sum(batch.last_offset - batch.first_offset + 1 for batch in exported.batches)
    found = records.count()
    if found != wanted:
        raise PipelineError(_partial(found, wanted))


def _partial(found: int, wanted: int) -> str:
    return (
        f"the export has {found:,} of the {wanted:,} rows that its manifests name; run `klamm pipeline reconcile` "
        "to see where, and restore them, or export into a new --home"
    )


def _end(records: DataFrame, start: Snapshot, offset: int | None, time: datetime | None) -> Row | None:
    """The last record of the state: `offset`, `micros`, `hash`. None if it is the start itself."""
    if offset is not None:
        return None if offset == start.offset else _at(records, offset)
    ends = records.where(sf.col("offset") == sf.col("tx_last"))
    if time is not None:
        ends = ends.where(sf.col("recorded_at") <= timestamp(time))
    last = ends.agg(sf.max_by(_place(), "offset").alias("last")).select("last.*").collect()[0]
    return None if last["offset"] is None else last


def _place() -> Column:
    return sf.struct("offset", sf.unix_micros("recorded_at").alias("micros"), "hash")


def _at(records: DataFrame, offset: int) -> Row:
    found = records.where(sf.col("offset") == offset)
    row = found.select("tx_last", _place().alias("last")).select("tx_last", "last.*").first()
    if row is None:
        raise PipelineError(f"the export lacks the record at offset {offset}; run `klamm pipeline reconcile`")
    if row["tx_last"] != offset:
        first = records.where(sf.col("tx_last") == row["tx_last"]).agg(sf.min("offset")).collect()[0][0]
        raise PipelineError(
            f"offset {offset} is inside a transaction, where no state was ever visible; take {first - 1} (before it) "
            f"or {row['tx_last']} (after it)"
        )
    return row
