"""The store as Spark sees it: the published views over JDBC, and nothing else.

Every read is one statement in its own transaction, and takes no lock that a writer would wait for. Records are
only appended, so a range of offsets up to a head that was read before never changes.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.core.epochs import MAX_EPOCHS, Epochs
from app.core.token import Token
from app.pipeline.history.epochs import noted_epochs
from app.pipeline.history.schemas import ACLS, RECORDS
from app.pipeline.spark.checkpoint import checkpointed
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.jdbc import JdbcSource

# How many records one connection reads, in a transaction of a few seconds.
ROWS_PER_RANGE = 250_000

_TABLE_READINGS = 3

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The epoch in force, and the states in which the noted ones began, as tokens, the newest first.
_EPOCHS = f"""h.epoch || coalesce((
    SELECT string_agg(' ' || epoch || ':' || first_offset, '' ORDER BY number DESC)
    FROM (SELECT epoch, first_offset, number FROM acl_epoch_v1 ORDER BY number DESC LIMIT {MAX_EPOCHS}) AS newest
), '')"""  # noqa: S608 - a number

_HEAD = f"""SELECT h.cluster_id, h.last_offset, h.hash, h.log_start_offset, r.hash AS hash_at,
    statement_timestamp() AS read_at, {_EPOCHS} AS epochs
FROM acl_head_v1 AS h LEFT JOIN acl_record_v1 AS r ON r."offset" = """  # noqa: S608 - a part, declared above

_RECORDS = """SELECT "offset", tx_last, kind, acl_id::text AS acl_id, resource_type, resource_name, pattern_type,
    principal, host, operation, permission_type, config_name, config_value, recorded_at, actor, hash,
    extract(epoch FROM expires_at)::bigint AS expires_s, owner, comment
FROM acl_record_v2"""

_CHANGED_TERMS = """SELECT r."offset" FROM acl_record_v2 AS r JOIN acl_v2 AS a ON a.id = r.acl_id
WHERE r.kind = 'AccessControlEntryRecord' AND r."offset" > a.created_offset"""

# INVARIANT: one statement, so one snapshot of the database: the head belongs to all its rows. `read_at` is the time of
# the transaction, because statement_timestamp() is another one in each fetch of the driver.
_TABLE = f"""SELECT transaction_timestamp() AS read_at, 'head' AS what, {_EPOCHS} AS key, cluster_id AS value,
    last_offset, log_start_offset, hash, 1 + (SELECT count(*) FROM config_v1) + (SELECT count(*) FROM acl_v1) AS rows,
    NULL::text AS resource_type, NULL::text AS resource_name, NULL::text AS pattern_type, NULL::text AS principal,
    NULL::text AS host, NULL::text AS operation, NULL::text AS permission_type, NULL::bigint AS expires_s,
    NULL::text AS owner
FROM acl_head_v1 AS h
UNION ALL SELECT transaction_timestamp(), 'config', name, value, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM config_v1
UNION ALL SELECT transaction_timestamp(), 'acl', id::text, NULL, NULL, NULL, NULL, NULL,
    resource_type, resource_name, pattern_type, principal, host, operation, permission_type,
    extract(epoch FROM expires_at)::bigint, owner
FROM acl_v2"""  # noqa: S608 - a part, declared above


@dataclass(frozen=True, slots=True)
class Head:
    """`hash_at` is the hash at the offset asked about: None if it has no record (trimmed, never written, or 0).

    `read_at` is the store's time.
    """

    cluster_id: str
    epochs: Epochs
    last_offset: int
    hash: bytes
    log_start_offset: int
    read_at: datetime
    hash_at: bytes | None = None

    @property
    def token(self) -> Token:
        return Token(self.epochs.last, self.last_offset)


@dataclass(frozen=True, slots=True)
class TableReading:
    head: Head
    configs: dict[str, str]
    acls: DataFrame


def read_head(spark: SparkSession, source: JdbcSource, at: int = 0) -> Head:
    """The head, and the hash of the record at this offset, in one statement. Raises PipelineError."""
    row = _query(spark, source, f"{_HEAD}{at:d}").withColumn("read_micros", sf.unix_micros("read_at")).first()
    if row is None:
        raise PipelineError("the store has no head; run `klamm migrate`")
    return Head(
        row["cluster_id"],
        noted_epochs(row["epochs"]),
        row["last_offset"],
        bytes(row["hash"]),
        row["log_start_offset"],
        moment(row["read_micros"]),
        None if row["hash_at"] is None else bytes(row["hash_at"]),
    )


def ranges(after: int, through: int, most: int) -> list[tuple[int, int]]:
    """(after, through] in up to `most` equal parts, each (after, through] and not smaller than necessary."""
    count = min(most, -(-(through - after) // ROWS_PER_RANGE)) or 1
    bounds = [after + (through - after) * number // count for number in range(count + 1)]
    return list(itertools.pairwise(bounds))


def stretches(after: int, through: int, most_ranges: int) -> list[tuple[int, int]]:
    size = most_ranges * ROWS_PER_RANGE
    return [(start, min(start + size, through)) for start in range(after, through, size)]


def read_records(spark: SparkSession, source: JdbcSource, parts: Sequence[tuple[int, int]]) -> DataFrame:
    """The records of these ranges, one partition and one connection each; every action reads them again."""
    properties = source.options()
    url = properties.pop("url")
    predicates = [f'"offset" > {after:d} AND "offset" <= {through:d}' for after, through in parts]
    frame = spark.read.jdbc(url, f"({_RECORDS}) AS records", predicates=predicates, properties=properties)
    return frame.select(RECORDS.fieldNames())


def read_changed_terms(spark: SparkSession, source: JdbcSource, after: int, through: int) -> DataFrame:
    """The records (`offset`) in (after, through] that changed the terms of ACLs which are still there."""
    is_asked = (sf.col("offset") > after) & (sf.col("offset") <= through)
    return _query(spark, source, _CHANGED_TERMS).where(is_asked)


def read_table(spark: SparkSession, source: JdbcSource) -> TableReading:
    """ACLs (ACLS), configuration and head at one moment, kept by Spark for as long as they are used."""
    rows = _read_at_once(spark, source)
    others = rows.where("what <> 'acl'").withColumn("read_micros", sf.unix_micros("read_at")).collect()
    heads = [row for row in others if row["what"] == "head"]
    if not heads:
        raise PipelineError("the store has no head; run `klamm migrate`")
    (row,) = heads
    read_at = moment(row["read_micros"])
    epochs = noted_epochs(row["key"])
    head = Head(row["value"], epochs, row["last_offset"], bytes(row["hash"]), row["log_start_offset"], read_at)
    configs = {row["key"]: row["value"] for row in others if row["what"] == "config"}
    acls = rows.where("what = 'acl'").withColumnRenamed("key", "id").select(ACLS.fieldNames())
    return TableReading(head, configs, acls)


def _read_at_once(spark: SparkSession, source: JdbcSource) -> DataFrame:
    for _ in range(_TABLE_READINGS):
        rows = checkpointed(_query(spark, source, _TABLE).repartition("key"))
        # INVARIANT: all rows are from one reading. Spark would read a lost executor's rows again, at another moment.
        read = rows.agg(sf.count("*"), sf.max("rows"), sf.count_distinct("read_at")).first()
        if read is None or read[1] is None or (read[0] == read[1] and read[2] == 1):
            return rows
    raise PipelineError("executors were lost each time the tables were read; run this again when the cluster is stable")


def tell_exported(spark: SparkSession, source: JdbcSource, exporter: str, through: Token) -> None:
    statement = f"SELECT tell_exported('{UUID(exporter)}', '{through.epoch}', {through.offset:d}) AS told"
    _query(spark, source, statement, read_only=False).collect()


def moment(micros: int) -> datetime:
    return _UNIX_EPOCH + timedelta(microseconds=micros)


def timestamp(when: datetime) -> Column:
    """The time as a literal that does not depend on the session's zone."""
    return sf.timestamp_micros(sf.lit((when - _UNIX_EPOCH) // timedelta(microseconds=1)))


def _query(spark: SparkSession, source: JdbcSource, statement: str, *, read_only: bool = True) -> DataFrame:
    options = {**source.options(read_only=read_only), "dbtable": f"({statement}) AS asked"}
    return spark.read.format("jdbc").options(**options).load()
