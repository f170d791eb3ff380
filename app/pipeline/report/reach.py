"""Which team reaches how many resources under which prefix, after all DENYs.

Most ACLs cover no resource that a DENY of their principal, or one for everybody, covers as well: they are summed up by
team before they are joined with the resources. The others pass `Denials` resource by resource, in sorted streams of
bounded memory.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.core.access.host_keys import END, NOBODY, host_key
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation, ResourceType
from app.core.readable import backticked
from app.pipeline.access.effective import EffectiveTables
from app.pipeline.access.patterns import PATTERN, RESOURCE
from app.pipeline.history.schemas import columns
from app.pipeline.report.figures import Question
from app.pipeline.spark.arrow import batch_of, rows_in
from app.pipeline.spark.errors import PipelineError

EVERYONE = "\0everyone"
"""The team of `User:*`; no real name holds U+0000."""

QUESTIONS = (
    Question("READ", "TOPIC"),
    Question("WRITE", "TOPIC"),
    Question("DELETE", "TOPIC"),
    Question("ALTER", "TOPIC"),
    Question("READ", "GROUP"),
    Question("DELETE", "GROUP"),
    Question("WRITE", "TRANSACTIONAL_ID"),
)
_WATCHED = {
    kind.name: sum(1 << AclOperation[each.operation] for each in QUESTIONS if each.resource_type == kind.name)
    for kind in ResourceType
}
_ALL_DENY, _DENY, _ALLOW = 0, 1, 2
_REACHED = columns("resource_type string, resource_name string, team string, bits int")
_SIBLING = {"0": "1", "1": "0", "4": "6", "6": "4"}


def _watched() -> Column:
    """The operations that the page asks about, of a row's resource type, as bits."""
    known = [sf.when(sf.col("resource_type") == name, sf.lit(bits)) for name, bits in _WATCHED.items() if bits]
    return sf.coalesce(*known, sf.lit(0))


def asked_about(resources: DataFrame) -> DataFrame:
    """Those of the types that the page asks about."""
    return resources.where(_watched() != 0)


def reach(tables: EffectiveTables, teams: DataFrame | None, *, allow_everyone: bool) -> DataFrame:
    """(resource_type, resource_name, team, bits): what may be done from some address, a row for each resource and team.

    `User:*` is a team of its own; its rights are not counted for others. With `allow_everyone` they include resources
    without ACLs.
    """
    seen = _watched()
    allows = tables.masks.withColumn("mask", sf.col("allow_mask").bitwiseAND(seen)).where("mask <> 0")
    allows = _reachable(_with_team(allows, teams).select(*PATTERN, "principal", "team", "host", "mask"))
    denies = tables.masks.withColumn("mask", sf.col("deny_mask").bitwiseAND(seen)).where("mask <> 0")
    denies = denies.select(*PATTERN, "principal", sf.lit(None).cast("string").alias("team"), "host", "mask")
    marked = denies.where(sf.col("principal") == WILDCARD_PRINCIPAL).select(*PATTERN).distinct()
    touched = tables.nodes.join(marked, list(PATTERN), "left_semi").select(*RESOURCE).distinct()
    held = _held_down(denies.where(sf.col("principal") != WILDCARD_PRINCIPAL), tables.nodes)
    calm_nodes = tables.nodes.join(touched, list(RESOURCE), "left_anti")
    touched_nodes = tables.nodes.join(touched, list(RESOURCE), "left_semi")
    calm = allows.join(held, list(held.columns), "left_anti")
    by_team = calm.groupBy(*PATTERN, "team").agg(sf.bit_or("mask").alias("bits"))
    found = by_team.join(calm_nodes, list(PATTERN)).select(_REACHED.fieldNames())
    careful = _at(calm, touched_nodes, _ALLOW)
    careful = careful.unionByName(_at(allows.join(held, list(held.columns), "left_semi"), tables.nodes, _ALLOW))
    careful = careful.unionByName(_at(denies, tables.nodes, _DENY))
    sorted_rows = careful.repartition(*RESOURCE).sortWithinPartitions(*RESOURCE, "whose", "turn")
    found = found.unionByName(sorted_rows.mapInArrow(_surviving, _REACHED))
    if allow_everyone:
        opened = open_by_default(tables)
        found = found.unionByName(opened.select(*RESOURCE, sf.lit(EVERYONE).alias("team"), _watched().alias("bits")))
    return found.groupBy(*RESOURCE, "team").agg(sf.bit_or("bits").alias("bits"))


def _held_down(denies: DataFrame, nodes: DataFrame) -> DataFrame:
    """(PATTERN, principal): a DENY of the principal covers at least one resource of the pattern."""
    denied = denies.select(*PATTERN, "principal").distinct().join(nodes, list(PATTERN))
    denied = denied.select(*RESOURCE, "principal").distinct()
    return denied.join(nodes, list(RESOURCE)).select(*PATTERN, "principal").distinct()


def _reachable(allows: DataFrame) -> DataFrame:
    special = allows.where(sf.col("host") != WILDCARD)
    return allows.where(sf.col("host") == WILDCARD).unionByName(special.mapInArrow(_with_clients, special.schema))


def _with_clients(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        matches = [host_key(host) != NOBODY for host in batch.column("host").to_pylist()]
        yield batch.filter(pa.array(matches, pa.bool_()))


def open_by_default(tables: EffectiveTables) -> DataFrame:
    without = tables.resources.join(tables.nodes.select(*RESOURCE), list(RESOURCE), "left_anti")
    return asked_about(without)


def _at(masks: DataFrame, nodes: DataFrame, turn: int) -> DataFrame:
    """The masks at the resources that they cover, with their place in the order of `_surviving`."""
    everybody = (sf.col("principal") == WILDCARD_PRINCIPAL) & sf.lit(turn == _DENY)
    order = sf.when(everybody, sf.lit(_ALL_DENY)).otherwise(sf.lit(turn))
    whose = sf.when(everybody, sf.lit("")).otherwise(sf.col("principal"))
    joined = masks.join(nodes, list(PATTERN))
    return joined.select(*RESOURCE, whose.alias("whose"), order.alias("turn"), "team", "host", "mask")


def _surviving(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """At each resource DENYs of everybody come first, then principal by principal its DENYs, then its ALLOWs."""
    resource: tuple[str, str] | None = None
    whose = ""
    everybody, own = Denials(()), Denials(())
    waiting: list[tuple[str, int]] = []
    for batch in batches:
        found: list[tuple[str, str, str, int]] = []
        for kind, name, principal, turn, team, host, mask in rows_in(batch):
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
        yield batch_of(found, _REACHED)


class _Covered:
    """The addresses that some hosts cover together, as keys (`core.access.host_keys`)."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._keys = {host_key(host) for host in hosts} - {NOBODY}
        waiting = list(self._keys)
        while waiting:
            key = waiting.pop()
            # Two halves make a whole. An exact IPv6 address is no half: the same address with a zone is left.
            if key and not key.endswith(END) and key[:-1] + _SIBLING[key[-1]] in self._keys:
                wider = key[:-1]
                if wider not in self._keys:
                    self._keys.add(wider)
                    waiting.append(wider)

    def holds(self, key: str) -> bool:
        return any(key[:length] in self._keys for length in range(len(key) + 1))


class Denials:
    """The DENYs that apply to one principal on one resource, as (host, mask)."""

    def __init__(self, denials: Iterable[tuple[str, int]]) -> None:
        self._denials = list(denials)
        self._covered: dict[int, _Covered] = {}

    def with_more(self, denials: list[tuple[str, int]]) -> "Denials":
        return Denials([*self._denials, *denials]) if denials else self

    def surviving(self, host: str, mask: int) -> int:
        """The operations of an ALLOW's mask that hold from at least one address of its host."""
        key = host_key(host)
        left = 0
        while mask and key != NOBODY:
            bit = mask & -mask
            mask ^= bit
            if not self._covering(bit).holds(key):
                left |= bit
        return left

    def _covering(self, bit: int) -> _Covered:
        if bit not in self._covered:
            self._covered[bit] = _Covered(host for host, mask in self._denials if mask & bit)
        return self._covered[bit]


def _derived_team(principal: Column) -> Column:
    name = sf.regexp_extract(principal, r"^[^:]*:([^\-._@]+)", 1)
    return sf.when(principal == WILDCARD_PRINCIPAL, sf.lit(EVERYONE)).when(name == "", principal).otherwise(name)


def read_teams(spark: SparkSession, path: str) -> DataFrame:
    try:
        table = spark.read.csv(path, header=True, multiLine=True, quote='"', escape='"')
    except AnalysisException:
        raise PipelineError(f"can't read the teams in `{path}`: --teams takes a CSV file with a header") from None
    for column in ("principal", "team"):
        if column not in table.columns:
            raise PipelineError(f"`{path}` has no column `{column}`; its first line must be `principal,team`")
    teams = table.select("principal", "team").where("principal is not null and team is not null").distinct()
    twice = teams.groupBy("principal").count().where("count > 1").limit(1).collect()
    if twice:
        raise PipelineError(
            f"`{path}` has more than one team for {backticked(twice[0]['principal'])}; keep one of them"
        )
    return teams


def _with_team(table: DataFrame, teams: DataFrame | None) -> DataFrame:
    derived = _derived_team(sf.col("principal"))
    if teams is None:
        return table.withColumn("team", derived)
    given = sf.when(sf.col("principal") == WILDCARD_PRINCIPAL, derived).otherwise(sf.coalesce("team", derived))
    return table.join(teams, "principal", "left").withColumn("team", given)
