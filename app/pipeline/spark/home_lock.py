"""One job at a time writes into a home: the one that holds a file lock in the folder, which ends with its process, or,
on any other file system, the one that has created an object there.
"""

import fcntl
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from app.pipeline.spark.errors import PipelineError

CheckLock = Callable[[], None]
"""Raises PipelineError if this run may not be the only one any more. Called before a manifest is written."""

_FILE, OBJECT = ".lock", "run.json"
_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""S3A's option by which a put has `If-None-Match: *`."""
_ABSENT = "java.io.FileNotFoundException"
# py4j passes on the errors of the socket to a JVM that has ended.
_UNASKED = (Py4JError, OSError)
_WRITTEN_S, _LOOK_S = 1.0, 0.02
_FIRST = re.compile(r"^: (?:[\w.$]+: )?(.*)", re.MULTILINE)


def unlocked() -> None:
    """The check of a job that writes nothing into its home."""


@contextmanager
def file_lock(folder: Path, job: str) -> Iterator[CheckLock]:
    """Creates the folder if need be. Raises PipelineError if another run holds the lock, or if there can't be one."""
    path = folder / _FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Spark ignores names that begin with a dot.
        file = path.open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise PipelineError(
            f"can't write into `{folder}` ({error.strerror}); name another --home, or let this user write there"
        ) from None
    # INVARIANT: no child inherits the descriptor (PEP 446), so the lock ends with this process, however that ends.
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(
                f"{_name_run(_holder(file))} is running in `{folder}`; wait for it, or stop it"
            ) from None
        except OSError as error:
            raise PipelineError(
                f"`{folder}` can't be locked ({error.strerror}); name a --home on a file system with locks (flock)"
            ) from None
        file.truncate(0)
        file.write(_describe_run(job))
        file.flush()
        for left in folder.glob("*/*/.spark-staging-*"):
            shutil.rmtree(left, ignore_errors=True)

        def check() -> None:
            try:
                is_there = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except OSError:
                is_there = False
            if not is_there:
                raise PipelineError(
                    f"`{folder}` was moved or deleted while this run wrote into it; find out where it is, and run "
                    "this again"
                )

        try:
            yield check
        finally:
            file.truncate(0)


def _holder(file: IO[str]) -> str:
    """What the holder has written, or is about to write."""
    end = time.monotonic() + _WRITTEN_S
    while True:
        file.seek(0)
        text = file.read()
        if text or time.monotonic() > end:
            return text
        time.sleep(_LOOK_S)


def home_lock(
    spark: SparkSession, home: str, job: str, note: Callable[[str], None]
) -> AbstractContextManager[CheckLock]:
    """The lock for a home of which only Spark's configuration says on what file system it is. As `object_lock`."""
    folder = _Object(spark, home).folder
    return object_lock(spark, home, job, note) if folder is None else file_lock(folder, job)


@contextmanager
def object_lock(
    spark: SparkSession, home: str, job: str, note: Callable[[str], None] = lambda _: None
) -> Iterator[CheckLock]:
    """Raises PipelineError if another run holds it, or left it behind, and if the store can't be reached.

    `note` is told if the object can't be deleted at the end.
    """
    lock = _Object(spark, f"{home.rstrip('/')}/{OBJECT}")
    ours = _describe_run(job)
    lock.create(ours)

    def check() -> None:
        if lock.read() != ours:
            raise PipelineError(
                f"`{lock.url}` was deleted or replaced while this run wrote into its home, so another run may be "
                "writing there; run this again when none is"
            )

    try:
        yield check
    finally:
        try:
            if lock.read() == ours:
                lock.delete()
        except PipelineError as fault:
            note(f"{fault}; then delete `{lock.url}`, or no other run can begin")


class _Object:
    """One small object, by Hadoop's client, which Spark uses too. `url` names it."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.url = url
        jvm: Any = spark._jvm  # noqa: SLF001 - the only way to Hadoop's files
        try:
            self._path = jvm.org.apache.hadoop.fs.Path(url)
            self._files = self._path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001 - as above
            self._scheme = self._files.getUri().getScheme()
        except _UNASKED as fault:
            raise self._refused(fault) from None

    @property
    def folder(self) -> Path | None:
        """The path, if it is on the driver's own file system."""
        return Path(self._files.makeQualified(self._path).toUri().getPath()) if self._scheme == "file" else None

    def create(self, content: str) -> None:
        """Raises PipelineError if it exists, and if the store can't be reached."""
        try:
            creating = self._files.createFile(self._path).recursive()
            if self._scheme == "s3a":
                # S3A would look first and write then; only its condition makes one step of both.
                creating = creating.overwrite(True).must(_CONDITIONAL, "true")  # noqa: FBT003 - Java's
            else:
                creating = creating.overwrite(False)  # noqa: FBT003 - Java's
            stream = creating.build()
            stream.write(content.encode())
            stream.close()
        except _UNASKED as fault:
            found = self.read()
            if found is None:
                raise self._refused(fault) from None
            # An attempt whose answer was lost may have written it.
            if found != content:
                raise PipelineError(
                    f"{_name_run(found)} holds `{self.url}`; wait for it. If that run has been killed, delete the "
                    "object, and run this again"
                ) from None

    def read(self) -> str | None:
        """None if it does not exist. Raises PipelineError if the store can't be reached."""
        try:
            stream = self._files.open(self._path)
            try:
                return bytes(stream.readAllBytes()).decode(errors="replace")
            finally:
                stream.close()
        except _UNASKED as fault:
            if isinstance(fault, Py4JJavaError) and fault.java_exception.getClass().getName() == _ABSENT:
                return None
            raise self._refused(fault) from None

    def delete(self) -> None:
        try:
            self._files.delete(self._path, False)  # noqa: FBT003 - Java's
        except _UNASKED as fault:
            raise self._refused(fault) from None

    def _refused(self, fault: Py4JError | OSError) -> PipelineError:
        text = str(fault)
        first = _FIRST.search(text)
        why = (first[1] if first else text.partition("\n")[0]).strip()
        return PipelineError(
            f"can't access `{self.url}`: {why}; check its address and the credentials in the environment (for s3a:// "
            "AWS_ENDPOINT_URL and AWS_REGION too, and that hadoop-aws is installed: docs/pipeline.md, Object store)"
        )


def _describe_run(job: str) -> str:
    """No two runs have the same text."""
    run = {
        "job": job,
        "process": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds"),
        "id": str(uuid4()),
    }
    return json.dumps(run) + "\n"


def _name_run(text: str) -> str:
    try:
        run = json.loads(text)
        return f"another {run['job']} (process {run['process']} on {run['host']}, since {run['since']})"
    except (ValueError, TypeError, KeyError):
        # Another version wrote it, or its writing was broken off.
        return "another job"
