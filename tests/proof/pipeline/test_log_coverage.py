"""What a log shows is found only where it covers the time that the finding speaks of."""

import argparse
import io
from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from app.core.epochs import Epochs
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.records import GENESIS_HASH
from app.pipeline.context import JobContext
from app.pipeline.history.manifests import Batch, write_batch
from app.pipeline.history.records import CREATED
from app.pipeline.history.schemas import RECORDS, columns
from app.pipeline.history.snapshot import Snapshot, save_snapshot
from app.pipeline.hygiene.findings import load_findings
from app.pipeline.hygiene.search import _made_at
from app.pipeline.jobs import hygiene
from app.pipeline.spark.progress import Console
from app.pipeline.spark.run_metrics import RunMetrics
from app.pipeline.spark.storage import Home
from tests.images import EPOCH, numbered
from tests.proof.pipeline.logs import BEGAN, loaded, log_frame, logged, save_log
from tests.proof.pipeline.random_stores import acl_frame, fields_of

READ, ALLOW, DENY = AclOperation.READ, AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
DAYS = 40


def _topic(
    name: str, principal: str, permission: AclPermissionType = ALLOW, pattern: PatternType = LITERAL
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern, principal, "*", READ, permission)


USED, IDLE, YOUNG = _topic("t0", "User:app"), _topic("t0", "User:idle"), _topic("t0", "User:young")
GONE, BROAD = _topic("gone", "User:idle"), _topic("t", "User:wide", pattern=PREFIXED)
DENIES = [_topic("t0", "User:evil", DENY), _topic("not-yet", "User:*", DENY)]
ACLS = numbered([USED, IDLE, YOUNG, GONE, BROAD, *DENIES])
ASKED = [("User:app", "t0"), ("User:wide", "t1"), *(("User:app", f"t{number}") for number in range(2, 20))]


def _home(spark: SparkSession, folder: Path, hours: Sequence[int], *, exported: bool = True) -> Home:
    """A home whose ACLs are a year older than the log, but for one, with decisions of these hours."""
    home = Home(str(folder))
    save_snapshot(spark, home, Snapshot(acl_frame(spark, ACLS), {}, "c", Epochs.only(EPOCH), len(ACLS), BEGAN, "00"))
    image = loaded(ACLS, allow_everyone=False)
    questions = [(principal, "10.0.0.1", "READ", "TOPIC", name) for principal, name in ASKED]
    rows = [
        {**row, "time": BEGAN + timedelta(hours=hour, minutes=7)}
        for number, hour in enumerate(hours)
        for row in logged(image, questions if number == 0 else questions[:1])
    ]
    save_log(home, log_frame(spark, rows))
    if exported:
        _export(spark, home)
    return home


def _export(spark: SparkSession, home: Home) -> None:
    rows = [_record(offset, acl) for offset, acl in enumerate(ACLS, 1)]
    records = spark.createDataFrame(rows, RECORDS).withColumns({"day": sf.to_date("recorded_at"), "batch": sf.lit(1)})
    records.write.partitionBy("day", "batch").parquet(home.room("export", "records"))
    days = tuple(sorted({str(row["recorded_at"].astimezone(UTC).date()) for row in map(_named, rows)}))
    write_batch(
        spark,
        home,
        Batch("c", str(EPOCH), 1, len(ACLS), GENESIS_HASH.hex(), "00", days, {CREATED: len(ACLS)}, (), None),
    )


def _record(offset: int, acl: StandardAcl) -> tuple[Any, ...]:
    age = timedelta(days=3 - DAYS) if acl.binding == YOUNG else timedelta(days=365)
    fields = {name: value for name, value in fields_of(acl).items() if name != "id"}
    return (
        offset,
        offset,
        CREATED,
        str(acl.id),
        *fields.values(),
        None,
        None,
        BEGAN - age,
        "User:admin",
        b"",
        None,
        None,
        None,
    )


def _named(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(RECORDS.fieldNames(), row, strict=True))


def _found(spark: SparkSession, home: Home, *options: str) -> tuple[dict[str, set[AclBinding]], list[str]]:
    """By kind, and the lines that were said."""
    parser, results = argparse.ArgumentParser(), io.StringIO()
    hygiene.add_arguments(parser)
    context = JobContext(spark, home, Console("hygiene", quiet=True, results=results), RunMetrics("hygiene"))
    closed = ["--allow-everyone-if-no-acl-found", "false"]
    hygiene.run(context, parser.parse_args([*closed, *options]))
    saved = load_findings(spark, home)
    assert saved is not None
    by_id = {str(acl.id): acl.binding for acl in ACLS}
    kinds: dict[str, set[AclBinding]] = {}
    for row in saved.findings.collect():
        kinds.setdefault(row["kind"], set()).add(by_id[row["acl_id"]])
        assert row["permission_type"] == "ALLOW"
        assert row["mend"]
    assert (saved.manifest["left_out"] is None) is ("are left out" not in results.getvalue())
    return kinds, results.getvalue().splitlines()


def test_a_log_of_minutes_shows_nothing_and_says_how_much_is_needed(spark: SparkSession, tmp_path: Path) -> None:
    home = _home(spark, tmp_path, [5])
    found, said = _found(spark, home)
    assert found == {}
    assert said[1].endswith(
        "left out: the log covers 1 hour and must cover 30 days (--min-days); hours without a logged decision don't "
        "count"
    )
    # What a list of resources shows needs no log.
    listed = tmp_path / "topics.txt"
    listed.write_text("t0\nt1\n")
    assert _found(spark, home, "--resources", str(listed))[0] == {"DETACHED": {GONE}}
    # Whoever knows better may say so; but a DENY is not proposed even then.
    assert _found(spark, home, "--min-days", "0")[0] == {
        "DETACHED": {GONE},
        "UNUSED": {IDLE, YOUNG},
        "OVER_BROAD": {BROAD},
    }


def test_of_a_long_log_only_acls_are_judged_that_it_covers_long_enough(spark: SparkSession, tmp_path: Path) -> None:
    home = _home(spark, tmp_path, range(24 * DAYS))
    found, said = _found(spark, home)
    assert found == {"DETACHED": {GONE}, "UNUSED": {IDLE}, "OVER_BROAD": {BROAD}}
    assert said[1].startswith("the log covers 40.0 days; only ACLs that existed for 30 days of that are judged by it")


def test_without_an_export_nobody_knows_how_old_acls_are(spark: SparkSession, tmp_path: Path) -> None:
    home = _home(spark, tmp_path, range(24 * DAYS), exported=False)
    found, said = _found(spark, home)
    assert found == {}
    assert "run `klamm pipeline export`" in said[1]


def test_decisions_of_older_epochs_count_up_to_where_the_next_one_began(spark: SparkSession) -> None:
    later, strange = UUID("0199f0c2-5d1e-7c3a-9a41-3f6f0b8a2c17"), UUID(int=99)
    epochs = Epochs.only(EPOCH).begun(later, 10)
    made = [(EPOCH, 1, 4), (EPOCH, 4, 5), (EPOCH, 9, 30), (EPOCH, 11, 30), (later, 10, 12), (later, 21, 22)]
    rows = [(str(epoch), first, last) for epoch, first, last in [*made, (strange, 8, 8)]]
    decisions = spark.createDataFrame(rows, columns("epoch string, first_offset bigint, last_offset bigint"))

    known = _made_at(spark, decisions, epochs, 5, 20)

    expected = [(EPOCH, 4, 5), (EPOCH, 9, 30), (later, 10, 12)]
    assert sorted(map(tuple, known.collect())) == sorted((str(epoch), *rest) for epoch, *rest in expected)
