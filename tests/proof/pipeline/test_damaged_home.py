"""A home of which something is missing or torn: told in one line, never answered from, and nothing else is harmed."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.formats.database_url import DatabaseUrl
from app.pipeline.history.snapshot import load_snapshot
from app.pipeline.jobs import export, reconcile, snapshot
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.storage import Home
from app.store.embedded.server import EmbeddedPostgres
from app.store.migrate import migrate
from tests.pipeline_jobs import password_of, run_job
from tests.postgres import new_folder
from tests.proof.pipeline.histories import write_history


@dataclass(frozen=True)
class Whole:
    """A home with an export in two batches and a snapshot, and the store that it is of."""

    home: Path
    dsn: str


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("whole")
    with EmbeddedPostgres(new_folder(folder / "data")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in password_of(server.dsn).items():
            patch.setenv(name, value)
        asyncio.run(migrate(DatabaseUrl.parse(server.dsn)))
        for seed in (21, 22):
            asyncio.run(write_history(server.dsn, seed, 3))
            run_job(spark, export, folder / "home", server.dsn)
        run_job(spark, snapshot, folder / "home", server.dsn)
        yield Whole(folder / "home", server.dsn)


@pytest.fixture
def home(whole: Whole, tmp_path: Path) -> Path:
    """One to be damaged."""
    return Path(shutil.copytree(whole.home, tmp_path / "home"))


def _tree(home: Path) -> dict[str, bytes]:
    files = (path for path in home.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


def _refusal(spark: SparkSession, home: Path, dsn: str, *arguments: str) -> str:
    before = _tree(home)
    with pytest.raises(PipelineError) as fault:
        run_job(spark, snapshot, home, dsn, *arguments)
    assert _tree(home) == before
    return str(fault.value)


def test_no_state_is_made_of_an_export_that_lacks_records(spark: SparkSession, home: Path, whole: Whole) -> None:
    shutil.rmtree(home / "snapshots")
    batch = next((home / "export" / "records").glob("day=*/batch=1"))
    for lost in batch.glob("*.parquet"):
        lost.unlink()

    said = _refusal(spark, home, whole.dsn)

    assert "rows that its manifests name" in said
    assert "new --home" in said
    assert run_job(spark, reconcile, home, whole.dsn).status == 1


def test_no_question_is_answered_from_a_part_of_a_snapshot(spark: SparkSession, home: Path) -> None:
    saved = load_snapshot(spark, Home(str(home)))
    acls = next((home / "snapshots").glob("offset=*/acls"))
    part = home / "part"
    saved.acls.limit(saved.acls.count() - 1).write.parquet(str(part))
    shutil.rmtree(acls)
    part.rename(acls)
    for _ in range(2):
        with pytest.raises(PipelineError, match=f"run `klamm pipeline snapshot --offset {saved.offset}` again"):
            load_snapshot(spark, Home(str(home)))
        shutil.rmtree(acls, ignore_errors=True)


def test_a_torn_manifest_is_named_with_the_way_out(spark: SparkSession, home: Path, whole: Whole) -> None:
    manifest = next((home / "export" / "manifests" / "batch=1").glob("part-*.txt"))
    content = manifest.read_bytes()
    for checksum in manifest.parent.glob(".*.crc"):
        checksum.unlink()
    for half in (content[:50], b"[1]\n"):
        manifest.write_bytes(half)
        said = _refusal(spark, home, whole.dsn)
        assert f"{manifest.name}` is damaged" in said
        assert "restore it" in said
    manifest.write_bytes(content)
    shutil.rmtree(home / "export" / "manifests" / "batch=1")
    assert "restore what is missing, or export into a new --home" in _refusal(spark, home, whole.dsn)


def test_a_lost_day_is_named(spark: SparkSession, home: Path, whole: Whole) -> None:
    shutil.rmtree(home / "snapshots")
    day = next((home / "export" / "records").glob("day=*"))
    shutil.rmtree(day)
    said = _refusal(spark, home, whole.dsn)
    # Spark looks for all of them at once, and names the first that it misses.
    assert f"{day.name}/batch=" in said
    assert "{" not in said


def test_a_home_that_is_closed_is_told_with_the_way_out(spark: SparkSession, tmp_path: Path, whole: Whole) -> None:
    # For any user, root too: no file can be made where a folder is.
    (tmp_path / "home" / ".lock").mkdir(parents=True)
    with pytest.raises(PipelineError, match=r"can't write into .* name another --home"):
        run_job(spark, export, tmp_path / "home", whole.dsn)
