"""Hosts of ACLs as keys that nest like the addresses they mean (KIP-1276).

A key is the IP version and the leading bits in text: `10.0.0.0/8` is `400001010`, `*` is the empty key. One key is a
prefix of another if and only if its host covers the other's, so containment is a comparison of texts. An exact IPv6
address has its own text (which may hold a zone) behind its bits. A host that is no client's has the key NOBODY.
"""

from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from app.core.codes import WILDCARD
from app.core.errors import InvalidRequestException
from app.core.hosts import ClientAddress, parse_address, parse_cidr

NOBODY = "!"
"""The key of every host that matches no client: no valid range, or no address in Java's form."""

END = "/"
"""The end of an exact address's key. No address or zone holds a slash, so no such key begins another's."""

_VERSION_4 = 4
_BITS = {4: 32, 6: 128}
_CACHED = 65_536


def client_key(address: ClientAddress) -> str:
    """The key that begins with the keys of all hosts that match this client."""
    bits = f"{address.version}{address.value:0{_BITS[address.version]}b}"
    # An exact IPv4 host and its /32 mean the same clients; an IPv6 /128 also means those with a zone.
    return bits if address.version == _VERSION_4 else f"{bits}{END}{address.text}{END}"


@lru_cache(maxsize=_CACHED)
def host_key(host: str) -> str:
    """The key of an ACL's host."""
    if host == WILDCARD:
        return ""
    try:
        if "/" not in host:
            address = parse_address(host)
            return client_key(address) if address.text == host else NOBODY
        cidr = parse_cidr(host)
    except InvalidRequestException:
        return NOBODY
    return f"{cidr.version}{cidr.network:0{_BITS[cidr.version]}b}"[: 1 + cidr.prefix_length]


def with_host_keys(frame: DataFrame) -> DataFrame:
    """The frame with `host_key` for its column `host`, as core reads it."""
    schema = StructType([*frame.schema.fields, StructField("host_key", StringType(), nullable=False)])
    everywhere = frame.where(sf.col("host") == WILDCARD).withColumn("host_key", sf.lit(""))
    return everywhere.unionByName(frame.where(sf.col("host") != WILDCARD).mapInArrow(_add_keys, schema))


def range_lengths(keyed: DataFrame) -> DataFrame:
    """By IP version (`host_version`) the lengths of the keys of all ranges that occur: one short row each."""
    key = sf.col("host_key")
    ranges = keyed.where((key != "") & (key != NOBODY) & ~key.endswith(END))
    version = sf.substring(key, 1, 1).alias("host_version")
    return ranges.groupBy(version).agg(sf.collect_set(sf.length(key)).alias("range_lengths"))


def with_covering_keys(frame: DataFrame, lengths: DataFrame) -> DataFrame:
    """Each row once for each key that may cover its `host_key` (`covering_key`): itself, `*`, and ranges."""
    key = sf.col("host_key")
    specific = frame.where(key != "").withColumn("host_version", sf.substring(key, 1, 1))
    specific = specific.join(sf.broadcast(lengths), "host_version", "left")
    own = sf.coalesce(sf.col("range_lengths"), sf.array().cast("array<int>"))
    wider = sf.transform(sf.filter(own, lambda n: n < sf.length(key)), lambda n: _leading(key, n))
    candidates = sf.concat(sf.array(sf.lit(""), key), wider)
    specific = specific.withColumn("covering_key", sf.explode(candidates)).drop("host_version", "range_lengths")
    return frame.where(key == "").withColumn("covering_key", sf.lit("")).unionByName(specific)


def _leading(text: Column, length: Column) -> Column:
    return sf.substring(text, sf.lit(1), length)


def _add_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        hosts = batch.column(batch.schema.get_field_index("host")).to_pylist()
        keys = pa.array(map(host_key, hosts), pa.string())
        yield pa.RecordBatch.from_arrays([*batch.columns, keys], names=[*batch.schema.names, "host_key"])
