"""Where jobs keep what they make, on any file system that Spark can write: tables in Parquet, small facts in JSON.

Everything goes through Spark's own readers and writers, so `home` may be a folder or the URL of an object store.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from app import __version__
from app.pipeline.spark.errors import PipelineError

_NOT_THERE = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one cluster's pipeline; each room of it belongs to one job."""

    root: str

    def room(self, *names: str) -> str:
        return "/".join((self.root.rstrip("/"), *names))


class _Listings:
    """The documents found under each path with wildcards, by the end of their own path."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, dict[str, Any]]] | None = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        before, self._found = self._found, {}
        try:
            yield
        finally:
            self._found = before

    def get(self, pattern: str) -> dict[str, dict[str, Any]] | None:
        return None if self._found is None else self._found.get(pattern)

    def put(self, pattern: str, documents: dict[str, dict[str, Any]]) -> None:
        if self._found is not None:
            self._found[pattern] = documents

    def change(self, path: str, document: dict[str, Any] | None) -> None:
        for pattern, documents in (self._found or {}).items():
            beginning, _, end = pattern.partition("*")
            if path == pattern or ("*" in pattern and path.startswith(beginning) and path.endswith(end)):
                documents.pop(_end_of(path, pattern), None)
                if document is not None:
                    documents[_end_of(path, pattern)] = document


_listings = _Listings()


def listed_once() -> AbstractContextManager[None]:
    """Inside, documents of a path are listed once; what this process writes and removes later is tracked."""
    return _listings.kept()


def _end_of(path: str, pattern: str) -> str:
    """The last parts of a path, which tell a pattern's paths apart however they begin."""
    parts = pattern.count("/", pattern.find("*")) + 1
    return "/".join(path.rstrip("/").split("/")[-parts:])


def write_document(spark: SparkSession, path: str, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, sort_keys=True)
    row = spark.createDataFrame([(text,)], "value string")
    row.coalesce(1).write.mode("overwrite").text(path)
    _listings.change(path, json.loads(text))


def read_documents(spark: SparkSession, path: str) -> list[dict[str, Any]]:
    """The documents in all folders of this path (with wildcards). Raises PipelineError for what is no JSON object."""
    found = _listings.get(path)
    if found is None:
        found = _documents(spark, path)
        _listings.put(path, found)
    return list(found.values())


def _documents(spark: SparkSession, path: str) -> dict[str, dict[str, Any]]:
    frame = existing(spark, path, "text")
    documents: dict[str, dict[str, Any]] = {}
    for text, file in () if frame is None else frame.select("value", "_metadata.file_path").collect():
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise PipelineError(
                f"`{file}` is damaged: it is not a complete JSON object; restore it, or remove its folder and rerun "
                "the job that wrote it"
            )
        documents[_end_of(unquote(file).rpartition("/")[0], path)] = document
    return documents


def existing(
    spark: SparkSession, path: str, kind: str = "parquet", schema: StructType | None = None
) -> DataFrame | None:
    """None if it does not exist, or has no files."""
    reader = spark.read.format(kind)
    try:
        found = reader.load(path)
        return found if schema is None else reader.schema(schema).load(path)
    except AnalysisException as fault:
        if fault.getCondition() in _NOT_THERE:
            return None
        raise


def remove(spark: SparkSession, path: str) -> None:
    """Removes this folder's content. In an object store an empty object may be left, as Spark only overwrites."""
    _listings.change(path, None)
    folder = Path(path.removeprefix("file://"))
    if folder.is_dir():
        shutil.rmtree(folder)
    elif existing(spark, path, "text") is not None:
        spark.createDataFrame([], "value string").write.mode("overwrite").text(path)


def versions(spark: SparkSession) -> dict[str, str]:
    return {"klamm_version": __version__, "spark_version": spark.version}
