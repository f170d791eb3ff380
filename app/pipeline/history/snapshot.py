"""The ACLs and the configuration at one offset: folded from the export, saved, and loaded by other jobs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from app.core.kafka.configs import ALLOW_EVERYONE, SUPER_USERS, AuthorizerConfig, parse_configs
from app.pipeline.history.export import base_acls, records_of, whole_export
from app.pipeline.history.manifests import Exported
from app.pipeline.history.records import fold_acls, fold_configs, refuse_unreadable
from app.pipeline.history.schemas import ACLS
from app.pipeline.history.source import moment, timestamp
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.storage import Home, existing, read_documents, versions, write_document

_FOLDER = "snapshots"


@dataclass(frozen=True)
class Snapshot:
    """`as_of` is when the record at the offset was recorded, or when the tables were read."""

    acls: DataFrame
    configs: dict[str, str]
    cluster_id: str
    epoch: str
    offset: int
    as_of: datetime

    @property
    def config(self) -> AuthorizerConfig:
        return parse_configs({name: self.configs.get(name) for name in (SUPER_USERS, ALLOW_EVERYONE)})

    def manifest(self, spark: SparkSession, job: str) -> dict[str, Any]:
        """What every manifest says of the snapshot that its job worked on."""
        return {
            "job": job,
            "cluster_id": self.cluster_id,
            "epoch": self.epoch,
            "offset": self.offset,
            "as_of": self.as_of.isoformat(),
            **versions(spark),
        }


def load_snapshot(spark: SparkSession, home: Home, offset: int | None = None) -> Snapshot:
    """At this offset, or the latest. Raises PipelineError if there is none."""
    results = SavedResults(spark, home, _FOLDER)
    saved = {document["offset"]: document for document in read_documents(spark, results.room(None, "manifest"))}
    wanted = wanted_snapshot(home.root, saved, offset)
    document = saved[wanted]
    # INVARIANT: no answer is ever given from a part of the ACLs: without a DENY it could be a wrong ALLOW.
    path = results.room(wanted, "acls")
    acls = existing(spark, path)
    found = 0 if acls is None else acls.count()
    if acls is None or found != document["acls"]:
        raise PipelineError(
            f"the snapshot at offset {wanted} has {found:,} of its {document['acls']:,} ACLs; remove "
            f"`{path.removesuffix('/acls')}` and run `klamm pipeline snapshot --offset {wanted}` again"
        )
    as_of = datetime.fromisoformat(document["as_of"])
    acls = spark.read.schema(ACLS).parquet(path)
    return Snapshot(acls, document["configs"], document["cluster_id"], document["epoch"], wanted, as_of)


def wanted_snapshot(home: str, saved: Collection[int], offset: int | None) -> int:
    if not saved:
        raise PipelineError(f"there is no snapshot in `{home}`; run `klamm pipeline snapshot`")
    wanted = max(saved) if offset is None else offset
    if wanted not in saved:
        there = ", ".join(map(str, sorted(saved)[-5:]))
        raise PipelineError(
            f"there is no snapshot at offset {wanted} (the latest are at {there}); "
            f"run `klamm pipeline snapshot --offset {wanted}`"
        )
    return wanted


def save_snapshot(spark: SparkSession, home: Home, snapshot: Snapshot) -> None:
    """One that is there already stays as it is. Raises PipelineError if home has snapshots of another history."""
    results = SavedResults(spark, home, _FOLDER)
    for document in read_documents(spark, results.room(None, "manifest")):
        refuse_other(home, snapshot, document["cluster_id"], document["epoch"])
        if document["offset"] == snapshot.offset:
            return
    path = results.room(snapshot.offset, "acls")
    snapshot.acls.write.mode("overwrite").parquet(path)
    count = spark.read.schema(ACLS).parquet(path).count()
    document = {**snapshot.manifest(spark, "snapshot"), "acls": count, "configs": snapshot.configs}
    write_document(spark, results.room(snapshot.offset, "manifest"), document)


def refuse_other(home: Home, snapshot: Snapshot, cluster_id: str, epoch: str) -> None:
    if (snapshot.cluster_id, snapshot.epoch) != (cluster_id, epoch):
        raise PipelineError(
            f"`{home.root}` has epoch {epoch} of cluster `{cluster_id}`, but this is epoch {snapshot.epoch} of "
            f"`{snapshot.cluster_id}`; use a new --home for it"
        )


def snapshot_at(spark: SparkSession, home: Home, offset: int | None = None, time: datetime | None = None) -> Snapshot:
    """The state at an offset or a time, or at the last whole transaction of the export.

    Raises PipelineError outside of the export, inside a transaction, and if Parquet is missing.
    """
    exported = whole_export(spark, home)
    records = records_of(spark, home, exported)
    base = base_acls(spark, home, exported)
    _refuse_partial(records, base, exported)
    end = _end(records, exported, offset, time)
    if end is None:
        at, as_of = exported.start_offset, _start_time(exported)
    else:
        at, as_of = end["offset"], moment(end["micros"])
    before = records.where(sf.col("offset") <= at)
    refuse_unreadable(before)
    configs = dict(exported.base.configs) if exported.base is not None else {}
    return Snapshot(
        fold_acls(before, base), configs_after(configs, before), exported.cluster_id, exported.epoch, at, as_of
    )


def _refuse_partial(records: DataFrame, base: DataFrame | None, exported: Exported) -> None:
    wanted, found = exported.last_offset - exported.start_offset, records.count()
    if base is not None and exported.base is not None:
        wanted, found = wanted + exported.base.acls, found + base.count()
    if found != wanted:
        raise PipelineError(
            f"the export has {found:,} of the {wanted:,} rows that its manifests name; run `klamm pipeline reconcile` "
            "to see where, and restore them, or export into a new --home"
        )


def configs_after(configs: dict[str, str], records: DataFrame) -> dict[str, str]:
    changed = {row["name"]: row["value"] for row in fold_configs(records).collect()}
    return {name: value for name, value in sorted({**configs, **changed}.items()) if value is not None}


def _end(records: DataFrame, exported: Exported, offset: int | None, time: datetime | None) -> Row | None:
    if offset is not None:
        return _at(records, exported, offset)
    ends = records.where(sf.col("offset") == sf.col("tx_last"))
    if time is not None:
        ends = ends.where(sf.col("recorded_at") <= timestamp(time))
        if exported.base is not None and time < _start_time(exported):
            raise PipelineError(
                f"the export begins with offset {exported.start_offset} as of {exported.base.taken_at}; "
                "of earlier times it knows nothing"
            )
    micros = sf.max_by(sf.unix_micros("recorded_at"), "offset").alias("micros")
    last = ends.agg(sf.max("offset").alias("offset"), micros).first()
    return None if last is None or last["offset"] is None else last


def _at(records: DataFrame, exported: Exported, offset: int) -> Row | None:
    if not exported.start_offset <= offset <= exported.last_offset:
        raise PipelineError(
            f"offset {offset} is not in the export, which has {exported.start_offset} to {exported.last_offset}; "
            "run `klamm pipeline export` for later ones"
        )
    if offset == exported.start_offset:
        return None
    found = records.where(sf.col("offset") == offset)
    row = found.select("offset", "tx_last", sf.unix_micros("recorded_at").alias("micros")).first()
    if row is None:
        raise PipelineError(f"the export lacks the record at offset {offset}; run `klamm pipeline reconcile`")
    if row["tx_last"] != offset:
        first = records.where(sf.col("tx_last") == row["tx_last"]).agg(sf.min("offset")).first()
        before = first[0] - 1 if first is not None else offset - 1
        raise PipelineError(
            f"offset {offset} is inside a transaction, which nobody has ever seen half of; "
            f"take {before} (before it) or {row['tx_last']} (after it)"
        )
    return row


def _start_time(exported: Exported) -> datetime:
    return moment(0) if exported.base is None else datetime.fromisoformat(exported.base.taken_at)


@dataclass(frozen=True, slots=True)
class SavedResults:
    """What one job has made of snapshots, by their offsets: first the tables, then a manifest that completes them."""

    spark: SparkSession
    home: Home
    job: str

    def room(self, offset: int | None, name: str) -> str:
        return self.home.room(self.job, "offset=*" if offset is None else f"offset={offset:020}", name)

    def find(self, offset: int | None) -> dict[str, Any] | None:
        """The manifest at this offset, or the latest; None if there is none, or if its job was killed."""
        documents = read_documents(self.spark, self.room(None, "manifest"))
        saved = {each["offset"]: each for each in documents if each["complete"]}
        if not saved:
            return None
        return saved.get(max(saved) if offset is None else offset)

    def begin(self, snapshot: Snapshot, looked_at: Mapping[str, Any]) -> dict[str, Any]:
        """Invalidate what is saved at this offset. The manifest, with `looked_at`, is for `complete`."""
        manifest = {**snapshot.manifest(self.spark, self.job), **looked_at}
        # INVARIANT: no manifest describes tables that are being replaced.
        write_document(self.spark, self.room(snapshot.offset, "manifest"), {**manifest, "complete": False})
        return manifest

    def complete(self, manifest: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, Any]:
        """Called once the tables are written; the manifest, with their counts."""
        whole = {**manifest, "complete": True, "counts": dict(counts)}
        write_document(self.spark, self.room(manifest["offset"], "manifest"), whole)
        return whole
