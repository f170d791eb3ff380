"""Jobs of the pipeline, run in this process on a store and a home, and the rows that they leave."""

import argparse
import asyncio
import io
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from app.pipeline.context import JobContext
from app.pipeline.history.schemas import BINDING_FIELDS
from app.pipeline.spark.home_lock import file_lock
from app.pipeline.spark.jdbc import PASSWORD_VARIABLE
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home

Fields = tuple[str, ...]
"""An ACL as Spark has it: id and the seven fields in words."""


@dataclass(frozen=True)
class Run:
    """What a job's run came to."""

    status: int
    said: str
    counts: dict[str, int]


def rows(acls: DataFrame) -> list[Fields]:
    """The rows of schemas.ACLS, in order."""
    return sorted(tuple(row) for row in acls.select("id", *BINDING_FIELDS).collect())


def context_of(spark: SparkSession, home: Path) -> tuple[JobContext, io.StringIO]:
    """A context whose words are kept."""
    said = io.StringIO()
    console = Console("test", steps=io.StringIO(), results=said)
    return JobContext(spark, Home(str(home)), console, RunMetrics("test")), said


def jdbc_arguments(dsn: str) -> list[str]:
    """How a job is told of this database, but for the password."""
    url = urlsplit(dsn)
    return ["--jdbc-url", f"jdbc:postgresql://{url.hostname}:{url.port}{url.path}", "--jdbc-user", str(url.username)]


def password_of(dsn: str) -> dict[str, str]:
    """The variable with the password."""
    return {PASSWORD_VARIABLE: str(urlsplit(dsn).password)}


def run_job(spark: SparkSession, job: ModuleType, home: Path, dsn: str, *arguments: str) -> Run:
    """Run a job in this process. KLAMM_PIPELINE_JDBC_PASSWORD must be set."""
    parser = argparse.ArgumentParser()
    job.add_arguments(parser)
    parser.add_argument("--jdbc-url")
    parser.add_argument("--jdbc-user")
    context, said = context_of(spark, home)
    with file_lock(home, "test") as check_lock:
        context = replace(context, check_lock=check_lock)
        status = job.run(context, parser.parse_args([*jdbc_arguments(dsn), *arguments]))
    return Run(status, said.getvalue(), context.metrics.counts)


async def run_job_beside(spark: SparkSession, job: ModuleType, home: Path, dsn: str) -> Run:
    """The same in a thread, while the loop goes on."""
    return await asyncio.to_thread(run_job, spark, job, home, dsn)
