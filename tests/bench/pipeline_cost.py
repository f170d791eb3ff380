"""Section `pipeline-cost`: the CPU time of each job at three sizes and after three histories, in one warm session."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from pyspark.sql import SparkSession

from app.pipeline.jobs import effective, export, hygiene, ingest, nightly, report, snapshot, what_if
from app.pipeline.spark.jdbc_driver import find_driver
from app.pipeline.spark.session import SessionOptions, spark_session
from tests.bench.aged_home import AgedHome
from tests.bench.postgres import Server, filled_store, store_of
from tests.bench.processes import all_cores, cpu_with_ended_s
from tests.bench.report import Row, Section, Table, prose
from tests.pipeline_jobs import password_of, run_job

_SIZES, _QUICK_SIZES = (5_000, 20_000, 80_000), (1_000, 2_000, 4_000)
_DAYS, _QUICK_DAYS = (1, 10, 30), (1, 3, 5)
_WARM_UPS = 2
_MEMORY = "4g"
_METHOD = f"""
    All jobs one after the other in one session of local[2], a driver of {_MEMORY}; CPU time of driver and Python
    workers together (not of PostgreSQL), once each. Before anything counts, all jobs have run {_WARM_UPS} times at the
    smallest size, so that what Java compiles at first is in no figure; a command of its own pays it. A store has a
    fifth as many topics as ACLs, and logs as many decisions a day as it has ACLs, out of half as many questions; a
    hundredth of its ACLs is created a day. Each job does the work of the last day: all that was recorded and logged
    before is in the home already. `nightly` is the day after that. what-if takes a principal's ACLs away.
"""

_Costs = Mapping[str, float]


def pipeline_cost(server: Server, *, quick: bool) -> Section:
    """What grows with the size, and what with the history."""
    sizes, days = (_QUICK_SIZES, _QUICK_DAYS) if quick else (_SIZES, _DAYS)
    with all_cores(), tempfile.TemporaryDirectory() as name, _session() as spark:
        folder = Path(name)
        for number in range(_WARM_UPS):
            _day(spark, _home(server, folder / f"warm-{number}", sizes[0]), 1)
        old = _home(server, folder / "old", sizes[0])
        by_days = [_day(spark, old, day) for day in days]
        by_size = by_days[:1]
        for size in sizes[1:]:
            by_size.append(_day(spark, _home(server, folder / f"of-{size}", size), 1))
    tables = [
        _table("ACLs, day 1", [f"{size:,} ACLs" for size in sizes], by_size, sizes[-1] / sizes[0]),
        _table(f"{sizes[0]:,} ACLs", [f"day {day}" for day in days], by_days, 1.25),
        _reports([*by_days, *by_size[1:]]),
    ]
    return Section("pipeline-cost", prose(_METHOD), [table.judged(unless=quick) for table in tables])


def _table(title: str, heads: list[str], costs: list[_Costs], bar: float) -> Table:
    rows = []
    for job in costs[0]:
        rows += [Row(f"{job}, {head}", "s of CPU", [each[job]]) for head, each in zip(heads, costs, strict=True)]
        more = costs[-1][job] / costs[0][job]
        rows.append(Row(f"{job}, {heads[-1]} for {heads[0]}", "times the CPU", [more], bar=bar))
    return Table(f"CPU time, {title}", rows)


def _reports(costs: list[_Costs]) -> Table:
    shares = [each["report"] / each["hygiene"] for each in costs]
    return Table("Report and hygiene", [Row("report, for hygiene", "times the CPU", shares, bar=1)])


@contextmanager
def _session() -> Iterator[SparkSession]:
    driver = find_driver(None, os.environ)
    spark = spark_session(
        SessionOptions("cost", "local[2]", driver_memory=_MEMORY, shuffle_partitions=8, driver=driver, quiet=True)
    )
    try:
        yield spark
    finally:
        spark.stop()


def _home(server: Server, folder: Path, acls: int) -> AgedHome:
    filled_store(server, acls)
    name = f"cost_{folder.name.replace('-', '_')}"
    server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{store_of(acls)}"')
    folder.mkdir()
    dsn = server.store(name)
    os.environ.update(password_of(dsn))
    return AgedHome(folder, dsn, acls)


def _day(spark: SparkSession, aged: AgedHome, day: int) -> _Costs:
    """What each job costs on this day, and `nightly` on the next."""
    aged.age(spark, day)
    asked = aged.asked[0]
    change = aged.home.with_name("change.json")
    change.write_text(f'{{"filters": [{{"principal": "{asked.principal}"}}]}}', encoding="utf-8")
    decisions = ["--decisions", str(aged.logs)]
    jobs: list[tuple[ModuleType, list[str]]] = [
        (export, []),
        (ingest, decisions),
        (snapshot, []),
        (effective, []),
        (hygiene, ["--min-days", "0"]),
        (report, []),
        (what_if, ["--delete", str(change)]),
    ]
    costs = {job.JOB.name: _cost(spark, job, aged, arguments) for job, arguments in jobs}
    aged.begin_day()
    costs["nightly"] = _cost(spark, nightly, aged, [*decisions, "--min-days", "0"])
    said = ", ".join(f"{job} {cost:.1f}" for job, cost in costs.items())
    sys.stderr.write(f"{aged.home.parent.name}, day {day}: {said}\n")
    return costs


def _cost(spark: SparkSession, job: ModuleType, aged: AgedHome, arguments: list[str]) -> float:
    began = cpu_with_ended_s(os.getpid())
    run_job(spark, job, aged.home, aged.dsn, *arguments)
    return cpu_with_ended_s(os.getpid()) - began
