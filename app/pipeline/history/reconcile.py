"""Whether the export is the store's history: every record, in order, chained, and adding up to the tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from app.core.readable import backticked, readable
from app.core.records import record_hash
from app.pipeline.history.export import BatchFacts
from app.pipeline.history.manifests import Exported
from app.pipeline.history.records import record_of
from app.pipeline.history.schemas import ACL_FIELDS, RECORDS, columns
from app.pipeline.spark.arrow import batch_of, rows_in

# How many differences are named; all are counted.
SHOWN = 20
# How many records one task follows; the last one of each stretch also starts the next.
_STRETCH = 65_536

_FOUND = columns("checked bigint, broken bigint, offset bigint, why string")


@dataclass(frozen=True, slots=True)
class ChainFacts:
    """`broken` of the records are not chained to the one before; `examples` are the first of them."""

    checked: int
    broken: int
    examples: list[tuple[int, str]]


def follow_chain(records: DataFrame, start_offset: int, start_hash: bytes) -> ChainFacts:
    rows = records.select(*RECORDS.fieldNames(), sf.unix_micros("recorded_at").alias("recorded_micros"))
    rows = rows.drop("recorded_at")
    stretch = sf.floor(sf.col("offset") / _STRETCH).cast("bigint")
    own = sf.struct(stretch.alias("stretch"), sf.lit(0).alias("is_seed"))
    seed = sf.struct((stretch + 1).alias("stretch"), sf.lit(1).alias("is_seed"))
    is_last = sf.col("offset") % _STRETCH == _STRETCH - 1
    places = sf.when(is_last, sf.array(own, seed)).otherwise(sf.array(own))
    placed = rows.select("*", sf.explode(places).alias("place")).select("*", "place.*").drop("place")
    # A seed lies before all records of its stretch.
    sorted_rows = placed.repartition("stretch").sortWithinPartitions("stretch", "offset")

    found = sorted_rows.mapInArrow(partial(_follow, start_offset, start_hash), _FOUND).collect()
    examples = sorted((row["offset"], row["why"]) for row in found if row["why"] is not None)
    return ChainFacts(sum(row["checked"] for row in found), sum(row["broken"] for row in found), examples[:SHOWN])


def _follow(offset: int, chained: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The counts are in the first row, an example in each of the others."""
    checked = broken = 0
    examples: list[tuple[int, int, int, str]] = []
    for batch in batches:
        for values in rows_in(batch):
            row = dict(zip(batch.schema.names, values, strict=True))
            if not row["is_seed"]:
                checked += 1
                why = _fault(row, offset, chained)
                broken += why is not None
                if why is not None and len(examples) < SHOWN:
                    examples.append((0, 0, row["offset"], why))
            offset, chained = row["offset"], row["hash"]
    yield batch_of([(checked, broken, None, None), *examples], _FOUND)


def _fault(row: Mapping[str, Any], offset: int, chained: bytes) -> str | None:
    if row["offset"] == offset:
        return "is there twice"
    if row["offset"] != offset + 1:
        return "the record before it is missing"
    try:
        record = record_of(row)
        expected = record_hash(chained, record)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as fault:
        return f"not a record that this version can read ({fault})"
    return None if expected == record.hash else "its hash does not cover this record and the one before it"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    summary: str
    differences: int = 0
    examples: Sequence[str] = ()


def check_manifests(exported: Exported) -> Check:
    faults = exported.faults()
    summary = f"{len(exported.batches)} batches, offsets {exported.start_offset + 1} to {exported.last_offset}"
    return Check("manifests", summary, len(faults), faults[:SHOWN])


def check_batches(exported: Exported, measured: dict[int, BatchFacts]) -> Check:
    """Whether each batch holds what its manifest says: dense offsets, nothing twice."""
    faults: list[str] = []
    for batch in exported.batches:
        name = f"batch={batch.first_offset}"
        wanted = batch.last_offset - batch.first_offset + 1
        facts = measured.get(batch.first_offset)
        if facts is None:
            faults.append(f"{name} has no records; expected {wanted}")
            continue
        if facts.offsets != wanted:
            faults.append(f"{name} has {facts.offsets} offsets; expected {wanted}")
        if facts.rows != facts.offsets:
            faults.append(f"{name} has {facts.rows - facts.offsets} records twice")
        if (facts.first_offset, facts.last_offset) != (batch.first_offset, batch.last_offset):
            faults.append(
                f"{name} has offsets {facts.first_offset} to {facts.last_offset}; expected {batch.first_offset} to "
                f"{batch.last_offset}"
            )
        if facts.counts != batch.counts:
            faults.append(f"{name} has {facts.counts}; its manifest says {dict(batch.counts)}")
        if facts.last_hash.hex() != batch.hash:
            faults.append(f"{name} ends with another hash than its manifest says")
    rows = sum(facts.rows for facts in measured.values())
    return Check("batches", f"{rows} records in {len(measured)} batches", len(faults), faults[:SHOWN])


def check_chain(facts: ChainFacts) -> Check:
    examples = [f"offset {offset}: {why}" for offset, why in facts.examples]
    return Check("hash chain", f"{facts.checked} records followed", facts.broken, examples[:SHOWN])


def check_acls(folded: DataFrame, stored: DataFrame, offset: int) -> Check:
    left = folded.select("id", sf.struct(*ACL_FIELDS).alias("folded"))
    right = stored.select("id", sf.struct(*ACL_FIELDS).alias("stored"))
    rows = left.join(right, "id", "full_outer")
    differ = ~sf.col("folded").eqNullSafe(sf.col("stored"))
    counts = rows.agg(sf.count("folded"), sf.count("stored"), sf.count_if(differ)).collect()[0]
    folded_count, stored_count, differences = counts
    shown = rows.where(differ).orderBy("id").limit(SHOWN).collect() if differences else []
    examples = [_difference(row) for row in shown]
    summary = f"{folded_count} ACLs by the records, {stored_count} in the table, at offset {offset}"
    return Check("ACLs", summary, differences, examples)


def check_configs(folded: dict[str, str], stored: dict[str, str], offset: int) -> Check:
    faults = [
        f"`{name}` is {_quoted(folded.get(name))} by the records and {_quoted(stored.get(name))} in the table"
        for name in sorted({*folded, *stored})
        if folded.get(name) != stored.get(name)
    ]
    summary = f"{len(folded)} properties by the records, {len(stored)} in the table, at offset {offset}"
    return Check("configs", summary, len(faults), faults[:SHOWN])


def _difference(row: Row) -> str:
    if row["stored"] is None:
        return f"ACL {row['id']} is not in the table; by the records it is {_binding(row['folded'])}"
    if row["folded"] is None:
        return f"ACL {row['id']} of the table, {_binding(row['stored'])}, does not exist by the records"
    return f"ACL {row['id']} is {_binding(row['folded'])} by the records and {_binding(row['stored'])} in the table"


def _binding(fields: Row) -> str:
    return "(" + ", ".join(f"{name}={readable(str(fields[name]))}" for name in ACL_FIELDS) + ")"


def _quoted(value: str | None) -> str:
    return "unset" if value is None else backticked(value)
