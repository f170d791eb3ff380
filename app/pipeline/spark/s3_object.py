"""One small object of an S3 store, read and written by conditional requests, through the client that Spark uses too."""

import re
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from app.pipeline.spark.errors import PipelineError

# An object may be written between the two requests of a read.
_ATTEMPTS = 5
_ABSENT = "java.io.FileNotFoundException"
_CHANGED = ("org.apache.hadoop.fs.s3a.RemoteFileChangedException", "org.apache.hadoop.fs.FileAlreadyExistsException")
# py4j passes on the errors of the socket to a JVM that has ended.
_UNASKED = (Py4JError, OSError)
_FIRST = re.compile(r"^: (?:[\w.$]+: )?(.*)", re.MULTILINE)


class S3Object:
    """`url` is s3a://BUCKET/NAME."""

    def __init__(self, jvm: Any, configuration: Any, url: str) -> None:  # noqa: ANN401 - py4j's have no types
        self.url = url
        try:
            self._path = jvm.org.apache.hadoop.fs.Path(url)
            self._files = self._path.getFileSystem(configuration)
        except _UNASKED as fault:
            raise self._refused(fault) from None

    @classmethod
    def of(cls, spark: SparkSession, url: str) -> "S3Object":
        return cls(spark._jvm, spark._jsc.hadoopConfiguration(), url)  # noqa: SLF001 - the only way to Hadoop's files

    def read(self) -> tuple[bytes, str] | None:
        """Its content and its tag, which belong together; None if it does not exist. Raises PipelineError."""
        for _ in range(_ATTEMPTS):
            try:
                status = self._files.getFileStatus(self._path)
                stream = self._files.openFile(self._path).withFileStatus(status).build().get()
                try:
                    return bytes(stream.readAllBytes()), str(status.getEtag())
                finally:
                    stream.close()
            except _UNASKED as fault:
                if _kind(fault) == _ABSENT:
                    return None
                if not _has_changed(fault):
                    raise self._refused(fault) from None
        raise PipelineError(f"`{self.url}` keeps changing; find out what else writes there")

    def write(self, content: bytes, tag: str | None) -> bool:
        """Whether it was written: only over the object with this tag, or, for None, if there is none.

        Raises PipelineError if the store can't be reached; it may have been written nevertheless.
        """
        try:
            creating = self._files.createFile(self._path).overwrite(True)  # noqa: FBT003 - Java's
            if tag is None:
                creating = creating.must("fs.option.create.conditional.overwrite", "true")
            else:
                creating = creating.must("fs.option.create.conditional.overwrite.etag", tag)
            stream = creating.build()
            stream.write(content)
            stream.close()
        except _UNASKED as fault:
            if _has_changed(fault):
                return False
            raise self._refused(fault) from None
        return True

    def _refused(self, fault: Py4JError | OSError) -> PipelineError:
        text = str(fault)
        first = _FIRST.search(text)
        why = (first[1] if first else text.partition("\n")[0]).strip()
        return PipelineError(
            f"can't access `{self.url}`: {why}; check AWS_ENDPOINT_URL, AWS_REGION and the credentials in the "
            "environment, and that hadoop-aws is installed (docs/pipeline.md, Object store)"
        )


def _has_changed(fault: Py4JError | OSError) -> bool:
    # From one of S3A's two readers it is an IOException like any other.
    return _kind(fault) in _CHANGED or any(f"Status Code: {code}" in str(fault) for code in (409, 412))


def _kind(fault: Py4JError | OSError) -> str:
    """The Java class, if the fault comes from there."""
    return str(fault.java_exception.getClass().getName()) if isinstance(fault, Py4JJavaError) else ""
