"""Where jobs keep what they make, on any file system that Spark can write: tables in Parquet, small facts in JSON.

Everything goes through Spark's own readers and writers, so `home` may be a folder or the URL of an object store.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from app import __version__
from app.pipeline.spark.errors import PipelineError

_NOT_THERE = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one cluster's pipeline; each room of it belongs to one job."""

    root: str

    def room(self, *names: str) -> str:
        return "/".join((self.root.rstrip("/"), *names))


def write_document(spark: SparkSession, path: str, document: Mapping[str, Any]) -> None:
    """Replaces what was there."""
    row = spark.createDataFrame([(json.dumps(document, sort_keys=True),)], "value string")
    row.coalesce(1).write.mode("overwrite").text(path)


def read_documents(spark: SparkSession, path: str) -> list[dict[str, Any]]:
    """Those in all folders of this path (with wildcards). Raises PipelineError for what is no JSON object."""
    frame = existing(spark, path, "text")
    if frame is None:
        return []
    documents = []
    for text, file in frame.select("value", "_metadata.file_path").collect():
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise PipelineError(
                f"`{file}` is damaged, it holds no whole JSON object; restore it, or remove its folder and run the job "
                "again that wrote it"
            )
        documents.append(document)
    return documents


def existing(spark: SparkSession, path: str, kind: str = "parquet") -> DataFrame | None:
    """None if nothing has been written there."""
    try:
        return spark.read.format(kind).load(path)
    except AnalysisException as fault:
        if fault.getCondition() in _NOT_THERE:
            return None
        raise


def versions(spark: SparkSession) -> dict[str, str]:
    return {"klamm_version": __version__, "spark_version": spark.version}
