"""One run at a time writes into a home that is no folder: the one that could create an object there."""

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.home_lock import OBJECT, home_lock, object_lock
from app.pipeline.spark.java import find_java
from app.pipeline.spark.local_cache import cache_folder
from tests.proof.pipeline.small_s3 import SmallS3, small_s3

pytestmark = pytest.mark.timeout(900)

_PATIENCE_S = 300
_SECRET = "klamm-secret-of-the-store"
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


@contextmanager
def _jvm(settings: dict[str, str]) -> Iterator[SparkSession]:
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


def _s3a_jars() -> str:
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
            with _jvm(settings):
                pass
        except Exception as fault:  # noqa: BLE001 - whatever PySpark makes of it
            pytest.skip(f"no S3: Spark can't fetch {_PACKAGES[0]} ({fault})")
        (folder / "whole").touch()
    return ",".join(sorted(map(str, (folder / "jars").glob("*.jar"))))


@pytest.fixture(scope="module")
def s3() -> Iterator[SmallS3]:
    with small_s3() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "klamm-access-key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", _SECRET)
        yield server


@pytest.fixture(scope="module")
def s3a(s3: SmallS3) -> Iterator[SparkSession]:
    assert s3.objects == {}
    retries = {"spark.hadoop.fs.s3a.retry.limit": "1", "spark.hadoop.fs.s3a.retry.interval": "10ms"}
    with _jvm({"spark.jars": _s3a_jars(), **retries}) as session:
        yield session


class Place:
    """A home, and a way to its lock that is not Klamm's."""

    def __init__(self, spark: SparkSession, home: str, store: SmallS3 | Path) -> None:
        self.spark, self.home, self._store = spark, home, store

    @property
    def content(self) -> str | None:
        if isinstance(self._store, Path):
            path = self._store / OBJECT
            return path.read_text() if path.exists() else None
        found = self._store.objects.get(self._name)
        return None if found is None else found.decode()

    def put(self, content: str) -> None:
        if isinstance(self._store, Path):
            (self._store / OBJECT).write_text(content)
            # Hadoop's own checksum of what was there.
            (self._store / f".{OBJECT}.crc").unlink(missing_ok=True)
        else:
            self._store.objects[self._name] = content.encode()

    @property
    def _name(self) -> str:
        return f"{self.home.removeprefix('s3a:/')}/{OBJECT}"


@pytest.fixture(params=["s3a", "another file system"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "s3a":
        home = f"s3a://bucket/{tmp_path.name}/home"
        return Place(request.getfixturevalue("s3a"), home, request.getfixturevalue("s3"))
    spark: SparkSession = request.getfixturevalue("spark")
    name = f"n{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:16]}"
    hadoop = spark._jsc.hadoopConfiguration()
    hadoop.set(f"fs.viewfs.mounttable.{name}.link./linked", f"file://{tmp_path}")
    return Place(spark, f"viewfs://{name}/linked/new/home", tmp_path / "new" / "home")


def test_one_holds_it_and_others_are_refused_with_its_name_until_it_ends(place: Place) -> None:
    for job in ("nightly", "export"):
        with object_lock(place.spark, place.home, job) as check:
            check()
            held = place.content
            with (
                pytest.raises(
                    PipelineError,
                    match=rf"^another {job} \(process {os.getpid()} on .+, since 2.+\) holds `{place.home}/{OBJECT}`; "
                    "wait for it. If that run has been killed, delete the object, and run this again",
                ),
                object_lock(place.spark, place.home, "hygiene"),
            ):
                pass
            assert place.content == held
            check()
        assert place.content is None


def test_of_many_at_once_one_gets_it(place: Place) -> None:
    start, end = threading.Barrier(4), threading.Barrier(4)
    held, refused = list[int](), list[str]()

    def run() -> None:
        start.wait(_PATIENCE_S)
        try:
            with object_lock(place.spark, place.home, "hygiene"):
                held.append(1)
                end.wait(_PATIENCE_S)
        except PipelineError as fault:
            refused.append(str(fault))
            end.wait(_PATIENCE_S)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(_PATIENCE_S)
    if place.home.startswith("s3a:"):
        assert (len(held), len(refused)) == (1, 3), refused
    else:
        # Java's own files are looked for and created in two steps.
        assert len(held) >= 1


def test_a_run_whose_lock_was_deleted_or_replaced_stops_and_leaves_the_other_ones(place: Place) -> None:
    with object_lock(place.spark, place.home, "nightly") as check:
        place.put("another one's")
        with pytest.raises(PipelineError, match="was deleted or replaced while this run wrote"):
            check()
    assert place.content == "another one's"
    with pytest.raises(PipelineError, match=r"^another job holds"), object_lock(place.spark, place.home, "export"):
        pass
    assert place.content == "another one's"


def test_a_path_is_locked_where_sparks_configuration_puts_it(place: Place, tmp_path: Path) -> None:
    with home_lock(place.spark, place.home, "export", lambda _: None):
        assert place.content is not None
    with home_lock(place.spark, str(tmp_path / "folder"), "export", lambda _: None):
        assert [path.name for path in (tmp_path / "folder").iterdir()] == [".lock"]


def test_a_put_on_s3_is_conditional_and_counts_though_its_answer_is_lost(s3a: SparkSession, s3: SmallS3) -> None:
    s3.puts.clear()
    s3.loses_answers = True
    try:
        with object_lock(s3a, "s3a://bucket/lossy", "nightly") as check:
            check()
            s3.loses_answers = False
    finally:
        s3.loses_answers = False
    assert "*" in s3.puts
    assert "/bucket/lossy/run.json" not in s3.objects


def test_a_store_that_can_not_be_asked_is_named_with_the_way_out(spark: SparkSession, s3: SmallS3) -> None:
    assert s3.objects is not None
    # Without hadoop-aws.
    refusal = r"can't access `s3a://b/h/run.json`: .*S3AFileSystem.*hadoop-aws"
    with pytest.raises(PipelineError, match=refusal) as told, object_lock(spark, "s3a://b/h", "nightly"):
        pass
    assert _SECRET not in str(told.value)


def test_a_lock_that_can_not_be_deleted_is_told(s3a: SparkSession, s3: SmallS3) -> None:
    notes: list[str] = []
    with object_lock(s3a, "s3a://bucket/kept", "nightly", notes.append):
        s3.refuses_deletes = True
    s3.refuses_deletes = False
    assert len(notes) == 1
    assert "then delete `s3a://bucket/kept/run.json`, or no other run can begin" in notes[0]
    assert _SECRET not in notes[0]
    assert "/bucket/kept/run.json" in s3.objects
