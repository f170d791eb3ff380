"""Lines of a process that ends, forks or fails, and of one whose output takes nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.logs.json_text import LogFormat
from tests.gate.unit.logs.test_service import FORMS

ROOT = Path(__file__).parents[4]


FULL_DISK = """
import logging, resource, sys
from app.logs.service import configure_logging
configure_logging("INFO")
log = logging.getLogger("app.test")
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
[handler] = logging.root.handlers
def written():
    while handler._size_out < handler._size_in: pass
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, most))
for number in range(5):
    log.info("before", extra={"number": number, "text": "y" * 900})
written()
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
log.info("after")
"""


def test_a_disk_that_was_full_costs_lines_and_the_log_says_how_many(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as out:
        done = subprocess.run([sys.executable, "-c", FULL_DISK], stderr=out, cwd=ROOT, check=False, timeout=60)
    first, torn, left_out, after = path.read_text().splitlines()
    assert (done.returncode, json.loads(first)["number"]) == (0, 0)
    assert (torn.endswith("yyy"), json.loads(left_out)["lines"], json.loads(after)["event"]) == (True, 4, "after")


NOBODY_READS = """
import logging, sys, threading
from app.logs.service import configure_logging
from app.process.processes import SharedOutput
configure_logging("INFO")
out, log = SharedOutput(), logging.getLogger("app.test")
written = 0
def audit():
    global written
    while True:
        out.write("x" * 30_000 + "\\n")
        written += 1
threading.Thread(target=audit, daemon=True).start()
while written < 2: pass
for _ in range(10): log.info("long", extra={"text": "y" * 30_000})

class Odd:
    def __init__(self): self.log = log.error
    def __del__(self): self.log("in_shutdown")

odd = Odd()
sys.stdout.flush()
"""


def test_a_process_whose_logs_nobody_reads_ends() -> None:
    pipe = subprocess.PIPE
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", NOBODY_READS]
    with subprocess.Popen(command, cwd=ROOT, env=buffered, stdout=pipe, stderr=pipe) as process:
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()


FORKS_AND_ENDS = """
import logging, os
from app.logs.service import configure_logging
configure_logging("INFO")
log = logging.getLogger("app.test")

class Odd:
    def __init__(self): self.log = log.error
    def __del__(self): self.log("in_shutdown", extra={"pid": os.getpid()})

odd = Odd()
log.info("before", extra={"pid": os.getpid()})
child = os.fork()
log.info("after", extra={"pid": os.getpid()})
if child:
    os.waitpid(child, 0)
"""


def test_lines_after_a_fork_and_in_the_interpreters_shutdown_are_written() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS_AND_ENDS], cwd=ROOT, capture_output=True, check=True, timeout=60)
    told = [json.loads(line) for line in done.stderr.splitlines()]
    [parent] = [each["pid"] for each in told if each["event"] == "before"]
    assert [each["event"] for each in told if each["pid"] == parent] == ["before", "after", "in_shutdown"]
    assert [each["event"] for each in told if each["pid"] != parent] == ["after", "in_shutdown"]


PROCESS = """
import asyncio, gc, sys, threading, warnings
from app.logs.service import configure_logging
configure_logging("INFO", form=sys.argv[1])

class Odd:
    def __del__(self): raise ValueError("unraisable\\nforged")

async def main():
    async def fails(): raise ValueError("of a task\\nforged")
    task = asyncio.get_running_loop().create_task(fails())
    await asyncio.sleep(0)
    del task
    gc.collect()

def of_a_thread(): raise ValueError("of a thread\\nforged")

Odd()
asyncio.run(main())
thread = threading.Thread(target=of_a_thread)
thread.start()
thread.join()
warnings.warn("heed\\nforged")
raise ValueError("of the process\\nforged")
"""


@pytest.mark.parametrize("form", FORMS)
def test_what_nobody_catches_is_an_event_too(form: LogFormat) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", PROCESS, form],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    if form == "TEXT":
        events = [line for line in done.stderr.split("\n") if line and not line.startswith("  ")]
        assert [line.split()[2:4] for line in events] == [
            ["app.logs.service", "unraisable_exception"], ["asyncio", "library_message"],
            ["app.logs.service", "uncaught_exception"], ["py.warnings", "library_message"],
            ["app.logs.service", "uncaught_exception"],
        ]  # fmt: skip
        return
    unraisable, task, thread, warning, process = map(json.loads, done.stderr.splitlines())
    assert (unraisable["event"], "Odd.__del__" in unraisable["what"]) == ("unraisable_exception", True)
    assert unraisable["exception"].endswith("ValueError: unraisable\nforged")
    assert (task["event"], task["logger"]) == ("library_message", "asyncio")
    assert task["message"].startswith("Task exception was never retrieved\n")
    assert task["exception"].endswith("ValueError: of a task\nforged")
    assert (thread["event"], thread["exception"][-6:]) == ("uncaught_exception", "forged")
    assert "heed\nforged" in warning["message"]
    assert (process["event"], process["level"]) == ("uncaught_exception", "CRITICAL")
    assert process["exception"].endswith("ValueError: of the process\nforged")


def test_ctrl_c_is_no_fault() -> None:
    program = "from app.logs.service import configure_logging\nconfigure_logging('INFO')\nraise KeyboardInterrupt"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (-2, b"")


def test_ctrl_c_that_reaches_a_finalizer_is_not_lost() -> None:
    program = """
import signal, time
from app.logs.service import configure_logging
configure_logging("INFO")

class Odd:
    def __del__(self): signal.raise_signal(signal.SIGINT)

Odd()
time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False, timeout=50)
    assert (done.returncode, done.stderr) == (-2, b"")
