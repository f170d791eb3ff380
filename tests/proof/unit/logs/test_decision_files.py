"""Files of the decision log that a dead process left open, and a disk that takes a part of a write."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.gate.unit.logs.test_decision_files import files_in, names

WRITER = """
import sys, time
from pathlib import Path
from app.logs.decision_files import DecisionFiles, FileBounds
from app.metrics.declared import Metrics
bounds = FileBounds(folder=Path(sys.argv[1]), rotate_bytes=1000, rotate_s=60, retention_bytes=1 << 30)
files = DecisionFiles(bounds, Metrics())
files.append(b'{"n":1}\\n{"half')
print("written", flush=True)
time.sleep(600)
"""


def test_what_a_dead_process_left_open_is_closed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    def writer() -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        return process

    dead, living = writer(), writer()
    try:
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        files_in(tmp_path).tidy()
        assert len(names(tmp_path)) == 2
        [left_over] = tmp_path.glob("decisions-*.jsonl")
        assert f"-{dead.pid}-" in left_over.name
        assert left_over.read_bytes() == b'{"n":1}\n{"half'
        [opened] = tmp_path.glob("_decisions-*.jsonl")
        assert f"-{living.pid}-" in opened.name
    finally:
        for each in (dead, living):
            each.kill()
            each.wait()
            assert each.stdout is not None
            each.stdout.close()


FULL = """
import json, resource, sys
from pathlib import Path
from app.logs.decision_files import DecisionFiles, FileBounds
from app.metrics.declared import Metrics
bounds = FileBounds(folder=Path(sys.argv[1]), rotate_bytes=1 << 20, rotate_s=60, retention_bytes=1 << 30)
files = DecisionFiles(bounds, Metrics())
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
faults = 0
for number in range(30):
    line = json.dumps({"n": number, "x": "x" * 80}).encode() + b"\\n"
    while True:
        try:
            files.append(line)
        except OSError:
            faults += 1
        else:
            break
files.finish()
print(faults)
"""


def test_a_write_that_the_disk_cuts_off_leaves_whole_lines_and_none_twice(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) >= 2
    lines = [line for name in names(tmp_path) for line in (tmp_path / name).read_bytes().splitlines()]
    assert [json.loads(line)["n"] for line in lines] == list(range(30))
    assert all(name.startswith("decisions-") for name in names(tmp_path))
