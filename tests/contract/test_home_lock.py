"""One run at a time writes into a home: a lock's file in a folder, a lease in an object store."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.home_lock import FileLock, HomeLock, NoLock, home_lock, lock_of
from app.pipeline.spark.lease import Lease
from app.pipeline.spark.s3_object import S3Object
from app.pipeline.spark.storage import Home
from tests.s3.fetched import S3, SECRET, gateway, s3_server, s3a_jars

pytestmark = [pytest.mark.timeout(900), pytest.mark.full("grids of faults")]

EXPIRES_S = 40.0
"""A lease is lost that could not be renewed for 30 s: busy neighbours held a process up for 9."""
_PATIENCE_S = 300.0

_HOLDER = """
import sys
from tests.contract.test_home_lock import hold
hold(*sys.argv[1:])
"""


def hold(home: str, jars: str) -> None:
    """What a process does that holds a lock until it is killed or interrupted."""
    with gateway({"spark.jars": jars}) if jars else nullcontext() as made:
        lock = file_lock(home) if made is None else Jvm(made.jvm).lease(home)
        lock.acquire("export", lambda _: None)
        try:
            # Inside, as the signal may come as soon as the line is out.
            print("held", flush=True)
            time.sleep(_PATIENCE_S)
        except KeyboardInterrupt:
            try:
                lock.check()
            except PipelineError as fault:
                print(fault, flush=True)
            lock.release()


class Jvm:
    """A JVM with S3A; its environment says where the store is."""

    def __init__(self, jvm: Any) -> None:  # noqa: ANN401 - py4j's have no types
        self.jvm = jvm
        # As Spark itself makes it of the environment.
        of_spark = self.jvm.org.apache.spark.deploy.SparkHadoopUtil.get()
        self.configuration = of_spark.newConfiguration(self.jvm.org.apache.spark.SparkConf())

    def lease(self, home: str, lost: Callable[[], None] | None = None) -> Lease:
        kept_in = S3Object(self.jvm, self.configuration, f"{home}/lock.json")
        return Lease(kept_in, expires_s=EXPIRES_S, on_loss=lost)


def file_lock(home: str, _: Callable[[], None] | None = None) -> HomeLock:
    return FileLock(Path(home))


class Place:
    """Where a home is kept."""

    def __init__(self, home: str, made: Callable[[str, Callable[[], None] | None], HomeLock], jars: str) -> None:
        self.home = home
        self.jars = jars
        self._made = made
        self._locks: list[HomeLock] = []

    def lock(self, lost: Callable[[], None] = lambda: None) -> HomeLock:
        """By itself a lease that is lost would interrupt all tests."""
        made = self._made(self.home, lost)
        self._locks.append(made)
        return made

    def acquired(self, job: str = "nightly", note: Callable[[str], None] = lambda _: None) -> HomeLock:
        lock = self.lock()
        lock.acquire(job, note)
        return lock

    def taken_over(self, note: Callable[[str], None] = lambda _: None) -> HomeLock:
        """From a run that is gone. The JVM of that run may yet finish what it was writing, once: a sign of life."""
        with suppress(PipelineError):
            return self.acquired(note=note)
        return self.acquired(note=note)

    def close(self) -> None:
        """What a test that failed has left: a lease would be renewed until its JVM is gone, and hide the failure."""
        for each in self._locks:
            each.release()

    def holder(self) -> subprocess.Popen[str]:
        """A process that holds it."""
        process = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, self.home, self.jars],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environ.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def jvm(s3: S3) -> Iterator[Jvm]:
    assert s3.environ.items() <= os.environ.items()
    with gateway({"spark.jars": s3a_jars()}) as made:
        yield Jvm(made.jvm)


@pytest.fixture
def in_store(s3: S3, jvm: Jvm) -> Iterator[Place]:
    with closing(Place(f"s3a://{s3.bucket()}/klamm/home", jvm.lease, s3a_jars())) as made:
        yield made


@pytest.fixture(params=["folder", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        with closing(Place(str(tmp_path), file_lock, "")) as made:
            yield made
    else:
        yield request.getfixturevalue("in_store")


def test_one_holds_it_and_the_next_gets_it_after_that(place: Place) -> None:
    first = place.acquired()
    with pytest.raises(PipelineError, match=f"another nightly .*is running .*`{place.home}.*wait for it, or stop it"):
        place.acquired()
    # Longer than a lease lasts that nobody renews.
    time.sleep(EXPIRES_S + 1 if place.jars else 0)
    first.check()
    first.release()
    second = place.acquired()
    second.check()
    assert second.generation == first.generation + 1
    second.release()


def test_of_many_at_once_one_gets_it(place: Place) -> None:
    start, held, refused = threading.Barrier(6), list[HomeLock](), list[str]()

    def run() -> None:
        start.wait(_PATIENCE_S)
        try:
            held.append(place.acquired("hygiene"))
        except PipelineError as fault:
            refused.append(str(fault))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(_PATIENCE_S)
    assert (len(held), len(refused)) == (1, 5), refused
    held[0].check()
    held[0].release()


def test_that_of_a_killed_run_is_free_and_its_generation_is_over(place: Place) -> None:
    with place.holder() as killed:
        killed.kill()
    notes: list[str] = []
    lock = place.taken_over(notes.append)
    assert lock.generation == 2
    assert any("to be renewed" in note for note in notes) == bool(place.jars)
    lock.release()


def test_a_run_whose_folder_is_gone_says_so(tmp_path: Path) -> None:
    lock = FileLock(tmp_path)
    lock.acquire("nightly", lambda _: None)
    tmp_path.rename(f"{tmp_path}-moved")
    with pytest.raises(PipelineError, match="was moved or deleted"):
        lock.check()
    lock.release()


def test_a_run_that_can_not_renew_it_is_told_and_frees_nothing(in_store: Place, s3: S3) -> None:
    told = threading.Event()
    lock = in_store.lock(told.set)
    lock.acquire("nightly", lambda _: None)
    with s3.away():
        assert told.wait(_PATIENCE_S)
        with pytest.raises(PipelineError, match=r"could not renew `s3a://.*another one may be running"):
            lock.check()
    lock.release()
    # What was on its way may arrive now, and look like a sign of life. Then it is over.
    with suppress(PipelineError):
        in_store.acquired().release()
    other = in_store.acquired()
    other.check()
    assert other.generation >= 2
    other.release()


def test_a_run_that_was_frozen_finds_that_another_has_taken_it(in_store: Place) -> None:
    with in_store.holder() as frozen:
        frozen.send_signal(signal.SIGSTOP)
        lock = in_store.taken_over()
        frozen.send_signal(signal.SIGCONT)
        said, _ = frozen.communicate(timeout=_PATIENCE_S)
        assert "could not renew" in said
        lock.check()
        assert lock.generation == 2
        lock.release()


def test_what_is_wrong_with_the_store_is_said_without_its_secret(in_store: Place, jvm: Jvm) -> None:
    missing = in_store.home.replace("/klamm/home", "-missing")
    with pytest.raises(PipelineError, match=r"can't access .*check AWS_ENDPOINT_URL") as refused:
        jvm.lease(missing).acquire("nightly", lambda _: None)
    assert SECRET not in str(refused.value)
    torn = S3Object(jvm.jvm, jvm.configuration, f"{in_store.home}/lock.json")
    assert torn.read() is None
    assert torn.write(b"{", None)
    assert not torn.write(b"{}", None)
    assert not torn.write(b"{}", '"0123"')
    with pytest.raises(PipelineError, match="is damaged; delete it"):
        in_store.acquired()


def test_a_file_system_without_a_lock_says_so(tmp_path: Path) -> None:
    assert isinstance(lock_of(Home(f"file://{tmp_path}")), FileLock)
    notes: list[str] = []
    with home_lock(Home("hdfs://name/klamm"), "export", notes.append) as lock:
        assert isinstance(lock, NoLock)
    assert notes == ["this home can't be locked against another export; make sure that only one runs at a time"]
