"""Whether each record's hash covers the record before it, asked of core itself in parallel."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.core.records import record_hash
from app.pipeline.history.records import record_of
from app.pipeline.history.schemas import RECORDS

_STRETCH = 65_536
"""Records that are followed in one go; the last one of each stretch is handed to the next as well."""

_EXAMPLES = 20

_FOUND = "checked bigint, broken bigint, offset bigint, why string"


@dataclass(frozen=True, slots=True)
class ChainFacts:
    """How many records were followed, how many of them don't follow the one before, and the first of those."""

    checked: int
    broken: int
    examples: list[tuple[int, str]]


def follow_chain(records: DataFrame, start_offset: int, start_hash: bytes) -> ChainFacts:
    """Follow all records from the hash at the offset before the first."""
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

    def follow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        links = _Links(start_offset, start_hash)
        for batch in batches:
            names = batch.schema.names
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                links.take(dict(zip(names, values, strict=True)))
        yield links.found()

    found = sorted_rows.mapInArrow(follow, _FOUND).collect()
    examples = sorted((row["offset"], row["why"]) for row in found if row["why"] is not None)
    return ChainFacts(sum(row["checked"] for row in found), sum(row["broken"] for row in found), examples[:_EXAMPLES])


@dataclass(slots=True)
class _Links:
    """Follows records in the order of their offsets."""

    offset: int
    hash: bytes
    checked: int = 0
    broken: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)

    def take(self, row: Mapping[str, Any]) -> None:
        """The next record, or the one before a stretch."""
        if not row["is_seed"]:
            self.checked += 1
            why = self._fault(row)
            if why is not None:
                self.broken += 1
                if len(self.examples) < _EXAMPLES:
                    self.examples.append((row["offset"], why))
        self.offset, self.hash = row["offset"], row["hash"]

    def _fault(self, row: Mapping[str, Any]) -> str | None:
        if row["offset"] == self.offset:
            return "stands there twice"
        if row["offset"] != self.offset + 1:
            return "the record before it is missing"
        try:
            record = record_of(row)
            chained = record_hash(self.hash, record)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as fault:
            return f"no record that this version can read ({fault})"
        return None if chained == record.hash else "its hash does not cover this record and the one before it"

    def found(self) -> pa.RecordBatch:
        """The counts in the first row, an example in each of the others."""
        rows = [(self.checked, self.broken, None, None), *((0, 0, *example) for example in self.examples)]
        columns = zip(*rows, strict=True)
        types = (pa.int64(), pa.int64(), pa.int64(), pa.string())
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=["checked", "broken", "offset", "why"])
