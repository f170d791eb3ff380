"""Rows that are worked out once and kept by Spark's executors, where working them out again could give others."""

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from app.pipeline.spark.shipping import ships


def checkpointed(frame: DataFrame) -> DataFrame:
    """On a cluster two executors keep each part, so that one of them may die."""
    return frame.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK_2 if ships(frame.sparkSession) else None)
