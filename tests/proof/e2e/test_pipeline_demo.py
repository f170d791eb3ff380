"""`make pipeline-demo`, the README's command for the pipeline, run as a user would."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.java import find_java
from tests import quick_spark
from tests.klamm import ROOT, wait_until

PATIENCE_S = 2400.0
"""It takes two minutes alone on two cores; beside three other workers of the suite it has taken fifteen."""


def started(folder: Path, **variables: str) -> subprocess.Popen[str]:
    """The demo in this folder, all that it says in one stream."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KLAMM_") or "JDBC_JAR" in name}
    return subprocess.Popen(
        [sys.executable, "-m", "examples.pipeline_demo"],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": quick_spark.java_options(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def nothing_is_left(folder: Path) -> bool:
    """No service answers any more, and no process works in the demo's folder."""
    address = re.search(r"serving address=(\S+)", (folder / "build" / "pipeline-demo" / "service.log").read_text())
    assert address is not None
    try:
        httpx.get(f"{address[1]}/livez", timeout=5)
    except httpx.TransportError:
        return not any(str(folder) in text for text in command_lines())
    return False


def command_lines() -> Sequence[str]:
    """Of all processes, where the system tells."""
    said = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return said


def need_java() -> None:
    try:
        find_java(os.environ)
    except PipelineError as fault:
        pytest.skip(str(fault))


@pytest.mark.timeout(PATIENCE_S)
def test_the_demo_ends_with_a_report_that_shows_everything(tmp_path: Path) -> None:
    need_java()
    began = time.monotonic()
    with started(tmp_path) as demo:
        said = demo.communicate(timeout=PATIENCE_S)[0]
    print(f"the demo took {time.monotonic() - began:.0f} s")
    assert demo.returncode == 0, said
    assert "20,009 decisions were made" in said
    assert "what-if exited with 1" in said
    named = re.search(r"The report, to be opened in a browser: file://(\S+)", said)
    assert named is not None, said
    report = Path(named[1])
    assert report == tmp_path / "build" / "pipeline-demo" / "home" / "report.html"
    page = report.read_text(encoding="utf-8")
    for part in ("access", "what-if", "hygiene", "offenders", "growth", "decisions", "busiest"):
        assert f'id="chart-{part}"' in page, part
    for kind in ("UNUSED", "REDUNDANT", "VOID", "OVER_BROAD", "DETACHED"):
        assert kind in page
    told = said.partition("Three things that the report says:")[2].splitlines()[1:4]
    assert all(re.match(r"  - .*\d", line) for line in told), told
    assert nothing_is_left(tmp_path)


def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    need_java()
    log = tmp_path / "build" / "pipeline-demo" / "service.log"
    with started(tmp_path) as demo:
        wait_until(lambda: log.exists() and "serving address" in log.read_text(), "the service is there")
        demo.send_signal(signal.SIGINT)
        said = demo.communicate(timeout=120)[0]
    assert demo.returncode == 130, said
    assert "nothing is left running" in said
    wait_until(lambda: nothing_is_left(tmp_path), "nothing is left")


def test_without_java_it_stops_before_it_begins_and_says_the_way_out(tmp_path: Path) -> None:
    with started(tmp_path, JAVA_HOME=str(tmp_path / "absent")) as demo:
        said = demo.communicate(timeout=120)[0]
    assert demo.returncode == 2, said
    assert "Java 17, 21 or 25" in said
    assert "klamm[spark-jvm]" in said
    assert list(tmp_path.iterdir()) == []
