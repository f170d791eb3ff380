"""Rows that are computed once and kept by Spark's executors, as computing them again could give other rows."""

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from app.pipeline.spark.shipping import ships


def checkpointed(frame: DataFrame) -> DataFrame:
    """On a cluster two executors keep each part, so that one of them may die."""
    return frame.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK_2 if ships(frame.sparkSession) else None)
