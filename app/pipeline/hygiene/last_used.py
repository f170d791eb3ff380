"""When each ACL last decided something, and each principal was last decided on, for readers that have no Spark.

One file of sorted lines of equal length, so that bisection finds a key in a file of any size.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.pipeline.history.snapshot import SavedResults

_KEY_DIGITS = 20
_TIME_DIGITS = 8


def save_last_used(results: SavedResults, offset: int, uses: DataFrame) -> None:
    """A line is the first digits of the SHA-256 of an ACL's id or of a principal, and the seconds since 1970, in hex.

    `uses` are USES of the part of the log that is examined.
    """
    time = sf.unix_seconds("last_time").alias("time")
    by_acl = uses.where(sf.col("acl_id").isNotNull()).select(sf.col("acl_id").alias("of"), time)
    last = by_acl.unionByName(uses.select(sf.col("principal").alias("of"), time)).groupBy("of").agg(sf.max("time"))
    line = sf.concat(
        sf.substring(sf.sha2("of", 256), 1, _KEY_DIGITS), sf.lpad(sf.hex("max(time)"), _TIME_DIGITS, "0")
    ).alias("value")
    last.select(line).coalesce(1).sortWithinPartitions("value").write.mode("overwrite").text(
        results.room(offset, "last-used")
    )
