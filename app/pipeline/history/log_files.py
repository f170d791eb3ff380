"""The closed files of the decision log, known by what they hold and not by where they are.

A file's lines are one stream: it is named by its first decision, and `position` is its last whole line. So a file that
was moved, copied or compressed is recognised, and if one was incomplete when it was read, the rest is taken later.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from app.pipeline.history.schemas import BATCH, FILES
from app.pipeline.spark.checkpoint import checkpointed
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.faults import text_of
from app.pipeline.spark.storage import Home, existing

# Open files begin with `_` and are left alone.
_NAMES = "{decisions-*.jsonl,decisions-*.jsonl.gz}"
_FILE = re.compile(r"(?:file:|[a-z0-9]+://)[^\s'\"]*decisions-[^\s'\"]*\.jsonl(?:\.gz)?")
_GONE = ("FILE_NOT_EXIST", "FileNotFoundException")
_CLOSED_TO_US = ("AccessControlException", "AccessDenied", "Permission denied")
_UNREADABLE = ("FAILED_READ_FILE", *_GONE, *_CLOSED_TO_US, "EOFException", "ZipException", "not in gzip format")

_STORED = StructType([*FILES.fields, BATCH])

NOTHING = -1


class LogFile(NamedTuple):
    """`modified` is in microseconds since 1970."""

    path: str
    bytes: int
    modified: int


class Content(NamedTuple):
    """What a file holds: its stream, and the digest of its lines up to `position`."""

    stream: str
    position: int
    digest: int


class _Part(NamedTuple):
    content: Content
    stem: str


def files_in(spark: SparkSession, kind: str, folders: Sequence[str], **options: str) -> DataFrame:
    reader = spark.read.format(kind).option("pathGlobFilter", _NAMES).option("recursiveFileLookup", "true")
    return reader.options(**options).load(list(folders))


def new_files(spark: SparkSession, folders: Sequence[str], known: DataFrame) -> list[LogFile]:
    """Those that nobody has looked at yet, the oldest first. Raises PipelineError if one can't be seen."""
    facts = ["path", "bytes", "modified"]
    try:
        listed = files_in(spark, "binaryFile", folders).select(
            sf.col("_metadata.file_path").alias("path"),
            sf.col("_metadata.file_size").alias("bytes"),
            sf.unix_micros("_metadata.file_modification_time").alias("modified"),
        )
        there = listed.where("bytes > 0").distinct()
        rows = there.join(known.select(facts), facts, "left_anti").collect()
    except (PySparkException, Py4JError) as fault:
        raise explained(spark, folders, fault) from fault
    return sorted((LogFile(*row) for row in rows), key=lambda file: (file.modified, file.path))


def explained(spark: SparkSession, folders: Sequence[str], fault: PySparkException | Py4JError) -> Exception:
    """The fault itself, unless it comes from reading the log."""
    text = unquote(text_of(fault))
    if isinstance(fault, AnalysisException) and fault.getCondition() == "PATH_NOT_FOUND":
        missing = (fault.getMessageParameters() or {}).get("path", folders[0])
        return PipelineError(f"there is no folder `{missing}`; name the decision log's folder with --decisions")
    if not any(each in text for each in _UNREADABLE):
        return fault
    is_gone, is_closed = (any(each in text for each in signs) for signs in (_GONE, _CLOSED_TO_US))
    path = next((unquote(each) for each in _listed(spark, folders) if unquote(each) in text), None)
    if path is not None and (is_gone or is_closed):
        # Java can't tell a missing file from one in a folder that it may not open.
        gone = "the file does not exist on their machine, or their user may not open its folder"
        why = "their user has no permission to" if is_closed else gone
        return PipelineError(
            f"the driver finds `{path}`, but Spark's executors can't read it: {why}. Give them the folder at the "
            "same path and the right to read it, or keep the log in an object store. Nothing of it was marked as read"
        )
    named = path or (match[0] if (match := _FILE.search(text)) else "a file of the decision log")
    return PipelineError(
        f"`{named}` can't be read ({'it has disappeared' if is_gone else 'it is torn'}); replace it with an intact "
        "copy and run this again, or skip it with --skip-unreadable-files. What was ingested before is kept"
    )


def _listed(spark: SparkSession, folders: Sequence[str]) -> list[str]:
    try:
        return sorted(files_in(spark, "binaryFile", folders).inputFiles(), key=len, reverse=True)
    except (PySparkException, Py4JError):
        return []


def known_files(spark: SparkSession, home: Home, batches: Mapping[int, Mapping[str, object]]) -> DataFrame:
    """FILES of all finished batches. Raises PipelineError if some are missing: lines would be taken twice."""
    wanted = sum(int(str(manifest["files"])) for manifest in batches.values())
    if not wanted:
        return spark.createDataFrame([], FILES)
    path = home.room("decisions", "files")
    rows = existing(spark, path, schema=_STORED)
    if rows is not None:
        # Each batch is written into the same folder, which drops Spark's cache: all would be read again for each batch.
        rows = checkpointed(rows.where(sf.col("batch").isin(list(batches))).drop("batch"))
    if rows is None or rows.count() != wanted:
        raise PipelineError(
            f"`{path}` is incomplete, so it is unknown which files of the decision log were read: restore it, or "
            f"move `{home.room('decisions')}` away to ingest all files again"
        )
    return rows


@dataclass(slots=True)
class Taken:
    """What has been taken of each stream, in earlier runs (`known`: FILES) and in this one."""

    known: DataFrame
    _streams: dict[str, list[_Part]] = field(default_factory=dict)

    def look_up(self, streams: Iterable[str]) -> None:
        """Call this with the streams of a batch, as one query is made for all of them."""
        fresh = [stream for stream in streams if stream not in self._streams]
        self._streams |= {stream: [] for stream in fresh}
        rows = self.known.where(sf.col("stream").isin(fresh)).select("stream", "position", "digest", "path").distinct()
        for stream, position, digest, path in rows.collect() if fresh else ():
            self._streams[stream].append(_Part(Content(stream, position, digest), _stem_of(path)))

    def take(self, file: LogFile, content: Content, digest_at: Callable[[int], int | None]) -> int:
        """The line after which to take this file; NOTHING if all of it is known.

        `digest_at` returns the digest of its lines up to one of them.
        """
        there = self._streams[content.stream]
        part = _Part(content, _stem_of(file.path))
        after = _after(there, part, digest_at)
        there.append(part)
        return after


def _after(there: list[_Part], part: _Part, digest_at: Callable[[int], int | None]) -> int:
    content, stem = part
    if any(each.content == content for each in there):
        return NOTHING
    # Two streams that begin with the same decision are told apart by all their lines, and a shorter one by its name.
    if any(each.content.position > content.position and each.stem == stem for each in there):
        return NOTHING
    shorter = sorted({each.content for each in there if each.content.position < content.position}, reverse=True)
    return next((each.position for each in shorter if digest_at(each.position) == each.digest), 0)


def _stem_of(path: str) -> str:
    """The file's name, whether it is compressed or not."""
    return unquote(path).rpartition("/")[2].removesuffix(".gz").removesuffix(".jsonl")
