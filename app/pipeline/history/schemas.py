"""The columns of every table that jobs hand to each other; names are Kafka's, in words and not in codes.

Timestamps are UTC. Hosts of ACLs and of decisions are compared as `core.kafka.hosts` does.
"""

import re
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.types import StructField, StructType

INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
"""The largest `int` and `bigint`."""

_TEXTS = st.ArrayType(st.StringType(), containsNull=False)
_TYPES: Final = {
    each.simpleString(): each
    for each in (
        st.LongType(),
        st.BinaryType(),
        st.BooleanType(),
        st.DateType(),
        st.DoubleType(),
        st.IntegerType(),
        st.StringType(),
        st.TimestampType(),
        _TEXTS,
        st.ArrayType(_TEXTS, containsNull=False),
    )
}
_COLUMN = re.compile(r"(\w+) ([\w<>]+)( not null)?")


def columns(ddl: str) -> StructType:
    """The schema in DDL such as `id string not null, mask int`; without a JVM, which Spark's own parser needs."""
    found = (_COLUMN.fullmatch(each.strip()) for each in ddl.split(","))
    return StructType([StructField(each[1], _TYPES[each[2]], nullable=not each[3]) for each in found if each])


def rfc3339(seconds: str) -> Column:
    """A column of seconds since 1970 as `2026-11-30T18:00:00Z`; null for null."""
    return sf.date_format(sf.timestamp_seconds(seconds), "yyyy-MM-dd'T'HH:mm:ss'Z'")


BINDING_FIELDS = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
"""The seven fields of an ACL binding (KIP-140), in the order of the REST contract."""

_BINDING = ", ".join(f"{name} string not null" for name in BINDING_FIELDS)

_TERMS = "expires_s bigint, owner string"
TERMS = tuple(columns(_TERMS).fieldNames())
"""When an ACL ends, in seconds since 1970, and its owner; null: never, and none."""
NO_TERMS = (None,) * len(TERMS)

ACL_FIELDS = (*BINDING_FIELDS, *TERMS)
"""All of an ACL but its id."""

ACLS = columns(f"id string not null, {_BINDING}, {_TERMS}")
"""ACLs at one offset. `id` is the UUID as text."""

RECORDS = columns(
    f"""offset bigint not null, tx_last bigint not null, kind string not null, acl_id string,
    {_BINDING.replace(" not null", "")}, config_name string, config_value string,
    recorded_at timestamp not null, actor string not null, hash binary not null,
    {_TERMS}, comment string"""
)
"""Records of the change feed, as `acl_record_v2` shows them. Parquet also has `day` (of recorded_at)."""

DECISIONS = columns(
    """time timestamp not null, epoch string not null, offset bigint not null, principal string not null,
    host string not null, listener_name string, security_protocol string, request_type int, request_version int,
    client_id string, correlation_id int, caller string,
    operation string not null, resource_type string not null, resource_name string not null,
    result string not null, rule string not null, acl_id string, sampled double not null, groups array<string>"""
)
"""The decision log: one row for each action of authorize. `result` is ALLOWED or DENIED, `rule` one of SuperUser,
MatchingAcl, DefaultAllow, DefaultDeny, `acl_id` the deciding ACL (null unless MatchingAcl), `host` the client address
as Java prints it, `sampled` the share of requests that were logged (1.0: all), `groups` those that the principal was
in, in order (null: none were named). `security_protocol`, `request_version` and `correlation_id` are null in what an
earlier version has logged or ingested. Parquet also has `day`."""

FILES = columns(
    """path string not null, bytes bigint not null, modified bigint not null, stream string not null,
    position bigint not null, digest bigint not null"""
)
"""Files of the decision log that were read: their path, size and modification time (microseconds since 1970); which
stream they hold up to which line, and the digest of these lines."""

USES = columns(
    """principal string not null, host string not null, operation string not null, resource_type string not null,
    resource_name string not null, result string not null, rule string not null, acl_id string,
    epoch string not null, sampled double not null, decisions bigint not null, first_time timestamp not null,
    last_time timestamp not null, first_offset bigint not null, last_offset bigint not null, groups array<string>"""
)
"""Sums of decisions: one row for all that are alike, with their number, and their first and last time and offset.
Parquet also has `day`."""

RESOURCES = columns("resource_type string not null, resource_name string not null")
"""Resources that exist (or were asked for): TOPIC, GROUP, ...; no wildcards."""

MASKS = columns(
    """resource_type string not null, pattern_type string not null, pattern_name string not null,
    principal string not null, host string not null, allow_mask int not null, deny_mask int not null"""
)
"""All ACLs of one principal and host on one pattern. Bit n is the operation with Kafka's code n; implied operations and
ALL are folded in as `core.kafka.operations` says (ALLOW_MASK, DENY_MASK)."""

NODES = columns(
    """resource_type string not null, resource_name string not null, pattern_type string not null,
    pattern_name string not null"""
)
"""Which patterns (of those that ACLs have) cover which resource."""

_FOUND = f"""kind string not null, acl_id string not null, {_BINDING}, why string not null, by_acl_id string,
    covered bigint, used bigint"""

FINDINGS = columns(f"{_FOUND}, mend array<string> not null")
"""What hygiene found, one row an ACL at most; its kind is VOID, REDUNDANT, DETACHED, UNUSED or OVER_BROAD. `by_acl_id`
is the ACL that makes it so, `covered` and `used` are numbers of resources, `mend` the commands, in order."""

FOUND = columns(f"{_FOUND}, narrower array<array<string>>")
"""Findings without their commands. `narrower` are the fields of the ACLs that replace this one, which is removed; null
if no removal is proposed."""

FLIPS = columns(
    """principal string not null, resource_type string not null, resource_name string not null,
    operation string not null, before string not null, after string not null, decisions bigint not null,
    hosts array<string> not null, first_time timestamp not null, last_time timestamp not null,
    before_acl_id string, after_acl_id string"""
)
"""Decisions of the log that a change would turn, grouped. `hosts` holds at most ten of them."""

DAY, BATCH = StructField("day", st.DateType()), StructField("batch", st.LongType())
"""The partitions of records and decisions in Parquet: the day in UTC, and the number of the batch."""
