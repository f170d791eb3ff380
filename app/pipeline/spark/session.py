"""The Spark session of a job: here, where spark-submit says, or behind Spark Connect."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.java import Java, find_java
from app.pipeline.spark.jdbc_driver import Driver, keep_driver
from app.pipeline.spark.jvm_output import JvmOutput

_RUNTIME: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Plans are turned into text at every run, which nobody reads, and long ones take all memory.
    "spark.sql.maxPlanStringLength": "20000",
    # Rows of a batch that core works on in a worker: enough to be fast, little enough for the longest names.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
"""What every job relies on, wherever it runs. Spark's ANSI mode (true) is among what it has by default."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How a session is made. Without master and remote Spark's own configuration decides, which means local[*].

    `settings` are of Spark's, and stand over all others. `quiet` keeps what the JVM says to itself (Spark's log), and
    tells `on_stage` how far it has come.
    """

    app_name: str
    master: str | None = None
    driver_memory: str | None = None
    shuffle_partitions: int | None = None
    remote: str | None = None
    java: Java | None = None
    driver: Driver | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    quiet: bool = False
    on_stage: Callable[[str], None] | None = None


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Whether spark-submit runs this process: then it has said already where and with what the job runs."""
    return "PYSPARK_GATEWAY_PORT" in environ


def java_wanted(options: SessionOptions, environ: Mapping[str, str]) -> bool:
    """Whether this process has to start a Java."""
    return options.remote is None and "SPARK_REMOTE" not in environ and not is_submitted(environ)


def spark_session(options: SessionOptions) -> SparkSession:
    """The session, made or found. Raises PipelineError where there is no Java that Spark runs on."""
    builder = SparkSession.builder.appName(options.app_name)
    for name, value in _RUNTIME.items():
        builder = builder.config(name, value)
    if options.shuffle_partitions is not None:
        builder = builder.config("spark.sql.shuffle.partitions", options.shuffle_partitions)
    for name, value in options.settings.items():
        builder = builder.config(name, value)
    if not java_wanted(options, os.environ):
        return (builder if options.remote is None else builder.remote(options.remote)).getOrCreate()
    java = options.java or find_java(os.environ)
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    # Spark's workers would take whatever `python3` is on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in _of_this_machine(options).items():
        builder = builder.config(name, value)
    return _kept(_begun(builder, options), options)


def _of_this_machine(options: SessionOptions) -> dict[str, str]:
    """What only whoever starts the JVM can say."""
    wanted = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(options.on_stage is not None).lower(),
        **(options.driver.options(os.environ) if options.driver is not None else {}),
    }
    if options.master is not None:
        wanted["spark.master"] = options.master
    if options.driver_memory is not None:
        wanted["spark.driver.memory"] = options.driver_memory
    if options.quiet:
        wanted["spark.log.level"] = "ERROR"
    return {name: value for name, value in wanted.items() if name not in options.settings}


def _begun(builder: SparkSession.Builder, options: SessionOptions) -> SparkSession:
    output = JvmOutput(options.on_stage)
    try:
        if not options.quiet:
            return builder.getOrCreate()
        with output.taken():
            return builder.getOrCreate()
    except PySparkException as fault:
        if "JAVA_GATEWAY_EXITED" not in str(fault):
            raise
        said = output.last_words() or "see above"
        raise PipelineError(f"Spark does not start: {said}") from None


def _kept(spark: SparkSession, options: SessionOptions) -> SparkSession:
    """The session, once the driver that it may have fetched has turned out to be the right one."""
    if options.driver is not None and options.driver.jar is None:
        try:
            keep_driver(spark.conf.get("spark.jars", "") or "", os.environ)
        except BaseException:
            spark.stop()
            raise
    return spark
