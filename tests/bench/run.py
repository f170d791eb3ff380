"""`make bench`: all sections one after the other, their tables, and docs/benchmarks-tables.md.

Each section runs in a process of its own with a time limit; one that fails says so, and the others go on.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tests.bench import conditions
from tests.bench.postgres import Server, postgres
from tests.bench.processes import ROOT, all_cores
from tests.bench.report import Section, markdown, verdicts
from tests.bench.section import ALONE, STORED

_PAGE = ROOT / "docs" / "benchmarks-tables.md"
_SECTIONS = (*ALONE, *STORED)
_TIMEOUTS_S = MappingProxyType(
    {
        "http": 900,
        "batch": 900,
        "decision-log": 600,
        "overload": 900,
        "unauthenticated": 900,
        "in-process": 900,
        "assertions": 900,
        "import": 600,
        "memory": 900,
        "reload": 1_200,
        "acls": 900,
        "past": 2_400,
        "console": 1_200,
        "writes": 600,
        "watch": 600,
        "pipeline": 5_400,
        "pipeline-cost": 5_400,
        "skew": 2_400,
    }
)
_QUICK_TIMEOUT_S = 60
_ON_SPARK = ("pipeline", "pipeline-cost", "skew")
_QUICK_SPARK_TIMEOUT_S = 600
_STOP_TIMEOUT_S = 30
_SIGN = """\
# Benchmarks

Written by `make bench`; not edited by hand. Figures are medians of rounds, with the lowest and highest in brackets.
Bars and goals are what Klamm has set itself; a bar is held if the median reaches it.
"""


class Outcome(NamedTuple):
    """A section, or why there is none."""

    name: str
    section: Section | None
    said: str


def main() -> int:
    """Measure, print, write. 1: a section failed."""
    # What has been started is ended in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = _arguments()
    began = time.monotonic()
    told = conditions.before()
    _say("\n".join(f"- {line}" for line in told))
    with _shared(arguments.only) as server:
        told += [] if server is None else [f"PostgreSQL {server.execute('SHOW server_version')}, embedded, fsync on"]
        outcomes = []
        for name in arguments.only:
            outcomes.append(_measured(name, server, quick=arguments.quick))
            _say(_shown(outcomes[-1]))
    told += conditions.after(time.monotonic() - began)
    page = _page(outcomes, told, quick=arguments.quick)
    _say(_summary(outcomes))
    if arguments.output is not None:
        arguments.output.write_text(page, encoding="utf-8")
        _say(f"written: {arguments.output.name}")
    return int(any(outcome.section is None for outcome in outcomes))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--quick", action="store_true", help="small sizes, short rounds: under two minutes in all")
    parser.add_argument("--only", default="", help=f"sections with commas between: {', '.join(_SECTIONS)}")
    parser.add_argument("--output", type=Path, help="file to write (docs/benchmarks-tables.md after a full run)")
    arguments = parser.parse_args()
    wanted = [name for name in arguments.only.split(",") if name]
    unknown = sorted(set(wanted) - set(_SECTIONS))
    if unknown:
        parser.error(f"no section `{unknown[0]}`; there are {', '.join(_SECTIONS)}")
    arguments.only = [name for name in _SECTIONS if name in wanted or not wanted]
    if arguments.quick and not wanted:
        # Its processes alone take longer to start than all the rest takes.
        arguments.only = [name for name in arguments.only if name not in _ON_SPARK]
    if arguments.output is None and not wanted and not arguments.quick:
        arguments.output = _PAGE
    return arguments


@contextmanager
def _shared(names: Sequence[str]) -> Iterator[Server | None]:
    """The PostgreSQL that the sections on it have in common."""
    with postgres() if set(names) & set(STORED) else nullcontext() as server:
        yield server


def _quick_limit_s(name: str) -> int:
    return _QUICK_SPARK_TIMEOUT_S if name in _ON_SPARK else _QUICK_TIMEOUT_S


def _measured(name: str, server: Server | None, *, quick: bool) -> Outcome:
    """One section, in a session of its own so that nothing that it started outlives it."""
    _say(f"\n... {name}")
    command = [sys.executable, "-m", "tests.bench.section", name, *(["--quick"] if quick else [])]
    environment = {**os.environ, **({} if server is None else {"BENCH_DSN": server.dsn})}
    limit_s = _quick_limit_s(name) if quick else _TIMEOUTS_S[name]
    began = time.monotonic()
    # INVARIANT: a section shares the cores out anew; it must not begin on the one that PostgreSQL was begun on.
    with all_cores():
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, start_new_session=True)
    with process, _ended_with_all(process):
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return Outcome(name, None, f"not measured: it took longer than {limit_s} s")
    if process.returncode:
        return Outcome(name, None, f"not measured: it failed with status {process.returncode}, see its output")
    took = f"measured in {time.monotonic() - began:.0f} s"
    return Outcome(name, msgspec.json.decode(said, type=Section), took)


@contextmanager
def _ended_with_all(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """In the end nothing of the process' session is left."""
    try:
        yield
    finally:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, sig)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_TIMEOUT_S)


def _shown(outcome: Outcome) -> str:
    """The section as it stands in the page."""
    lines = [f"## {outcome.name}", "", f"{outcome.said[0].upper()}{outcome.said[1:]}."]
    if outcome.section is not None:
        lines += ["", outcome.section.method]
        for table in outcome.section.tables:
            lines += ["", markdown(table)]
    return "\n".join(lines)


def _page(outcomes: Sequence[Outcome], told: Sequence[str], *, quick: bool) -> str:
    form = "\nThis is the short form (QUICK=1): small sizes, few rounds.\n" if quick else ""
    parts = [_SIGN + form, "## Conditions\n\n" + "\n".join(f"- {line}" for line in told)]
    parts += ["## In all\n\n" + _summary(outcomes), *map(_shown, outcomes)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _summary(outcomes: Sequence[Outcome]) -> str:
    held, missed = verdicts([outcome.section for outcome in outcomes if outcome.section is not None])
    lines = [f"{held} bars held, {len(missed)} not."]
    lines += [f"- {each}" for each in missed]
    lines += [f"- {outcome.name}: {outcome.said}" for outcome in outcomes if outcome.section is None]
    return "\n\n".join([lines[0], "\n".join(lines[1:])]) if len(lines) > 1 else lines[0]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
