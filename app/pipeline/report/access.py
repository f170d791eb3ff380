"""Which team reaches how many resources under which prefix, every DENY taken off.

Most principals have no DENY, and most resources none for everybody: those are summed up by team before they meet the
resources. The rest goes resource by resource through `denials`, in sorted streams of bounded memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's own pages use

from app.core.access.host_keys import NOBODY, host_key
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation, ResourceType
from app.pipeline.report.denials import Denials
from app.pipeline.report.figures import Question
from app.pipeline.report.grouping import EVERYONE, with_team

QUESTIONS = (
    Question("READ", "TOPIC"),
    Question("WRITE", "TOPIC"),
    Question("DELETE", "TOPIC"),
    Question("ALTER", "TOPIC"),
    Question("READ", "GROUP"),
    Question("DELETE", "GROUP"),
    Question("WRITE", "TRANSACTIONAL_ID"),
)
_PATTERN = ["resource_type", "pattern_type", "pattern_name"]
_RESOURCE = ["resource_type", "resource_name"]
_WATCHED = {
    kind.name: sum(1 << AclOperation[each.operation] for each in QUESTIONS if each.resource_type == kind.name)
    for kind in ResourceType
}
_ALL_DENY, _DENY, _ALLOW = 0, 1, 2
_REACHED = "resource_type string, resource_name string, team string, bits int"


@dataclass(frozen=True, slots=True)
class AccessTables:
    """What `effective` has written: masks by pattern, and which patterns cover which of the resources."""

    masks: DataFrame
    nodes: DataFrame
    resources: DataFrame


def watched(resource_type: Column) -> Column:
    """The operations that the page asks about, for a type, as bits."""
    known = [F.when(resource_type == name, F.lit(bits)) for name, bits in _WATCHED.items() if bits]
    return F.coalesce(*known, F.lit(0))


def reach(tables: AccessTables, teams: DataFrame | None, *, allow_everyone: bool) -> DataFrame:
    """(resource_type, resource_name, team, bits): what somebody of the team may do from some address.

    `User:*` is a team of its own, and its rights are nobody else's. With `allow_everyone`, so is what is open for
    want of an ACL.
    """
    seen = watched(F.col("resource_type"))
    allows = tables.masks.withColumn("mask", F.col("allow_mask").bitwiseAND(seen)).where("mask <> 0")
    allows = _reachable(with_team(allows, teams).select(*_PATTERN, "principal", "team", "host", "mask"))
    denies = tables.masks.withColumn("mask", F.col("deny_mask").bitwiseAND(seen)).where("mask <> 0")
    denies = denies.select(*_PATTERN, "principal", F.lit(None).cast("string").alias("team"), "host", "mask")
    marked = denies.where(F.col("principal") == WILDCARD_PRINCIPAL).select(*_PATTERN).distinct()
    touched = tables.nodes.join(marked, _PATTERN, "left_semi").select(*_RESOURCE).distinct()
    denied = denies.where(F.col("principal") != WILDCARD_PRINCIPAL).select("principal").distinct()
    calm_nodes = tables.nodes.join(touched, _RESOURCE, "left_anti")
    touched_nodes = tables.nodes.join(touched, _RESOURCE, "left_semi")
    calm = allows.join(denied, "principal", "left_anti")
    quick = calm.groupBy(*_PATTERN, "team").agg(F.bit_or("mask").alias("bits"))
    careful = _at(calm, touched_nodes, _ALLOW).unionByName(
        _at(allows.join(denied, "principal", "left_semi"), tables.nodes, _ALLOW)
    )
    denials = _at(denies, tables.nodes, _DENY)
    found = quick.join(calm_nodes, _PATTERN).select(*_RESOURCE, "team", "bits")
    found = found.unionByName(_survivors(careful.unionByName(denials)))
    if allow_everyone:
        opened = open_by_default(tables)
        bits = watched(F.col("resource_type")).alias("bits")
        found = found.unionByName(opened.select(*_RESOURCE, F.lit(EVERYONE).alias("team"), bits))
    return found.groupBy(*_RESOURCE, "team").agg(F.bit_or("bits").alias("bits"))


def _reachable(allows: DataFrame) -> DataFrame:
    """Without those whose host no client can be at, by core's own reading of hosts."""
    special = allows.where(F.col("host") != WILDCARD)
    return allows.where(F.col("host") == WILDCARD).unionByName(special.mapInArrow(_with_clients, special.schema))


def _with_clients(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(
            pa.array([host_key(host) != NOBODY for host in batch.column("host").to_pylist()], pa.bool_())
        )


def open_by_default(tables: AccessTables) -> DataFrame:
    """The resources that have no ACL at all, of the types that the page asks about."""
    without = tables.resources.join(tables.nodes.select(*_RESOURCE), _RESOURCE, "left_anti")
    return without.where(watched(F.col("resource_type")) != 0)


def _at(masks: DataFrame, nodes: DataFrame, turn: int) -> DataFrame:
    """The masks at the resources that they speak of, in their turn."""
    everybody = (F.col("principal") == WILDCARD_PRINCIPAL) & F.lit(turn == _DENY)
    order = F.when(everybody, F.lit(_ALL_DENY)).otherwise(F.lit(turn))
    whose = F.when(everybody, F.lit("")).otherwise(F.col("principal"))
    joined = masks.join(nodes, _PATTERN)
    return joined.select(*_RESOURCE, whose.alias("whose"), order.alias("turn"), "team", "host", "mask")


def _survivors(rows: DataFrame) -> DataFrame:
    order = [*_RESOURCE, "whose", "turn"]
    sorted_rows = rows.repartition(*_RESOURCE).sortWithinPartitions(*order)
    return sorted_rows.mapInArrow(_surviving, _REACHED)


def _surviving(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """DENYs of everybody come first at each resource, then principal by principal its DENYs, then its ALLOWs."""
    resource: tuple[str, str] | None = None
    whose = ""
    everybody, own = Denials(()), Denials(())
    waiting: list[tuple[str, int]] = []
    for batch in batches:
        found: list[tuple[str, str, str, int]] = []
        for kind, name, principal, turn, team, host, mask in zip(*batch.to_pydict().values(), strict=True):
            if (kind, name) != resource:
                resource, whose, waiting, everybody, own = (kind, name), "", [], Denials(()), Denials(())
            if principal != whose:
                everybody = everybody.with_more(waiting) if whose == "" else everybody
                whose, waiting, own = principal, [], everybody
            if turn != _ALLOW:
                waiting.append((host, mask))
                continue
            if waiting:
                own, waiting = everybody.with_more(waiting), []
            bits = own.surviving(host, mask)
            if bits:
                found.append((kind, name, team, bits))
        yield _batch(found)


def _batch(found: list[tuple[str, str, str, int]]) -> pa.RecordBatch:
    types = (pa.string(), pa.string(), pa.string(), pa.int32())
    columns = list(zip(*found, strict=True)) or [()] * len(types)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[*_RESOURCE, "team", "bits"])
