"""What tests of object stores need, fetched once and kept in the cache folder: moto's server, and Spark's way to S3."""

import hashlib
import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.java import find_java
from app.pipeline.spark.local_cache import cache_folder

HERE = Path(__file__).parent
SECRET = "klamm-secret-of-the-store"

_LOCK = HERE / "requirements.lock"
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
_FETCH_S = 600
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class S3:
    """`environ` is what its clients need."""

    port: int
    environ: dict[str, str]
    process: subprocess.Popen[str]

    def bucket(self) -> str:
        """The name of a new one."""
        name = f"klamm-{os.getpid()}-{next(_numbers)}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("PUT", f"/{name}")
        assert connection.getresponse().status == http.HTTPStatus.OK
        return name

    @contextmanager
    def away(self) -> Iterator[None]:
        """Meanwhile no request is answered."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


@contextmanager
def s3_server() -> Iterator[S3]:
    """Skips the test where it can't be fetched."""
    command = [sys.executable, str(HERE / "serve.py")]
    environ = {**os.environ, "PYTHONPATH": str(_moto())}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            of_clients = {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "klamm-access-key",
                "AWS_SECRET_ACCESS_KEY": SECRET,
            }
            yield S3(port, of_clients, process)
        finally:
            process.kill()


def s3a_jars() -> str:
    """The value of spark.jars. Skips the test where they can't be fetched."""
    wanted = "\n".join((*_PACKAGES, *_EXCLUDED))
    folder = _cache(f"s3a-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}")
    if not (folder / "whole").exists():
        settings = {
            "spark.jars.packages": ",".join(_PACKAGES),
            "spark.jars.excludes": ",".join(_EXCLUDED),
            "spark.jars.ivy": str(folder),
        }
        try:
            with gateway(settings):
                pass
        except Exception as fault:  # noqa: BLE001 - whatever PySpark makes of it
            pytest.skip(f"no S3: Spark can't fetch {_PACKAGES[0]} ({fault})")
        (folder / "whole").touch()
    return ",".join(sorted(map(str, (folder / "jars").glob("*.jar"))))


@contextmanager
def gateway(settings: dict[str, str]) -> Iterator[Any]:
    """A JVM with Spark's classes and these settings, without a session."""
    try:
        java = find_java(os.environ)
    except PipelineError as fault:
        pytest.skip(str(fault))
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    configuration = SparkConf(loadDefaults=False).setAll(
        [("spark.master", "local[1]"), ("spark.driver.memory", "300m"), *settings.items()]
    )
    made: Any = launch_gateway(configuration)  # type: ignore[no-untyped-call]
    try:
        yield made
    finally:
        made.shutdown()
        # Its JVM ends with its standard input.
        made.proc.stdin.close()
        made.proc.wait(_FETCH_S)


def _moto() -> Path:
    folder = _cache(f"moto-{hashlib.sha256(_LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]}")
    if not (folder / "whole").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "--only-binary", ":all:", "--target", str(folder), "--requirement", str(_LOCK)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S, check=False)
        if done.returncode:
            pytest.skip(f"no S3: pip can't install {_LOCK.name} ({done.stderr.strip().splitlines()[-1]})")
        (folder / "whole").touch()
    return folder


def _cache(name: str) -> Path:
    try:
        return cache_folder(os.environ, name)
    except PipelineError as fault:
        pytest.skip(str(fault))
