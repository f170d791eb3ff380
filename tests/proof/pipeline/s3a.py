"""What Spark needs to work on S3, and the environment that leads it to a server of a test."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.java import find_java
from app.pipeline.spark.local_cache import cache_folder
from tests.proof.pipeline.small_s3 import SmallS3

SECRET = "klamm-secret-of-the-store"
_PATIENCE_S = 300
_SDK = "2.35.4"
_PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    *(f"software.amazon.awssdk:{name}:{_SDK}" for name in ("apache-client", "netty-nio-client", "s3", "sts")),
    f"software.amazon.awssdk:s3-transfer-manager:{_SDK}",
)
# Spark has the first three, and the bundle is the SDK's parts for all of Amazon's services: 0.6 GB.
_EXCLUDED = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-common",
    "org.slf4j:slf4j-api",
    "software.amazon.awssdk:bundle",
)


def s3_variables(server: SmallS3) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "klamm-access-key",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }


@contextmanager
def small_jvm(settings: dict[str, str]) -> Iterator[SparkSession]:
    """As much of a session as the lock needs: a JVM with these settings, and Hadoop's configuration in it."""
    try:
        java = find_java(os.environ)
    except PipelineError as fault:
        pytest.skip(str(fault))
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    configuration = SparkConf(loadDefaults=False).setAll(
        [("spark.master", "local[1]"), ("spark.driver.memory", "300m"), *settings.items()]
    )
    gateway: Any = launch_gateway(configuration)  # type: ignore[no-untyped-call]
    try:
        # As Spark itself makes it of the environment.
        of_spark = gateway.jvm.org.apache.spark.deploy.SparkHadoopUtil.get()
        hadoop = of_spark.newConfiguration(gateway.jvm.org.apache.spark.SparkConf())
        session = SimpleNamespace(_jvm=gateway.jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop))
        yield cast("SparkSession", session)
    finally:
        gateway.shutdown()
        # Its JVM ends with its standard input.
        gateway.proc.stdin.close()
        gateway.proc.wait(_PATIENCE_S)


def s3a_jars() -> str:
    """The value of spark.jars, fetched once. Skips the test where they can't be fetched."""
    wanted = "\n".join((*_PACKAGES, *_EXCLUDED))
    try:
        folder = cache_folder(os.environ, f"s3a-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}")
    except PipelineError as fault:
        pytest.skip(str(fault))
    if not (folder / "whole").exists():
        packages, excludes = ",".join(_PACKAGES), ",".join(_EXCLUDED)
        settings = {
            "spark.jars.packages": packages,
            "spark.jars.excludes": excludes,
            "spark.jars.ivy": str(folder),
        }
        try:
            with small_jvm(settings):
                pass
        except Exception as fault:  # noqa: BLE001 - whatever PySpark makes of it
            pytest.skip(f"no S3: Spark can't fetch {_PACKAGES[0]} ({fault})")
        (folder / "whole").touch()
    return ",".join(sorted(map(str, (folder / "jars").glob("*.jar"))))
