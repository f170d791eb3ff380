"""A job whose home is on an object store: it is done there, and a second one at the same time is refused."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import quick_spark
from tests.klamm import until
from tests.proof.pipeline.ingesting import decisions, line_of
from tests.proof.pipeline.s3a import SECRET, s3_variables, s3a_jars
from tests.proof.pipeline.small_s3 import SmallS3, small_s3

pytestmark = pytest.mark.timeout(3600)

HOME = "s3a://bucket/klamm/home"
LOCK = "/bucket/klamm/home/run.json"
PATIENT = {
    "spark.hadoop.fs.s3a.connection.timeout": "1h",
    "spark.hadoop.fs.s3a.connection.part.upload.timeout": "1h",
    "spark.hadoop.fs.s3a.multiobjectdelete.enable": "false",
}


@pytest.fixture
def s3() -> Iterator[SmallS3]:
    with small_s3() as server:
        yield server


async def started(s3: SmallS3, log: Path) -> asyncio.subprocess.Process:
    settings = {"spark.jars": s3a_jars(), **PATIENT, "spark.driver.extraJavaOptions": quick_spark.java_options()}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.pipeline.job", "ingest", "--home", HOME, "--decisions", str(log), "--debug"),
        *("--master", "local[1]", "--driver-memory", "700m", *quick_spark.ARGUMENTS),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        env={**os.environ, **s3_variables(s3)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str]:
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_a_job_is_done_in_an_object_store_and_a_second_one_is_refused_by_name(
    s3: SmallS3, tmp_path: Path
) -> None:
    (tmp_path / "decisions-1.jsonl").write_bytes(b"".join(line_of(row) for row in decisions(0, 20)))
    s3.held = "/home/decisions/"
    first = await started(s3, tmp_path)
    try:
        await until(lambda: s3.waiting.is_set() or first.returncode is not None, "the first one writes", 1_200)
        assert list(s3.objects) == [LOCK]
        held = s3.objects[LOCK]
        status, refusal = await ended(await started(s3, tmp_path))
        assert (first.returncode, s3.objects) == (None, {LOCK: held}), refusal
        s3.go_on.set()
        done, said = await ended(first)
    finally:
        if first.returncode is None:
            first.kill()
    run = json.loads(held)
    assert (status, run["process"]) == (2, first.pid), refusal
    name = f"another ingest (process {first.pid} on {run['host']}, since {run['since']})"
    assert f"{name} holds `{HOME}/run.json`; wait for it. If that run has been killed, delete" in refusal
    assert done == 0, said
    assert LOCK not in s3.objects
    manifests = [path for path in s3.objects if "/decisions/manifests/" in path and "/part-" in path]
    assert sum(json.loads(s3.objects[path])["decisions"] for path in manifests) == 20
    assert SECRET not in said + refusal + "".join(map(repr, s3.objects.values()))
