"""Under what conditions the bench ran: without them a figure says nothing. Names no machine and no folder."""

import os
import platform
import statistics
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from tests.bench.load import generator
from tests.bench.processes import ROOT, two_cores

_BLOCK = bytes(8_192)
_QUIET = 0.3


def before() -> list[str]:
    """What is known at the start."""
    placed = "server on one, load and PostgreSQL on another" if two_cores() else "ONE for server and load together"
    packages = ", ".join(f"{name} {version(name)}" for name in ("uvicorn", "uvloop", "httptools", "msgspec", "asyncpg"))
    return [
        f"date: {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC; commit: {_commit()}",
        f"processor: {_processor()}, {os.cpu_count()} cores: {placed}",
        f"system: {platform.system()} {platform.machine()}; Python {platform.python_version()}; {packages}",
        f"load of the hot path: {generator()}",
        f"a write of 8 KiB with fdatasync takes {_sync_ms():.2f} ms here (median of 50)",
        f"load average before: {_load_average()}{_quietness()}",
    ]


def after(seconds: float) -> list[str]:
    """What is known in the end."""
    return [f"load average after (the bench itself is in it): {_load_average()}; the run took {seconds:,.0f} s"]


def _commit() -> str:
    try:
        said = [_git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said[0] + (", with changes that are not committed" if said[1] else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)  # noqa: S607 - whichever git
    return done.stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _load_average() -> str:
    return " ".join(f"{each:.2f}" for each in os.getloadavg())


def _quietness() -> str:
    return " (quiet)" if os.getloadavg()[0] <= _QUIET else " (NOT quiet: something else was running)"


def _sync_ms() -> float:
    times = []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(50):
            began = time.monotonic()
            file.write(_BLOCK)
            os.fdatasync(file.fileno())
            times.append((time.monotonic() - began) * 1_000)
    return statistics.median(times)
