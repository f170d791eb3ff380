"""The jobs one after another on one session: a store's history, a log of decisions, a change tried on it, a report."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import AclBinding
from app.core.kafka.filters import AclBindingFilter
from app.formats.database_url import DatabaseUrl
from app.store.writing.acl_store import PostgresAclStore
from tests.decision_lines import decision_line
from tests.updates import create, delete

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = ("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")
PAYMENTS = ("TOPIC", "pay", "PREFIXED", "User:bob", "*", "READ", "ALLOW")
PAYROLL = ("TOPIC", "payroll", "LITERAL", "User:bob", "*", "READ", "DENY")
GONE = ("TOPIC", "gone", "LITERAL", "User:alice", "*", "READ", "ALLOW")
# Who asked for which topic how often, and by which ACL that was decided.
ASKED = (
    ("User:alice", "orders", 3, ORDERS),
    ("User:bob", "payments", 2, PAYMENTS),
    ("User:bob", "payroll", 1, PAYROLL),
    ("User:eve", "orders", 1, None),
)


def decision(number: int, principal: str, name: str, acl: tuple[str, ...] | None, acl_id: str | None) -> dict[str, Any]:
    """A line of the decision log."""
    asked = decision_line(time=f"2026-11-22T10:00:{number:02}Z", offset=6, principal=principal, resource_name=name)
    result = "ALLOWED" if acl is not None and acl[-1] == "ALLOW" else "DENIED"
    return asked if acl is None else {**asked, "result": result, "rule": "MatchingAcl", "acl_id": acl_id}


@pytest.fixture
async def store_url(migrated_database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a store with three ACLs, and with a fourth in its history."""
    from tests.pipeline_jobs import password_of

    store = PostgresAclStore(DatabaseUrl.parse(migrated_database_url))
    await store.write([create(*map(AclBinding.from_words, (ORDERS, GONE)))], KnownHistory())
    await store.write([create(*map(AclBinding.from_words, (PAYMENTS, PAYROLL)))], KnownHistory())
    await store.write([delete(AclBindingFilter(resource_name="gone"))], KnownHistory())
    await store.close()
    for name, value in password_of(migrated_database_url).items():
        monkeypatch.setenv(name, value)
    return migrated_database_url


def test_a_store_is_exported_folded_replayed_and_reported(
    spark: "SparkSession", store_url: str, tmp_path: Path
) -> None:
    from app.pipeline.history.snapshot import load_snapshot
    from app.pipeline.jobs import effective, export, ingest, report, snapshot, what_if
    from app.pipeline.spark.storage import Home
    from tests.pipeline_jobs import Run, rows, run_job

    home = tmp_path / "home"

    def run(job: Any, *arguments: str) -> Run:  # noqa: ANN401 - a module of a job
        return run_job(spark, job, home, store_url, *arguments)

    assert run(export).counts["records_exported"] == 5
    assert run(snapshot).counts["acls_written"] == 3
    folded = load_snapshot(spark, Home(str(home)), None)
    ids = {row[1:]: row[0] for row in rows(folded.acls)}
    assert sorted(ids) == sorted((ORDERS, PAYMENTS, PAYROLL))

    lines = [(who, name, acl, acl and ids[acl]) for who, name, times, acl in ASKED for _ in range(times)]
    log = tmp_path / "log" / "decisions-1.jsonl"
    log.parent.mkdir()
    log.write_text("".join(json.dumps(decision(at, *line)) + "\n" for at, line in enumerate(lines)))
    assert run(ingest, "--decisions", str(log.parent)).counts["decisions_written"] == 7

    # Replayed without alice's ACL, three decisions become denials, and nothing else changes.
    change = tmp_path / "change.json"
    change.write_text(json.dumps({"filters": [{"principal": "User:alice"}]}))
    tried = run(what_if, "--delete", str(change))
    assert (tried.status, tried.counts["newly_denied"], tried.counts["newly_allowed"]) == (1, 3, 0)
    assert (tried.counts["decisions"], tried.counts["acls_deleted"], tried.counts["drifted"]) == (7, 1, 0)
    assert [name for name in ("User:alice", "User:bob", "User:eve") if name in tried.said] == ["User:alice"]

    assert run(effective).status == 0
    drawn = run(report)
    assert (drawn.status, drawn.counts) == (0, {"charts_drawn": 4})
    page = (home / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "User:alice" in page
