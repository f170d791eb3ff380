"""Section `assertions`: `klamm test` as a command, over files of ACLs."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

from tests.bench.postgres import write_acls
from tests.bench.processes import ROOT, klamm_command
from tests.bench.report import Row, Section, Table, prose
from tests.bench.workload import Workload, realistic
from tests.surroundings import without_ours

_ASSERTIONS = 1_000
_BARS_S = {10_000: 1, 1_000_000: 5}
_ROUNDS = 3
_TIMEOUT_S = 300
_ENDS = (0, 1)
"""All hold, or some do not."""
_METHOD = f"""
    The real `klamm test` with {_ASSERTIONS:,} assertions, from its start to its end: half say what one principal may do
    on one topic, half who else may not, and most of them do not hold. The ACLs are a file of JSON lines.
"""


def assertions(*, quick: bool) -> Section:
    sizes = tuple(_BARS_S)[: 1 if quick else None]
    rows = [each for size in sizes for each in _rows(realistic(size), _BARS_S[size])]
    return Section("assertions", prose(_METHOD), [Table("klamm test", rows)])


def _rows(workload: Workload, bar_s: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        acls, said = Path(folder, "acls.jsonl"), Path(folder, "access.yaml")
        write_acls(acls, workload.rows)
        said.write_text("".join(_sentences(workload)), encoding="utf-8")
        command = [*klamm_command("test"), str(said), "--acls", str(acls), "--output", "junit"]
        took, used = zip(*(_run(command) for _ in range(_ROUNDS)), strict=True)
    what = f"{_ASSERTIONS:,} assertions over {len(workload.rows):,} ACLs"
    return [Row(f"{what}: time", "s", list(took), bar=bar_s), Row(f"{what}: CPU", "s", list(used))]


def _sentences(workload: Workload) -> list[str]:
    drawn = workload.questions(_ASSERTIONS)
    subjects = (f"{'nobody but ' if at % 2 else ''}{each.principal}" for at, each in enumerate(drawn))
    return [f"- {subject} may READ topic:{each.resource_name}\n" for subject, each in zip(subjects, drawn, strict=True)]


def _run(command: list[str]) -> tuple[float, float]:
    """Seconds, and those of CPU."""
    began, before = time.monotonic(), os.times()
    done = subprocess.run(
        command, cwd=ROOT, env=without_ours(), capture_output=True, timeout=_TIMEOUT_S, check=False, text=True
    )
    if done.returncode not in _ENDS:
        raise RuntimeError(done.stderr[-2_000:])
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - began, cpu
