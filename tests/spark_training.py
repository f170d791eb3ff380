"""Some of what jobs do, so that the JVM that runs it has loaded the classes that jobs need (quick_spark)."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.pipeline.spark.java import find_java
from app.pipeline.spark.jdbc_driver import find_driver
from app.pipeline.spark.session import SessionOptions, spark_session


def main() -> None:
    options = SessionOptions(
        app_name="klamm-tests",
        master="local[2]",
        driver_memory="1g",
        shuffle_partitions=2,
        java=find_java(os.environ),
        driver=find_driver(None, os.environ),
        settings={},
    )
    spark = spark_session(options)
    with tempfile.TemporaryDirectory() as folder:
        _work(spark, folder)
    spark.stop()


def _work(spark: SparkSession, folder: str) -> None:
    rows = spark.range(1_000).selectExpr("id", "id % 7 AS part", "cast(id AS string) AS name", "array(id) AS ids")
    rows.write.partitionBy("part").parquet(f"{folder}/parquet")
    rows.select("id", "name").write.csv(f"{folder}/csv")
    rows.select("id", "name").write.json(f"{folder}/json")
    read = spark.read.parquet(f"{folder}/parquet")
    spark.read.schema("id long, name string").json(f"{folder}/json").count()
    spark.read.schema("id long, name string").csv(f"{folder}/csv").collect()
    ranked = read.withColumn("rank", F.row_number().over(Window.partitionBy("part").orderBy("id")))
    counted = read.groupBy("part").agg(F.count("*").alias("count"), F.collect_set("name").alias("names"))
    joined = ranked.join(F.broadcast(counted), "part").join(read.select("id", F.explode("ids")), "id", "left")
    joined.unionByName(joined).distinct().orderBy("id").limit(10).collect()
    read.select("id", "name").mapInArrow(_same, "id long, name string").repartition(2, "id").cache().count()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    main()
