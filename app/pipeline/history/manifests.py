"""The manifests of the export, which say what was exported: a batch without a manifest does not exist."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from datetime import date
from typing import Any, TypeVar
from uuid import UUID, uuid4

from pyspark.sql import SparkSession

from app.core.epochs import Epoch, Epochs, is_later
from app.core.records import GENESIS_HASH
from app.core.token import Token
from app.pipeline.history.epochs import epochs_between, epochs_in
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.storage import Home, read_documents, versions, write_document


@dataclass(frozen=True, slots=True)
class Base:
    """The state that a first export began with because earlier records had been trimmed."""

    cluster_id: str
    epoch: str
    offset: int
    hash: str
    acls: int
    configs: Mapping[str, str]
    taken_at: str
    epochs: Sequence[str] = ()
    """As those of a batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A stretch of records. Hashes are hexadecimal; `previous_hash` is that of the record before the first, and `epoch`
    is that of the last.
    """

    cluster_id: str
    epoch: str
    first_offset: int
    last_offset: int
    previous_hash: str
    hash: str
    days: Sequence[str]
    counts: Mapping[str, int]
    changes: Sequence[Sequence[int]]
    """Its changes of ACLs by the hour, as `records.changes_by_hour` returns them."""
    read_at: str | None
    """When its last record was the store's last, by the store's time; None if that is not known."""
    epochs: Sequence[str] = ()
    """The tokens of the states in which its epochs began (`epochs.tokens_of`); none if a version before wrote it, whose
    exports have one epoch."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A whole export: a base, or batches from offset 1 on, or both."""

    base: Base | None
    batches: Sequence[Batch]

    @property
    def _end(self) -> Batch | Base:
        newest = self.batches[-1] if self.batches else self.base
        if newest is None:
            raise PipelineError("nothing has been exported yet; run `klamm pipeline export`")
        return newest

    @property
    def cluster_id(self) -> str:
        return self._end.cluster_id

    @property
    def epochs(self) -> Epochs:
        """The epochs of its history. Raises PipelineError if a manifest's are none."""
        rows: dict[UUID, Epoch] = {}
        parts: list[Base | Batch] = [*self.batches] if self.base is None else [self.base, *self.batches]
        for part in parts:
            for each in _epochs_of(part).rows:
                rows.setdefault(each.id, each)
        try:
            return Epochs.of(rows.values())
        except ValueError:
            raise PipelineError("the manifests of the export are not of one history; restore them") from None

    @property
    def token(self) -> Token:
        """Where it ends."""
        return self.epochs.token_of(self.last_offset)

    @property
    def start_offset(self) -> int:
        """The offset before the first record: 0, or that of the base."""
        return 0 if self.base is None else self.base.offset

    @property
    def start_hash(self) -> bytes:
        return GENESIS_HASH if self.base is None else bytes.fromhex(self.base.hash)

    @property
    def last_offset(self) -> int:
        end = self._end
        return end.last_offset if isinstance(end, Batch) else end.offset

    @property
    def hash(self) -> bytes:
        return bytes.fromhex(self._end.hash)

    def after(self, offset: int) -> "Exported":
        return replace(self, batches=tuple(batch for batch in self.batches if batch.last_offset > offset))

    def since(self, day: date) -> "Exported":
        return replace(self, batches=tuple(batch for batch in self.batches if max(batch.days, default="") >= str(day)))

    def faults(self) -> list[str]:
        found: list[str] = []
        offset, chained = self.start_offset, self.start_hash.hex()
        epochs = None if self.base is None else _epochs_of(self.base)
        for batch in self.batches:
            name = f"batch={batch.first_offset}"
            if batch.first_offset != offset + 1:
                found.append(f"{name} follows offset {offset}: manifests of records between are missing or overlap")
            elif batch.previous_hash != chained:
                found.append(f"{name} was chained to another record {offset} than the manifest before it names")
            if batch.cluster_id != self.cluster_id or not _continues(epochs, _epochs_of(batch), offset):
                found.append(f"{name} is of another store or history ({batch.cluster_id}, {batch.epoch})")
            offset, chained, epochs = batch.last_offset, batch.hash, _epochs_of(batch)
        return found


def _epochs_of(part: Base | Batch) -> Epochs:
    """Raises PipelineError."""
    first = part.first_offset - 1 if isinstance(part, Batch) else part.offset
    return epochs_in(part.epochs or [f"{part.epoch}:{first}"])


def _continues(before: Epochs | None, epochs: Epochs, offset: int) -> bool:
    """Whether the epochs of a batch follow those of the part before, which ends at the offset."""
    if before is None:
        return True
    in_force = {each.id for each in epochs_between(before, offset, offset).rows}
    known = {each.id for each in before.rows}
    begun = [each for each in epochs.rows if each.id not in known]
    return epochs.rows[0].id in in_force and all(
        is_later(each.id, before.last) and each.first_offset >= offset for each in begun
    )


_Kind = TypeVar("_Kind", Base, Batch)


def read_exported(spark: SparkSession, home: Home) -> Exported | None:
    bases = read_documents(spark, _base_manifest(home))
    documents = read_documents(spark, home.room("export", "manifests", "batch=*"))
    batches = sorted((_read(Batch, document) for document in documents), key=lambda batch: batch.first_offset)
    if not bases and not batches:
        return None
    return Exported(_read(Base, bases[0]) if bases else None, tuple(batches))


def write_batch(spark: SparkSession, home: Home, batch: Batch) -> None:
    path = home.room("export", "manifests", f"batch={batch.first_offset}")
    write_document(spark, path, {"job": "export", **asdict(batch), **versions(spark)})


def write_base(spark: SparkSession, home: Home, base: Base) -> None:
    write_document(spark, _base_manifest(home), {"job": "export", **asdict(base), **versions(spark)})


def exporter_of(spark: SparkSession, home: Home) -> str:
    """The id by which the store knows the export into this home; the first run generates it."""
    path = home.room("export", "exporter")
    for document in read_documents(spark, path):
        return str(document["id"])
    made_up = str(uuid4())
    write_document(spark, path, {"id": made_up})
    return made_up


def _base_manifest(home: Home) -> str:
    return home.room("export", "base", "manifest")


def _read(kind: type[_Kind], document: Mapping[str, Any]) -> _Kind:
    try:
        return kind(
            **{
                each.name: document[each.name] if each.default is MISSING else document.get(each.name, each.default)
                for each in fields(kind)
            }
        )
    except KeyError as missing:
        raise PipelineError(
            f"a manifest of the export lacks {missing}; restore it, or export into a new --home"
        ) from None
