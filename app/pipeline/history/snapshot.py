"""The ACLs and the configuration at one offset, as they are saved, and loaded by other jobs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.core.epochs import Epochs
from app.core.kafka.codes import AclPermissionType
from app.core.kafka.configs import ALLOW_EVERYONE, SUPER_USERS, AuthorizerConfig, parse_configs
from app.core.token import Token
from app.pipeline.history.epochs import epochs_in, is_one_history, tokens_of
from app.pipeline.history.schemas import ACLS
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.storage import Home, existing, read_documents, versions, write_document

SNAPSHOTS = "snapshots"
_ALLOW = AclPermissionType.ALLOW.name


@dataclass(frozen=True)
class Snapshot:
    """`as_of` is the store's time: the one asked for, that of the export which came to this offset, or of the tables
    when they were read, else when the record at the offset was recorded.
    """

    acls: DataFrame
    configs: dict[str, str]
    cluster_id: str
    epochs: Epochs
    """Those of its history, up to the offset."""
    offset: int
    as_of: datetime
    hash: str
    """The hash of the record at the offset, hexadecimal, which covers all records before it."""

    @property
    def token(self) -> Token:
        return self.epochs.token_of(self.offset)

    @property
    def in_effect(self) -> DataFrame:
        """The ACLs without each ALLOW that has ended by `as_of`. A DENY holds until it is removed."""
        has_ended = (sf.col("permission_type") == _ALLOW) & (sf.col("expires_s") <= sf.lit(int(self.as_of.timestamp())))
        return self.acls.where(~sf.coalesce(has_ended, sf.lit(col=False)))

    @property
    def config(self) -> AuthorizerConfig:
        return parse_configs({name: self.configs.get(name) for name in (SUPER_USERS, ALLOW_EVERYONE)})

    def manifest(self, spark: SparkSession, job: str) -> dict[str, Any]:
        return {
            "job": job,
            "cluster_id": self.cluster_id,
            "epoch": str(self.token.epoch),
            "offset": self.offset,
            "as_of": self.as_of.isoformat(),
            **versions(spark),
        }


def load_snapshot(spark: SparkSession, home: Home, offset: int | None = None) -> Snapshot:
    results = SavedResults(spark, home, SNAPSHOTS)
    saved = {document["offset"]: document for document in read_documents(spark, results.room(None, "manifest"))}
    wanted = wanted_snapshot(home.root, saved, offset)
    document = saved[wanted]
    # INVARIANT: no answer ever comes from only a part of the ACLs: without a DENY it could be a wrong ALLOW.
    path = results.room(wanted, "acls")
    acls = existing(spark, path, schema=ACLS)
    found = 0 if acls is None else acls.count()
    if acls is None or found != document["acls"]:
        raise PipelineError(
            f"the snapshot at offset {wanted} has {found:,} of its {document['acls']:,} ACLs; remove "
            f"`{path.removesuffix('/acls')}` and run `klamm pipeline snapshot --offset {wanted}` again"
        )
    return snapshot_of(document, acls)


def snapshot_of(manifest: Mapping[str, Any], acls: DataFrame) -> Snapshot:
    known = {name: manifest[name] for name in ("configs", "cluster_id", "offset", "hash")}
    return Snapshot(acls, as_of=datetime.fromisoformat(manifest["as_of"]), epochs=_epochs_of(manifest), **known)


def token_of(manifest: Mapping[str, Any]) -> Token:
    """The token of a saved snapshot. Raises PipelineError."""
    return _epochs_of(manifest).token_of(manifest["offset"])


def _epochs_of(manifest: Mapping[str, Any]) -> Epochs:
    # A version before wrote one epoch only.
    return epochs_in(manifest.get("epochs") or [f"{manifest['epoch']}:0"])


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
    """An existing one stays as it is. Raises PipelineError if home has snapshots of another history."""
    results = SavedResults(spark, home, SNAPSHOTS)
    path, manifest = (results.room(snapshot.offset, name) for name in ("acls", "manifest"))
    documents = read_documents(spark, results.room(None, "manifest"))
    for document in documents:
        refuse_other(home, snapshot, document["cluster_id"], _epochs_of(document), document["offset"])
    if any(document["offset"] == snapshot.offset for document in documents):
        return
    snapshot.acls.write.mode("overwrite").parquet(path)
    acls = contents_of(spark.read.schema(ACLS).parquet(path))
    whole = {"configs": snapshot.configs, "hash": snapshot.hash, "epochs": tokens_of(snapshot.epochs)}
    write_document(spark, manifest, {**snapshot.manifest(spark, "snapshot"), **acls, **whole})


def contents_of(acls: DataFrame) -> dict[str, int]:
    """How many `acls`, how many of them are `ending`, and a `checksum` of all fields, whatever the order."""
    checksum = sf.bit_xor(sf.xxhash64(*ACLS.fieldNames()))
    row = acls.agg(sf.count("*").alias("acls"), sf.count("expires_s").alias("ending"), checksum.alias("checksum"))
    return {name: value or 0 for name, value in row.collect()[0].asDict().items()}


def refuse_other(home: Home, snapshot: Snapshot, cluster_id: str, epochs: Epochs, offset: int) -> None:
    """Raises PipelineError unless the state of the home at this offset and the snapshot are of one history."""
    if snapshot.cluster_id != cluster_id or not is_one_history(epochs, offset, snapshot.epochs, snapshot.offset):
        raise PipelineError(
            f"`{home.root}` has the state `{epochs.token_of(offset)}` of cluster `{cluster_id}`, but this is "
            f"`{snapshot.token}` of `{snapshot.cluster_id}`, which is not of the same history; use a new --home for it"
        )


@dataclass(frozen=True, slots=True)
class SavedResults:
    """One job's results from snapshots, by their offsets: first the tables, then a manifest that completes them."""

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
        """Invalidates what is saved at this offset. Returns the manifest, with `looked_at`, for `complete`."""
        manifest = {**snapshot.manifest(self.spark, self.job), **looked_at}
        # INVARIANT: no manifest describes tables that are being replaced.
        write_document(self.spark, self.room(snapshot.offset, "manifest"), {**manifest, "complete": False})
        return manifest

    def complete(self, manifest: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, Any]:
        whole = {**manifest, "complete": True, "counts": dict(counts)}
        write_document(self.spark, self.room(manifest["offset"], "manifest"), whole)
        return whole
