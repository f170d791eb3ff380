"""Findings of hygiene in their one shape, and the one place where they get the commands that mend them."""

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.core.kafka.bindings import AclBinding
from app.pipeline.history.schemas import BINDING_FIELDS, FINDINGS, FOUND
from app.pipeline.hygiene.kafka_acls import mend_of


def found_in(
    acls: DataFrame,
    kind: Column,
    *,
    why: Column,
    by_acl_id: Column | None = None,
    covered: Column | None = None,
    used: Column | None = None,
) -> DataFrame:
    """A finding for each of these ACLs (columns of ACLS, others are dropped) that its removal mends (FOUND)."""
    return acls.select(
        kind.alias("kind"),
        sf.col("id").alias("acl_id"),
        *BINDING_FIELDS,
        why.alias("why"),
        (sf.lit(None).cast("string") if by_acl_id is None else by_acl_id).alias("by_acl_id"),
        (sf.lit(None) if covered is None else covered).cast("bigint").alias("covered"),
        (sf.lit(None) if used is None else used).cast("bigint").alias("used"),
        sf.lit(None).cast(FOUND["narrower"].dataType).alias("narrower"),
    )


def mended(found: DataFrame, tool: str) -> DataFrame:
    """Findings (FOUND) with the commands of this tool that mend them (FINDINGS)."""
    return found.select(*FOUND.fieldNames()).mapInArrow(partial(_with_mends, tool), FINDINGS)


def _with_mends(tool: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("kind", *BINDING_FIELDS, "narrower"))
        mends = [
            mend_of(kind, AclBinding.from_words(words), narrower, tool)
            for kind, *words, narrower in zip(*columns, strict=True)
        ]
        kept = [batch.column(name) for name in FINDINGS.fieldNames()[:-1]]
        arrays = [*kept, pa.array(mends, pa.list_(pa.string()))]
        yield pa.RecordBatch.from_arrays(arrays, names=FINDINGS.fieldNames())
