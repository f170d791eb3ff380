"""SIGKILL to an executor, to a worker and to the driver while each job writes: nothing is lost, nothing is double.

A job that fails of it is run again, as an operator would. In the end all is as a run has made it that nobody disturbed.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from tests import quick_spark
from tests.proof.cluster.nights import BUSY_PATIENCE_S, WELL, Company, assert_equal, ended, started, steps_of
from tests.proof.cluster.standalone import Cluster, driver_environment

_RUNS = 6
"""A job may fail of a kill that takes what only one executor had, or be over before the kill."""

_SHARE = 0.7
"""Of the time that a job takes on one machine, in which it is killed; on the cluster most take longer. A job that was
over before is killed within a quarter of that time: the machine may have been busy only when it was measured."""

_STEP = re.compile(r"^([a-z-]+) +\S.* \.\.\. ", re.MULTILINE)
_DONE = re.compile(r"^([a-z-]+) +done in ([\d.]+) s", re.MULTILINE)


@pytest.mark.parametrize("whom", ["executor", "worker"])
def test_killed_under_each_job(whom: str, cluster: Cluster, company: Company, unharmed: Path) -> None:
    home, draw, workers = cluster.shared / f"{whom}-killed", Random(whom), cycle((1, 2))
    jobs, waits = [*company.writing().values(), company.reconcile], _waits(steps_of(company, unharmed))
    steps, left = steps_of(company, home), set(WELL)

    def kill() -> None:
        if whom == "executor":
            cluster.kill_an_executor()
        else:
            number = next(workers)
            cluster.kill_worker(number)
            cluster.start_worker(number)

    for _ in range(_RUNS):
        with _driver(cluster, company, home, jobs) as driver:
            for job in _jobs_seen(driver.poll, steps):
                if job in left:
                    time.sleep(draw.uniform(0, waits[job]))
                    is_under_way = job == _STEP.findall(steps.read_text())[-1]
                    kill()
                    left -= {job} if is_under_way else set()
                    waits[job] /= 4
            statuses = {each["job"]: each["status"] for each in ended(driver)[1:]}
        cluster.await_workers()
        print(f"{whom} killed under all jobs but {sorted(left)}; exit codes {statuses}")
        if statuses == WELL and not left:
            break
    assert (statuses, left) == (WELL, set())
    assert_equal(home, unharmed)


def test_the_driver_killed_under_each_job(cluster: Cluster, company: Company, unharmed: Path) -> None:
    home, draw, waits = cluster.shared / "driver-killed", Random(4), _waits(steps_of(company, unharmed))
    writing, before = company.writing(), list[list[str]]()
    for number, (job, words) in enumerate(writing.items()):
        status = None
        while status != -signal.SIGKILL:
            assert status in {None, 0}
            # The job that was killed before is run to its end first.
            with _driver(cluster, company, home, [*before, words]) as driver:
                for seen in _jobs_seen(driver.poll, steps_of(company, home)):
                    if seen == job:
                        time.sleep(draw.uniform(0, waits[job]))
                        waits[job] /= 4
                        # Python alone, whose JVM then ends by itself, or both at once.
                        (os.kill if number % 2 else os.killpg)(driver.pid, signal.SIGKILL)
                driver.communicate(timeout=BUSY_PATIENCE_S)
            status = driver.returncode
        before = [words]
    # PostgreSQL's driver comes with the first job.
    with _driver(cluster, company, home, [company.reconcile, *before]) as driver:
        statuses = {each["job"]: each["status"] for each in ended(driver)[1:]}
    assert statuses == {"what-if": 1, "reconcile": 0}
    assert_equal(home, unharmed)


def _driver(cluster: Cluster, company: Company, home: Path, jobs: Sequence[Sequence[str]]) -> subprocess.Popen[str]:
    return started(company, home, jobs, [*cluster.arguments, *quick_spark.ARGUMENTS], driver_environment(cluster))


def _jobs_seen(ended_with: Callable[[], int | None], steps: Path) -> Iterator[str]:
    """Each job once, as its first step is told; until the driver has ended."""
    before, seen = steps.stat().st_size, set[str]()
    deadline = time.monotonic() + BUSY_PATIENCE_S
    while ended_with() is None:
        assert time.monotonic() < deadline
        for job in _STEP.findall(steps.read_bytes()[before:].decode()):
            if job not in seen:
                seen.add(job)
                yield job
        time.sleep(0.05)


def _waits(steps: Path) -> dict[str, float]:
    """Within how many seconds each job is killed, by what it has told last."""
    return {job: _SHARE * float(seconds) for job, seconds in _DONE.findall(steps.read_text())}
