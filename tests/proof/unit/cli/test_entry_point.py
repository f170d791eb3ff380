"""Signals that come before a command does anything, and what a command loads."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.commands import COMMANDS
from tests.surroundings import of_a_command

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def clean_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is started gets no variable of ours."""
    with of_a_command(monkeypatch, tmp_path):
        yield


def test_an_interruption_of_the_very_start_is_no_fault(subtests: pytest.Subtests) -> None:
    for command, status in [("serve", 0), ("openapi", 130), ("migrate", 130), ("import", 130)]:
        for order in [signal.SIGINT, signal.SIGTERM]:
            with subtests.test(command=command, status=status, order=order):
                # As if it came while the first of the imports is under way.
                code = (
                    "import os, sys\n"
                    "class Interrupts:\n"
                    "    def find_spec(self, name, *_):\n"
                    f"        if name == 'pydantic': os.kill(os.getpid(), {int(order)})\n"
                    "sys.meta_path.insert(0, Interrupts())\n"
                    "from app.cli.entry_point import main\n"
                    f"sys.exit(main({['import', 'acls.csv'] if command == 'import' else [command]}))\n"
                )
                done = subprocess.run(
                    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
                )
                assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


@pytest.mark.parametrize("signals", ["[SIGINT]", "[SIGTERM]", "[SIGINT, SIGTERM]"])
@pytest.mark.parametrize("when", ["at once", "while it loads"])
def test_a_worker_that_is_interrupted_before_it_serves_ends_in_order(signals: str, when: str) -> None:
    """Also in code made from text, out of which Python would die by SIGINT even if the exception is caught."""
    at_once, loads = ("send", "0") if when == "at once" else ("int", "exec('send()')")
    code = (
        "import socket, sys\nfrom signal import *\nfrom types import SimpleNamespace as Order\n"
        "from app.cli import worker\n"
        f"def send():\n    for each in {signals}: raise_signal(each)\n"
        "sys.argv = ['worker', '1', str(socket.socket().detach())]\n"
        "worker.receive_order = lambda _: Order(supervisor=1, settings=None, number=1)\n"
        "worker.end_with = lambda _: None\n"
        f"worker.begin_logging = lambda *_: {loads}\n"
        "pthread_sigmask(SIG_BLOCK, [SIGINT, SIGTERM])\n"
        f"{at_once}()\n"
        "worker.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("serving", "app.store.embedded alembic asyncpg cryptography fastapi httpx jwt sqlalchemy uvicorn"),
        ("serving, app.cli.main", "app.store.embedded alembic cryptography httpx jwt sqlalchemy"),
        ("worker", "app.store.embedded alembic cryptography httpx jwt sqlalchemy"),
    ],
    ids=["a supervisor", "one process", "a worker"],
)
def test_serving_loads_only_what_it_needs(modules: str, absent: str) -> None:
    code = (
        f"import sys, app.cli.{modules}\n"
        f"print([name for name in {absent.split()} if any(each.startswith(name) for each in sys.modules)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


_SLOW = (
    "alembic asyncpg asyncio cryptography fastapi httpx jinja2 jwt opentelemetry prometheus_client pydantic "
    "pydantic_settings pyspark rich sqlalchemy ssl starlette uvicorn"
)


def test_help_and_refusals_load_nothing_that_serves_or_speaks_http() -> None:
    """In one process: what any of them loads stays loaded."""
    told = [
        ["--help"],
        ["--version"],
        ["help"],
        ["srve"],
        ["help", "why"],
        *([name, "--help"] for name in COMMANDS if name not in ("import", "pipeline")),
        ["serve", "--prot", "1"],
        ["acls", "--list", "--topik", "orders"],
    ]
    code = (
        "import json, sys\n"
        "from app.cli.entry_point import main\n"
        "told = json.loads(sys.argv[1])\n"
        "for arguments in told:\n"
        "    try: main(arguments)\n"
        "    except SystemExit: pass\n"
        f"    loaded = {{name.partition('.')[0] for name in sys.modules}} & set('{_SLOW}'.split())\n"
        "    if loaded: break\n"
        "sys.stderr.write(f'LOADED {sorted(loaded)} {arguments if loaded else len(told)}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(told)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr.partition("LOADED ")[2] == f"[] {len(told)}"
