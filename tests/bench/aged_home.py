"""A home that has seen some days: `python -m tests.bench.aged_home DSN HOME LOGS ACLS FIRST LAST`.

Day by day a hundredth of the ACLs is created and half as many are removed, and as many decisions as there are ACLs are
logged; the questions of all days are drawn from the same, half as many as ACLs. Each day is a batch of the decision log
of its own; what was recorded is exported and made a snapshot of every third day. The last day is left to be measured:
it is in the store and in the folder of the log only.
"""

import asyncio
import json
import os
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.core.continuity import KnownHistory
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.formats.database_url import DatabaseUrl
from app.pipeline.jobs import export, ingest, snapshot
from app.pipeline.spark.jdbc_driver import find_driver
from app.pipeline.spark.session import SessionOptions, spark_session
from app.store.writing.acl_store import PostgresAclStore
from tests.bench.workload import Question, realistic
from tests.pipeline.histories import password_of, run_job
from tests.updates import create, delete

_BEGAN = datetime(2026, 10, 1, tzinfo=UTC)
_AT_ONCE = 200
_DAYS_A_SNAPSHOT = 3
_SHARED = {
    "epoch": "",
    "offset": -1,
    "listener_name": None,
    "request_type": 1,
    "client_id": None,
    "caller": None,
    "result": "DENIED",
    "rule": "DefaultDeny",
    "acl_id": None,
    "sampled": 1.0,
}


async def change_store(dsn: str, day: int, created: int) -> None:
    """One day's changes: ACLs of this day are created, and half of those of the day before removed."""
    store = PostgresAclStore(DatabaseUrl.parse(dsn))
    for first in range(0, created, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, created))
        await store.write([create(*(_binding(day, number) for number in numbers))], KnownHistory())
    gone = AclBindingFilter(principal=_leaver(day - 1))
    await store.write([delete(gone)], KnownHistory())
    await store.close()


def write_day(folder: Path, day: int, pool: list[Question], count: int) -> None:
    """One day's decisions in a closed file, an hour as busy as the other."""
    draw = random.Random(day)
    began = _BEGAN + timedelta(days=day)
    with (folder / f"decisions-{day:03}.jsonl").open("w", encoding="utf-8") as lines:
        for at in range(count):
            asked = draw.choice(pool)
            time = began + timedelta(seconds=at * 86_400 // count)
            line = {
                "time": f"{time:%Y-%m-%dT%H:%M:%S.%fZ}",
                "principal": asked.principal,
                "host": asked.address,
                "operation": AclOperation(asked.operation).name,
                "resource_type": "TOPIC",
                "resource_name": asked.resource_name,
                **_SHARED,
            }
            lines.write(f"{json.dumps(line)}\n")


def _leaver(day: int) -> str:
    return f"User:leaver-{day:03}"


def _binding(day: int, number: int) -> AclBinding:
    principal = _leaver(day) if number % 2 else f"User:newcomer-{number % 97:02}"
    name = f"of-day-{day:03}-{number:05}"
    allow, literal = AclPermissionType.ALLOW, PatternType.LITERAL
    return AclBinding(ResourceType.TOPIC, name, literal, principal, "*", AclOperation.READ, allow)


def main() -> None:
    """Age the home."""
    dsn, home, logs = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    acls, first, last = map(int, sys.argv[4:])
    os.environ.update(password_of(dsn))
    pool = realistic(acls).questions(acls // 2)
    driver = find_driver(None, os.environ)
    options = SessionOptions("ageing", "local[2]", driver_memory="2g", shuffle_partitions=8, driver=driver)
    spark = spark_session(options)
    logs.mkdir(exist_ok=True)
    for day in range(first, last):
        asyncio.run(change_store(dsn, day, acls // 100))
        write_day(logs, day, pool, acls)
        if day % _DAYS_A_SNAPSHOT == 0:
            run_job(spark, export, home, dsn)
            run_job(spark, snapshot, home, dsn)
    if first < last:
        run_job(spark, ingest, home, dsn, "--decisions", str(logs), "--files-at-once", "1")
    spark.stop()
    asyncio.run(change_store(dsn, last, acls // 100))
    write_day(logs, last, pool, acls)


if __name__ == "__main__":
    main()
