"""ACLs that end: a snapshot has their terms, and from its time on an ALLOW that has ended counts for nothing."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import NewAcl, rfc3339
from app.core.mutations import CreateAcls
from app.formats.database_url import DatabaseUrl
from app.pipeline.history.export import growth_by_hour, whole_export
from app.pipeline.history.snapshot import Snapshot, load_snapshot
from app.pipeline.jobs import export, reconcile, snapshot
from app.pipeline.spark.storage import Home
from app.store.writing.acl_store import PostgresAclStore
from tests.pipeline_jobs import password_of, run_job
from tests.updates import ACTOR, topic

LATER = datetime(2100, 1, 1, tzinfo=UTC)
_Terms = tuple[int | None, str | None]


@pytest.fixture
def store_url(migrated_database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in password_of(migrated_database_url).items():
        monkeypatch.setenv(name, value)
    return migrated_database_url


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


async def _write(dsn: str, *acls: NewAcl) -> None:
    store = PostgresAclStore(DatabaseUrl.parse(dsn))
    await store.write([CreateAcls(acls, ACTOR)], KnownHistory())
    await store.close()


def _terms(saved: Snapshot) -> dict[str, _Terms]:
    return {row["resource_name"]: (row["expires_s"], row["owner"]) for row in saved.acls.collect()}


async def test_a_snapshot_knows_what_has_ended_by_the_time_of_the_export(
    spark: SparkSession, tmp_path: Path, store_url: str
) -> None:
    home, soon = Home(str(tmp_path / "home")), _now().replace(microsecond=0) + timedelta(seconds=4)
    ending = NewAcl(topic("soon"), soon, "payments")
    await _write(store_url, ending, NewAcl(topic("later"), LATER), NewAcl(topic("changed")), NewAcl(topic("never")))
    await _write(store_url, NewAcl(topic("changed"), LATER, "orders"))
    await asyncio.sleep(max(0.0, (soon - _now()).total_seconds()) + 1)
    expected: dict[str, _Terms] = {
        "soon": (int(soon.timestamp()), "payments"),
        "later": (int(LATER.timestamp()), None),
        "changed": (int(LATER.timestamp()), "orders"),
        "never": (None, None),
    }

    run_job(spark, export, tmp_path / "home", store_url)
    said = run_job(spark, snapshot, tmp_path / "home", store_url).said
    saved = load_snapshot(spark, home)
    assert _terms(saved) == expected
    assert soon < saved.as_of <= _now() + timedelta(minutes=1)
    assert {row["resource_name"] for row in saved.in_effect.collect()} == set(expected) - {"soon"}
    assert f"1 of them had ended by {rfc3339(saved.as_of)}" in said
    # By a time before its end it had not ended.
    run_job(spark, export, tmp_path / "then", store_url)
    run_job(spark, snapshot, tmp_path / "then", store_url, "--time", (soon - timedelta(seconds=1)).isoformat())
    then = load_snapshot(spark, Home(str(tmp_path / "then")))
    assert (then.as_of, then.in_effect.count()) == (soon - timedelta(seconds=1), len(expected))

    assert run_job(spark, reconcile, tmp_path / "home", store_url).status == 0
    run_job(spark, snapshot, tmp_path / "read", store_url, "--from-table")
    read = load_snapshot(spark, Home(str(tmp_path / "read")))
    assert (_terms(read), read.in_effect.count()) == (expected, len(expected) - 1)

    # Other terms make no ACL, neither in the export that brings the ACL nor in a later one.
    await _write(store_url, NewAcl(topic("later"), LATER, "orders"), NewAcl(topic("new")))
    run_job(spark, export, tmp_path / "home", store_url)
    exported = whole_export(spark, home)
    grown = growth_by_hour(spark, home, exported, exported.last_offset)
    assert sum(created for _, _, _, created, _ in grown) == len(expected) + 1
