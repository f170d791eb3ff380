"""A disk that is full, in a file system of its own: Spark's own words for it name a stream that Java was closing."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from app.pipeline.spark.faults import explain


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder that has room for half a megabyte."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None or os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    order = [mount, "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(tmp_path)]
    if subprocess.run(order, capture_output=True, check=False).returncode != 0:
        pytest.skip("this system mounts nothing, as in most containers")
    yield tmp_path
    subprocess.run([umount, "--lazy", str(tmp_path)], check=True)


@pytest.mark.parametrize("kind", ["parquet", "text"])
def test_a_full_disk_is_told_as_that(spark: SparkSession, small: Path, kind: str) -> None:
    rows = spark.range(0, 200_000, 1, 2).select(sf.sha2(sf.col("id").cast("string"), 512).alias("value"))
    with pytest.raises((PySparkException, Py4JError)) as fault:
        rows.write.format(kind).save(str(small / "table"))
    text, status = explain(fault.value, {"SPARK_LOCAL_DIRS": "/scratch"})
    assert text == (
        "No space left on device: of --home, or of `/scratch`, where Spark keeps its own files; make room there and "
        "run it again: what was written before is kept"
    )
    assert status == 3
