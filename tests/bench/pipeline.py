"""Section `pipeline`: what the Spark jobs take at three sizes, each twice the one before, as commands."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.bench.postgres import Server, filled_store
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
    Twice the size may cost twice the CPU time at most.
"""


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
    tables = [Table("Wall time", walls), Table("For twice the size", growth)]
    return Section("pipeline", prose(_METHOD), [table.judged(unless=quick) for table in tables])


def run_module(module: str, *arguments: str) -> None:
    with all_cores():
        command = [sys.executable, "-m", module, *arguments]
        subprocess.run(command, cwd=ROOT, check=True, timeout=_JOB_TIMEOUT_S, stderr=subprocess.DEVNULL)


def _costs(server: Server, size: int, home: Path) -> list[tuple[str, Cost]]:
    dsn = filled_store(server, size)
    # Its own home: the company is not what the store holds.
    exported = [("export", _cost(dsn, home.with_name("export"), ["export"]))]
    run_module("tests.bench.company_at_scale", str(home), str(size))
    jobs = {
        "effective": ["effective", "--resources", str(home / "resources.parquet")],
        "hygiene": ["hygiene", "--min-days", "0", "--resources", str(home / "resources.parquet")],
        "report": ["report"],
        "what-if": ["what-if", "--delete", str(home / "change.json")],
    }
    return [*exported, *((job, _cost(dsn, home, arguments)) for job, arguments in jobs.items())]


def _cost(dsn: str, home: Path, arguments: Sequence[str]) -> Cost:
    return cost_of([*arguments, "--home", str(home), "--driver-memory", _MEMORY], klamm_environment(dsn))


def cost_of(arguments: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """What `klamm pipeline` takes, with all that this process has begun before.

    Raises ChildProcessError with what it said if it failed.
    """
    before = cpu_by_process(os.getpid())
    spent = dict(before)
    began = time.monotonic()
    with tempfile.TemporaryFile() as said, all_cores():
        job = subprocess.Popen(
            [*klamm_command("pipeline"), *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=said,
            stderr=said,
        )
        try:
            while job.poll() is None and time.monotonic() - began < _JOB_TIMEOUT_S:
                # A process that has ended takes its figure with it: the last one seen counts.
                spent |= cpu_by_process(os.getpid())
                time.sleep(_POLL_S)
        finally:
            job.kill()
        if job.wait() not in (0, 1):
            said.seek(0)
            raise ChildProcessError(said.read().decode(errors="replace")[-2_000:])
    return Cost(time.monotonic() - began, sum(spent.values()) - sum(before.values()))
