"""The columns of every table that jobs hand to each other; names are Kafka's, in words and not in codes.

Timestamps are UTC. Hosts of ACLs and of decisions are compared as `core.kafka.hosts` does.
"""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TEXT, _LONG, _INT, _TIME = StringType(), LongType(), IntegerType(), TimestampType()


def _must(name: str, kind: StringType | LongType | IntegerType | TimestampType | BooleanType) -> StructField:
    return StructField(name, kind, nullable=False)


BINDING_FIELDS = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)
"""The seven fields of an ACL binding (KIP-140), in the order of the REST contract."""

ACLS = StructType([_must("id", _TEXT), *(_must(name, _TEXT) for name in BINDING_FIELDS)])
"""ACLs at one offset. `id` is the UUID as text."""

RECORDS = StructType(
    [
        _must("offset", _LONG),
        _must("tx_last", _LONG),
        _must("kind", _TEXT),
        StructField("acl_id", _TEXT),
        *(StructField(name, _TEXT) for name in BINDING_FIELDS),
        StructField("config_name", _TEXT),
        StructField("config_value", _TEXT),
        _must("recorded_at", _TIME),
        _must("actor", _TEXT),
        StructField("hash", BinaryType(), nullable=False),
    ]
)
"""Records of the change feed, as `acl_record_v1` shows them. In Parquet `day` (of recorded_at) comes on top."""

DECISIONS = StructType(
    [
        _must("time", _TIME),
        _must("epoch", _TEXT),
        _must("offset", _LONG),
        _must("principal", _TEXT),
        _must("host", _TEXT),
        StructField("listener_name", _TEXT),
        StructField("request_type", _INT),
        StructField("client_id", _TEXT),
        StructField("caller", _TEXT),
        _must("operation", _TEXT),
        _must("resource_type", _TEXT),
        _must("resource_name", _TEXT),
        _must("result", _TEXT),
        _must("rule", _TEXT),
        StructField("acl_id", _TEXT),
        StructField("sampled", DoubleType(), nullable=False),
    ]
)
"""The decision log: one row an action of authorize. `result` is ALLOWED or DENIED, `rule` one of SuperUser,
MatchingAcl, DefaultAllow, DefaultDeny, `acl_id` the deciding ACL (null unless MatchingAcl), `host` the client address
as Java prints it, `sampled` the share of requests that were logged (1.0: all). `day` comes on top in Parquet."""

RESOURCES = StructType([_must("resource_type", _TEXT), _must("resource_name", _TEXT)])
"""Resources that exist (or were asked for): TOPIC, GROUP, ...; no wildcard among them."""

MASKS = StructType(
    [
        _must("resource_type", _TEXT),
        _must("pattern_type", _TEXT),
        _must("pattern_name", _TEXT),
        _must("principal", _TEXT),
        _must("host", _TEXT),
        _must("allow_mask", _INT),
        _must("deny_mask", _INT),
    ]
)
"""All ACLs of one principal and host on one pattern. Bit n is the operation with Kafka's code n; implied operations and
ALL are folded in as `core.kafka.operations` says (ALLOW_MASK, DENY_MASK)."""

NODES = StructType(
    [
        _must("resource_type", _TEXT),
        _must("resource_name", _TEXT),
        _must("pattern_type", _TEXT),
        _must("pattern_name", _TEXT),
    ]
)
"""Which patterns (of those that ACLs have) cover which resource."""

FINDINGS = StructType(
    [
        _must("kind", _TEXT),
        _must("acl_id", _TEXT),
        *(_must(name, _TEXT) for name in BINDING_FIELDS),
        _must("why", _TEXT),
        StructField("by_acl_id", _TEXT),
        StructField("covered", _LONG),
        StructField("used", _LONG),
        StructField("mend", ArrayType(_TEXT, containsNull=False), nullable=False),
    ]
)
"""What hygiene found, one row an ACL and kind (UNUSED, REDUNDANT, VOID, OVER_BROAD, DETACHED). `by_acl_id` is the ACL
that makes it so, `covered` and `used` are numbers of resources, `mend` the commands, in order."""

FOUND = StructType(
    [
        *FINDINGS.fields[:-1],
        StructField("narrower", ArrayType(ArrayType(_TEXT, containsNull=False), containsNull=False)),
    ]
)
"""Findings without their commands. `narrower` are the fields of the ACLs that take the place of an OVER_BROAD one; null
where they can't be written down."""

FLIPS = StructType(
    [
        _must("principal", _TEXT),
        _must("resource_type", _TEXT),
        _must("resource_name", _TEXT),
        _must("operation", _TEXT),
        _must("before", _TEXT),
        _must("after", _TEXT),
        _must("decisions", _LONG),
        StructField("hosts", ArrayType(_TEXT, containsNull=False), nullable=False),
        _must("first_time", _TIME),
        _must("last_time", _TIME),
        StructField("before_acl_id", _TEXT),
        StructField("after_acl_id", _TEXT),
    ]
)
"""Decisions of the log that a change would turn round, grouped. `hosts` holds at most ten of them."""

DAY = StructField("day", DateType())
"""Under which Parquet of records and decisions is partitioned (UTC)."""
