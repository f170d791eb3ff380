"""One section of the bench in a process of its own: `python -m tests.bench.section NAME [--quick]`.

Prints the section as JSON. What the sections share comes from `run` through BENCH_DSN, the embedded PostgreSQL.
"""

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import msgspec

from tests.bench.asserted import assertions
from tests.bench.console import console
from tests.bench.hot_path import batch, decision_log, http
from tests.bench.in_process import in_process
from tests.bench.listing import acls
from tests.bench.overload import overload
from tests.bench.past import past
from tests.bench.pipeline import pipeline
from tests.bench.pipeline_cost import pipeline_cost
from tests.bench.postgres import Server
from tests.bench.processes import Core, on_core
from tests.bench.report import Section
from tests.bench.skew import skew
from tests.bench.stored import bulk_import, memory, reload
from tests.bench.unauthenticated import unauthenticated
from tests.bench.watch import watch
from tests.bench.writes import writes


class Alone(Protocol):
    """A section that needs nothing."""

    def __call__(self, *, quick: bool) -> Section: ...


class Stored(Protocol):
    """A section on PostgreSQL."""

    def __call__(self, server: Server, *, quick: bool) -> Section: ...


ALONE: Mapping[str, Alone] = MappingProxyType(
    {
        "http": http,
        "batch": batch,
        "decision-log": decision_log,
        "overload": overload,
        "unauthenticated": unauthenticated,
        "in-process": in_process,
        "assertions": assertions,
        "skew": skew,
    }
)
STORED: Mapping[str, Stored] = MappingProxyType(
    {
        "import": bulk_import,
        "memory": memory,
        "reload": reload,
        "acls": acls,
        "past": past,
        "console": console,
        "writes": writes,
        "watch": watch,
        "pipeline": pipeline,
        "pipeline-cost": pipeline_cost,
    }
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=[*ALONE, *STORED])
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    # What has been started is ended in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with on_core(Core.LOAD):
        section = _measured(arguments.name, quick=arguments.quick)
    sys.stdout.buffer.write(msgspec.json.encode(section))


def _measured(name: str, *, quick: bool) -> Section:
    if name in ALONE:
        return ALONE[name](quick=quick)
    return STORED[name](Server(os.environ["BENCH_DSN"]), quick=quick)


if __name__ == "__main__":
    main()
