"""A home that has seen some days, for the section `pipeline-cost`.

Day by day a hundredth of the ACLs is created and half as many are removed, and as many decisions as there are ACLs are
logged; the questions of all days are drawn from the same, half as many as ACLs. Each day is a batch of the decision log
of its own; what was recorded is exported and made a snapshot of every third day.
"""

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.formats.database_url import DatabaseUrl
from app.pipeline.jobs import export, ingest, snapshot
from app.store.writing.acl_store import PostgresAclStore
from tests.bench.workload import Question, realistic
from tests.decision_lines import decision_line
from tests.pipeline_jobs import run_job
from tests.updates import create, delete

_BEGAN = datetime(2026, 10, 1, tzinfo=UTC)
_AT_ONCE = 200
_DAYS_A_SNAPSHOT = 3


class AgedHome:
    """A home, its store and its decision log. A day that was begun is in the store and in the log only."""

    def __init__(self, folder: Path, dsn: str, acls: int) -> None:
        self.home, self.logs = folder / "home", folder / "logs"
        self.dsn = dsn
        self.day = 0
        self._acls = acls
        self.asked = realistic(acls).questions(acls // 2)
        self.logs.mkdir()

    def begin_day(self) -> None:
        self.day += 1
        asyncio.run(_change_store(self.dsn, self.day, self._acls // 100))
        _write_day(self.logs, self.day, self.asked, self._acls)

    def age(self, spark: SparkSession, until: int) -> None:
        """Begin the days up to this one, and bring all but the last into the home."""
        while self.day < until - 1:
            self.begin_day()
            if self.day % _DAYS_A_SNAPSHOT == 0:
                run_job(spark, export, self.home, self.dsn)
                run_job(spark, snapshot, self.home, self.dsn)
        if self.day:
            run_job(spark, ingest, self.home, self.dsn, "--decisions", str(self.logs), "--files-at-once", "1")
        self.begin_day()


async def _change_store(dsn: str, day: int, created: int) -> None:
    """One day's changes: ACLs of this day are created, and half of those of the day before removed."""
    store = PostgresAclStore(DatabaseUrl.parse(dsn))
    for first in range(0, created, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, created))
        await store.write([create(*(_binding(day, number) for number in numbers))], KnownHistory())
    gone = AclBindingFilter(principal=_leaver(day - 1))
    await store.write([delete(gone)], KnownHistory())
    await store.close()


def _write_day(folder: Path, day: int, pool: list[Question], count: int) -> None:
    """One day's decisions in a closed file, an hour as busy as the other."""
    draw = random.Random(day)
    began = _BEGAN + timedelta(days=day)
    with (folder / f"decisions-{day:03}.jsonl").open("w", encoding="utf-8") as lines:
        for at in range(count):
            asked = draw.choice(pool)
            time = began + timedelta(seconds=at * 86_400 // count)
            line = decision_line(
                time=f"{time:%Y-%m-%dT%H:%M:%S.%fZ}",
                epoch="",
                offset=-1,
                principal=asked.principal,
                host=asked.address,
                operation=AclOperation(asked.operation).name,
                resource_name=asked.resource_name,
            )
            lines.write(f"{json.dumps(line)}\n")


def _leaver(day: int) -> str:
    return f"User:leaver-{day:03}"


def _binding(day: int, number: int) -> AclBinding:
    principal = _leaver(day) if number % 2 else f"User:newcomer-{number % 97:02}"
    name = f"of-day-{day:03}-{number:05}"
    allow, literal = AclPermissionType.ALLOW, PatternType.LITERAL
    return AclBinding(ResourceType.TOPIC, name, literal, principal, "*", AclOperation.READ, allow)
