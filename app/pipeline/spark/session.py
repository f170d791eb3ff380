"""The Spark session of a job: here, on a cluster, or where spark-submit says."""

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.java import Java, find_java
from app.pipeline.spark.jdbc_driver import Driver, keep_driver

# What every job relies on, wherever it runs, besides Spark's ANSI mode, which is on by default.
_RUNTIME: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Spark turns plans into text at every run, and long ones take all memory.
    "spark.sql.maxPlanStringLength": "20000",
    # At each use of a column Spark looks up and keeps the caller's line, for messages that a job doesn't show.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    # Rows that core works on at once in a worker: fast, and bounded even with the longest names.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}

# What is given for these is added to PostgreSQL's driver.
_LISTS = ("spark.jars", "spark.jars.packages", "spark.jars.excludes")
_KEPT_LINES = 200
_CLASS = re.compile(r'^(Exception in thread "[^"]*" )?((?:[\w$]+\.)+[\w$]*(?:Exception|Error): )?')
# An update of Spark's progress bar, or the blanks that erase it.
_BAR = re.compile(r"\r?\[Stage (\d+):[=> ]*\((\d+) \+ \d+\) / (\d+)\][^\r\n]*|\r +\r")
_MEANINGFUL = re.compile(r"(Error|Exception|[Uu]nresolved|[Ii]nvalid|[Uu]nrecognized|not found|refused)")
_STDOUT, _STDERR = 1, 2
_LONGEST_LINE = 10_000
_READ_S = 2.0


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Without a master, Spark's own configuration decides, by default local[*].

    `settings` override all others. `quiet` hides Spark's log, and reports its stages to `on_stage`.
    """

    app_name: str
    master: str | None = None
    driver_memory: str | None = None
    shuffle_partitions: int | None = None
    java: Java | None = None
    driver: Driver | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    quiet: bool = False
    on_stage: Callable[[str], None] | None = None


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Whether spark-submit runs this process, and has decided where and with what the job runs."""
    return "PYSPARK_GATEWAY_PORT" in environ


def spark_session(options: SessionOptions) -> SparkSession:
    builder = SparkSession.builder.appName(options.app_name).config(map=dict(_RUNTIME))
    if options.shuffle_partitions is not None:
        builder = builder.config("spark.sql.shuffle.partitions", options.shuffle_partitions)
    builder = builder.config(map=dict(options.settings))
    if is_submitted(os.environ):
        return builder.getOrCreate()
    java = options.java or find_java(os.environ)
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = _python_of_workers(options, os.environ)
    spark = _started(builder.config(map=dict(_of_this_machine(options))), options)
    if options.driver is not None and options.driver.jar is None:
        try:
            keep_driver(spark.conf.get("spark.jars", "") or "", os.environ)
        except BaseException:
            spark.stop()
            raise
    return spark


def is_of_this_machine(master: str | None) -> bool:
    """Whether executors run on this machine, with its Python and its files, as they do with Spark's default master."""
    return master is None or (master.startswith("local") and not master.startswith("local-cluster"))


def _python_of_workers(options: SessionOptions, environ: Mapping[str, str]) -> str:
    # Spark itself would take any `python3` on PATH, and the setting only under spark-submit.
    named = options.settings.get("spark.pyspark.python") or environ.get("PYSPARK_PYTHON")
    # Other machines may not have this path, and Spark refuses a Python of another minor version.
    of_others = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return named or (sys.executable if is_of_this_machine(options.master) else of_others)


def _of_this_machine(options: SessionOptions) -> dict[str, str]:
    """Settings that only count where the JVM is started."""
    wanted = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(options.on_stage is not None).lower(),
        **(options.driver.options(os.environ) if options.driver is not None else {}),
        "spark.master": options.master,
        "spark.driver.memory": options.driver_memory,
        "spark.log.level": "ERROR" if options.quiet else None,
    }
    given = options.settings
    return {
        name: f"{given[name]},{value}" if name in given else value
        for name, value in wanted.items()
        if value is not None and (name not in given or name in _LISTS)
    }


def _started(builder: SparkSession.Builder, options: SessionOptions) -> SparkSession:
    output = _JvmOutput(options.on_stage)
    try:
        with output.taken() if options.quiet else _instead_of(_STDERR, (_STDOUT,)):
            return builder.getOrCreate()
    except PySparkException as fault:
        if "JAVA_GATEWAY_EXITED" not in str(fault):
            raise
        raise PipelineError(f"Spark does not start: {output.last_words() or 'see above'}") from None


@contextmanager
def _instead_of(descriptor: int, ours: Sequence[int]) -> Iterator[None]:
    """Processes started inside write to this descriptor what they would write to `ours`."""
    # INVARIANT: a job's standard output holds its results alone. Java warns there, too.
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(each) for each in ours]
    for each in ours:
        os.dup2(descriptor, each)
    try:
        yield
    finally:
        for each, before in zip(ours, kept, strict=True):
            os.dup2(before, each)
            os.close(before)


class _JvmOutput:
    """What a JVM prints, kept in case it fails to start. Its progress bar goes to `on_stage`."""

    def __init__(self, on_stage: Callable[[str], None] | None = None) -> None:
        self._on_stage = on_stage
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._reader: threading.Thread | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Processes started inside write to a pipe."""
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(reading,), name="klamm-jvm", daemon=True)
        self._reader.start()
        try:
            with _instead_of(writing, (_STDOUT, _STDERR)):
                yield
        finally:
            os.close(writing)

    def last_words(self) -> str:
        """The line that most likely says why the JVM did not start, or nothing. Call it after its end."""
        if self._reader is not None:
            self._reader.join(_READ_S)
        lines = [line.strip() for line in self._lines if line.strip() and not line.lstrip().startswith("at ")]
        reason = next((line for line in lines if _MEANINGFUL.search(line)), lines[-1] if lines else "")
        return _CLASS.sub("", reason)

    def _read(self, reading: int) -> None:
        rest = ""
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65_536):
                text = rest + chunk.decode(errors="replace")
                bars = [match for match in _BAR.finditer(text) if match[1]]
                if bars and self._on_stage is not None:
                    self._on_stage(f"stage {bars[-1][1]}: {bars[-1][2]} of {bars[-1][3]} tasks")
                *lines, rest = _BAR.sub("", text).split("\n")
                # The bar has no line end, so the rest needs a bound.
                rest = rest[-_LONGEST_LINE:]
                self._lines.extend(lines)
        self._lines.append(rest)
