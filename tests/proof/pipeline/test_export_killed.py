"""The export's process killed at random, again and again: nothing is lost, nothing is double, reconcile is clean.

As `klamm pipeline export` runs it: a process with a JVM below it, killed with SIGKILL at drawn moments of its life.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from app.pipeline.history.export import records_of
from app.pipeline.history.manifests import read_exported
from app.pipeline.jobs import export, reconcile
from app.pipeline.spark.storage import Home
from tests import quick_spark
from tests.pipeline_jobs import jdbc_arguments, password_of, run_job
from tests.proof.pipeline.histories import exported_records, feed_records, write_history

pytestmark = pytest.mark.timeout(1200)

_RANGE_OF_KILLS = (0.35, 0.98)
"""Shares of a whole run within which kills fall: before that only Python and the JVM start."""


async def start(home: Path, dsn: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.pipeline.job", "export", "--home", str(home), "--master", "local[2]"),
        *("--driver-memory", "512m", *jdbc_arguments(dsn)),
        *("--conf", f"spark.driver.extraJavaOptions={quick_spark.java_options()}"),
        *quick_spark.ARGUMENTS,
        env={**os.environ, **password_of(dsn)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def kill_after(process: asyncio.subprocess.Process, delay_s: float) -> bool:
    """Kill the driver, unless it has ended before; whether it was killed."""
    try:
        async with asyncio.timeout(delay_s):
            await process.wait()
    except TimeoutError:
        process.kill()
    await process.communicate()
    # Its JVM sees that nobody is there any more; what it still writes must do no harm to the next run.
    return process.returncode == -signal.SIGKILL


async def killed_and_run_again(spark: SparkSession, home: Path, dsn: str, kills: int, seed: int) -> int:
    draw = Random(seed)
    await write_history(dsn, seed, 40)
    began = time.monotonic()
    whole = await start(home.with_name("whole"), dsn)
    _, said = await whole.communicate()
    assert whole.returncode == 0, said.decode()
    length_s = time.monotonic() - began

    strata = _strata(kills)
    draw.shuffle(strata)
    delays: list[float] = []
    for number in range(3 * kills):
        await write_history(dsn, seed + number + 1, 5)
        low, high = strata[len(delays)]
        delay_s = length_s * (low + (high - low) * draw.random())
        began = time.monotonic()
        if await kill_after(await start(home, dsn), delay_s):
            delays.append(delay_s)
        else:
            # The machine has become faster: the moment is drawn anew, of a shorter life.
            length_s = min(length_s, time.monotonic() - began)
        stands_whole(spark, home)
        if len(delays) == kills:
            break
    print(f"a run takes {length_s:.1f} s; killed after {[round(each, 1) for each in delays]} s")

    run_job(spark, export, home, dsn)
    stored = await feed_records(dsn)
    found = exported_records(spark, Home(str(home))).select("offset", "hash").collect()
    assert sorted((row["offset"], bytes(row["hash"])) for row in found) == [(each.offset, each.hash) for each in stored]
    # Nor does who reads the files without their manifests find any record twice.
    assert spark.read.parquet(str(home / "export" / "records")).count() == len(stored)
    clean = run_job(spark, reconcile, home, dsn)
    assert clean.status == 0, clean.said
    return len(delays)


def stands_whole(spark: SparkSession, home: Path) -> None:
    """Whatever the moment of the kill, what the manifests name is there."""
    exported = read_exported(spark, Home(str(home)))
    if exported is None:
        return
    assert exported.faults() == []
    # Of the manifests read here: the killed run's JVM may yet be putting down its last one.
    assert records_of(spark, Home(str(home)), exported).count() == exported.last_offset


def _strata(kills: int) -> list[tuple[float, float]]:
    """Equal parts of the range, so that kills are spread over all of a run."""
    low, high = _RANGE_OF_KILLS
    step = (high - low) / kills
    return [(low + step * number, low + step * (number + 1)) for number in range(kills)]


async def test_killed_ten_times(
    spark: SparkSession, tmp_path: Path, migrated_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in password_of(migrated_database_url).items():
        monkeypatch.setenv(name, value)

    assert await killed_and_run_again(spark, tmp_path / "home", migrated_database_url, 10, 61) == 10
