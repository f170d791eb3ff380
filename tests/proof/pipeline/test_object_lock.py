"""One run at a time writes into a home that is no folder: the one that could create an object there."""

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.home_lock import OBJECT, home_lock, object_lock
from tests.proof.pipeline.s3a import SECRET, s3_variables, s3a_jars, small_jvm
from tests.proof.pipeline.small_s3 import SmallS3, small_s3

pytestmark = pytest.mark.timeout(900)

_PATIENCE_S = 300


@pytest.fixture(scope="module")
def s3() -> Iterator[SmallS3]:
    with small_s3() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in s3_variables(server).items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def s3a(s3: SmallS3) -> Iterator[SparkSession]:
    assert s3.objects == {}
    retries = {"spark.hadoop.fs.s3a.retry.limit": "1", "spark.hadoop.fs.s3a.retry.interval": "10ms"}
    with small_jvm({"spark.jars": s3a_jars(), **retries}) as session:
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
    assert SECRET not in str(told.value)


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("NoSuchBucket", HTTPStatus.NOT_FOUND, "NoSuchBucket|bucket does not exist"),
        ("AccessDenied", HTTPStatus.FORBIDDEN, "Status Code: 403"),
    ],
)
def test_what_the_store_refuses_is_told_in_its_words_and_without_its_secret(
    s3a: SparkSession, s3: SmallS3, code: str, status: HTTPStatus, words: str
) -> None:
    s3.refuses = (status, code)
    try:
        with pytest.raises(PipelineError) as told, object_lock(s3a, "s3a://absent/h", "nightly"):
            pass
    finally:
        s3.refuses = None
    text = str(told.value)
    assert re.match(r"can't access `s3a://absent/h/run.json`: \S", text), text
    assert re.search(words, text), text
    assert "check its address and the credentials in the environment" in text
    assert SECRET not in text
    assert "\n" not in text


def test_a_lock_that_can_not_be_deleted_is_told(s3a: SparkSession, s3: SmallS3) -> None:
    notes: list[str] = []
    with object_lock(s3a, "s3a://bucket/kept", "nightly", notes.append):
        s3.refuses_deletes = True
    s3.refuses_deletes = False
    assert len(notes) == 1
    assert "then delete `s3a://bucket/kept/run.json`, or no other run can begin" in notes[0]
    assert SECRET not in notes[0]
    assert "/bucket/kept/run.json" in s3.objects
