"""Section `pipeline`: what the Spark jobs cost at three sizes, each twice the one before, and after days of history."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.bench.postgres import Server, filled_store, store_of
from tests.bench.processes import ROOT, all_cores, cpu_by_process, klamm_command, klamm_environment
from tests.bench.report import Row, Section, Table, prose

_SIZES, _QUICK_SIZES = (250_000, 500_000, 1_000_000), (5_000, 10_000, 20_000)
_JOB_TIMEOUT_S = 1_200.0
_POLL_S = 0.1
_MEMORY = "4g"
_METHOD = f"""
    Real `klamm pipeline` commands in local[*] on both cores, a driver of {_MEMORY}; wall time of the command and
    CPU time of all its processes (JVM, Python), both from its start to its end, once each. A company of so many
    ACLs has a fifth as many resources, a hundredth as many principals and ten times as many logged decisions.
    `hygiene` finds all that it knows: unused, redundant, void, over-broad, detached. what-if takes the ACLs of a
    team and of an application away. A start of Spark alone takes some 10 s of CPU, which is in every figure.
    Twice the size may cost twice the CPU time at most. For the nights, a store changes by a hundredth of its ACLs a
    day, and logs as many decisions a day as it has ACLs, out of half as many questions; all that was recorded and
    logged before is in the home already. In the skewed log half of the decisions are one principal's.
"""
_DAYS, _QUICK_DAYS = (1, 10, 30), (1, 2, 4)
_NIGHT_ACLS, _QUICK_NIGHT_ACLS = 20_000, 2_000


class Cost(NamedTuple):
    """Seconds of one command."""

    wall_s: float
    cpu_s: float


def pipeline(server: Server, *, quick: bool) -> Section:
    """All jobs at three sizes; and how the cost grows."""
    sizes = _QUICK_SIZES if quick else _SIZES
    costs: dict[str, list[Cost]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for job, cost in _costs(server, size, Path(folder, "home")):
                costs.setdefault(job, []).append(cost)
    bars = {"export": 60.0, "effective": 120.0, "hygiene": 300.0, "what-if": 300.0}
    walls, growth = [], []
    for job, measured in costs.items():
        walls += [
            Row(f"{job}, {size:,} ACLs", "s", [cost.wall_s], note=f"{cost.cpu_s:.0f} s of CPU")
            for size, cost in zip(sizes, measured, strict=True)
        ]
        walls[-1] = Row(walls[-1].what, "s", walls[-1].ours, bar=bars.get(job), note=walls[-1].note)
        growth.append(Row(job, "times the CPU", [more.cpu_s / less.cpu_s for less, more in pairwise(measured)], bar=2))
    reports = [report.cpu_s / hygiene.cpu_s for report, hygiene in zip(costs["report"], costs["hygiene"], strict=True)]
    growth.append(Row("report, for hygiene", "times the CPU", reports, bar=1))
    tables = [Table("Wall time", walls), Table("For twice the size", growth), _nights(server, quick=quick)]
    tables.append(_skewed(server, sizes[-1], costs["what-if"][-1]))
    return Section("pipeline", prose(_METHOD), [_judged(table, unless=quick) for table in tables])


def _judged(table: Table, *, unless: bool) -> Table:
    return Table(table.title, [row.judged(unless=unless) for row in table.rows])


def _nights(server: Server, *, quick: bool) -> Table:
    """`nightly` after so many days, each with the same work."""
    days, acls = (_QUICK_DAYS, _QUICK_NIGHT_ACLS) if quick else (_DAYS, _NIGHT_ACLS)
    filled_store(server, acls)
    server.execute('DROP DATABASE IF EXISTS "nights" WITH (FORCE)')
    server.execute(f'CREATE DATABASE "nights" TEMPLATE "{store_of(acls)}"')
    dsn, rows, first = server.store("nights"), [], 1
    with tempfile.TemporaryDirectory() as folder:
        home, logs = Path(folder, "home"), Path(folder, "logs")
        for day in days:
            _run("tests.bench.aged_home", dsn, str(home), str(logs), str(acls), str(first), str(day))
            cost = _cost(dsn, home, ["nightly", "--decisions", str(logs), "--min-days", "0"])
            rows.append(Row(f"nightly, day {day}", "s of CPU", [cost.cpu_s], note=f"{cost.wall_s:.0f} s of wall time"))
            first = day + 1
    ratio = rows[-1].ours[0] / rows[0].ours[0]
    rows.append(Row(f"day {days[-1]}, for day {days[0]}", "times the CPU", [ratio], bar=1.25))
    return Table(f"Nights, {acls:,} ACLs and decisions a day", rows)


def _skewed(server: Server, size: int, even: Cost) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        _run("tests.bench.company_at_scale", str(home), str(size), "skewed")
        cost = _cost(server.dsn, home, ["what-if", "--delete", str(home / "change.json")])
    what = f"what-if, {10 * size:,} decisions"
    rows = [
        Row(f"{what}, half of them one principal's", "s of CPU", [cost.cpu_s], [even.cpu_s]),
        Row(f"{what}, half of them one principal's", "s of wall time", [cost.wall_s], [even.wall_s]),
    ]
    return Table("A log of which one principal has half", rows, yardstick="spread evenly")


def _run(module: str, *arguments: str) -> None:
    with all_cores():
        command = [sys.executable, "-m", module, *arguments]
        subprocess.run(command, cwd=ROOT, check=True, timeout=_JOB_TIMEOUT_S, stderr=subprocess.DEVNULL)


def _costs(server: Server, size: int, home: Path) -> list[tuple[str, Cost]]:
    dsn = filled_store(server, size)
    # Its own home: the company is not what the store holds.
    exported = [("export", _cost(dsn, home.with_name("export"), ["export"]))]
    _run("tests.bench.company_at_scale", str(home), str(size))
    jobs = {
        "effective": ["effective", "--resources", str(home / "resources.parquet")],
        "hygiene": ["hygiene", "--min-days", "0", "--resources", str(home / "resources.parquet")],
        "report": ["report"],
        "what-if": ["what-if", "--delete", str(home / "change.json")],
        "who": ["who", "topic:team1.app1.topic541"],
    }
    return [*exported, *((job, _cost(dsn, home, arguments)) for job, arguments in jobs.items())]


def _cost(dsn: str, home: Path, arguments: Sequence[str]) -> Cost:
    """What one command takes. Raises ChildProcessError with what it said if it failed."""
    command = [*klamm_command("pipeline"), *arguments, "--home", str(home), "--driver-memory", _MEMORY]
    spent: dict[int, float] = {}
    began = time.monotonic()
    with tempfile.TemporaryFile() as said, all_cores():
        job = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **klamm_environment(dsn)}, stdout=said, stderr=said
        )
        try:
            while job.poll() is None and time.monotonic() - began < _JOB_TIMEOUT_S:
                # A process that has ended takes its figure with it: the last one seen counts.
                spent |= cpu_by_process(job.pid)
                time.sleep(_POLL_S)
        finally:
            job.kill()
        if job.wait() not in (0, 1):
            said.seek(0)
            raise ChildProcessError(said.read().decode(errors="replace")[-2_000:])
    return Cost(time.monotonic() - began, sum(spent.values()))
