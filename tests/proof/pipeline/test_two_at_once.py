"""Jobs that write, two at once and killed in between: nothing is lost or double."""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.dataset as ds
import pytest

from tests import quick_spark
from tests.pipeline_jobs import jdbc_arguments, password_of
from tests.proof.pipeline.histories import write_history
from tests.proof.pipeline.ingesting import decisions, line_of

pytestmark = pytest.mark.timeout(3600)


class Place:
    """A home, and runs of the command on it."""

    def __init__(self, path: Path, dsn: str) -> None:
        self.log = path / "log"
        self.log.mkdir()
        self._dsn = dsn
        self._report = path / "report.html"
        self.home = path / "home"
        self._environ = {**os.environ, **password_of(dsn)}

    def add_log(self, number: int, first: int) -> None:
        lines = b"".join(line_of(row) for row in decisions(first, 50))
        (self.log / f"decisions-{number}.jsonl").write_bytes(lines)

    async def start(self, job: str, *options: str) -> asyncio.subprocess.Process:
        if job == "nightly":
            options = ("--decisions", str(self.log), "--min-days", "0", "--output", str(self._report), *options)
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.pipeline.job", job, "--home", str(self.home), *options),
            *("--master", "local[2]", "--driver-memory", "700m"),
            *("--conf", f"spark.driver.extraJavaOptions={quick_spark.java_options()}"),
            *quick_spark.ARGUMENTS,
            *(jdbc_arguments(self._dsn) if job in {"nightly", "reconcile"} else ()),
            env=self._environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )

    async def run(self, job: str, *options: str) -> tuple[int, str]:
        return await ended(await self.start(job, *options))

    def offsets(self) -> list[int]:
        """Those of the decisions that the manifests name, read without Spark and without Klamm."""
        room = self.home / "decisions"

        def documents(name: str) -> list[dict[str, Any]]:
            return [json.loads(part.read_bytes()) for part in (room / name).glob("*/part-*")]

        merged = {each["day"]: each for each in documents("merged")}
        pieces = {(day, each["batch"]) for day, each in merged.items()}
        for each in documents("manifests"):
            pieces |= {(day, each["batch"]) for day in each["days"] if each["batch"] > _through(merged, day)}
        folders = [room / "log" / f"day={day}" / f"batch={batch}" for day, batch in pieces]
        tables = [ds.dataset(each, format="parquet").to_table(["offset"]) for each in folders]
        return sorted(offset for table in tables for offset in table["offset"].to_pylist())


def _through(merged: dict[str, dict[str, Any]], day: str) -> int:
    return int(merged[day]["through"]) if day in merged else -1


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str]:
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def both(place: Place, job: str) -> list[str]:
    """Two at once: what they said. One of them at least has done it, and the other was refused or came later."""
    outcomes = await asyncio.gather(place.run(job), place.run(job))
    statuses = sorted(status for status, _ in outcomes)
    assert statuses in ([0, 0], [0, 2]), outcomes
    said = [text for status, text in outcomes if status == 2]
    assert all(f"another {job} " in text and "is running" in text for text in said), said
    return said


async def test_two_at_once_and_kills(tmp_path: Path, migrated_database_url: str) -> None:
    dsn = migrated_database_url
    place = Place(tmp_path, dsn)
    for number in range(3):
        place.add_log(number, 50 * number)
    await write_history(dsn, 1, 20)
    began = time.monotonic()
    await both(place, "nightly")
    length_s = time.monotonic() - began

    for number in range(3, 5):
        place.add_log(number, 50 * number)
    await write_history(dsn, 2, 5)
    killed = await place.start("nightly")
    await asyncio.sleep(length_s * Random().uniform(0.3, 0.8))
    if killed.returncode is None:
        os.kill(killed.pid, signal.SIGKILL)
    await killed.communicate()
    place.add_log(5, 250)
    status, said = await place.run("nightly")
    assert status == 0, said
    await both(place, "hygiene")

    status, said = await place.run("reconcile")
    assert status == 0, said
    assert place.offsets() == list(range(300))
