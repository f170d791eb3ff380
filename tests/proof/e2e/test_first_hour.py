"""What somebody types in the first hour: docs/operations.md on callers, and a service at a terminal."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.klamm import LIMIT_S, ROOT
from tests.planted import plant, plant_of_folder
from tests.surroundings import without_ours

KLAMM = str(Path(sys.executable).with_name("klamm"))
NOWHERE = "postgresql://klamm@127.0.0.1:1/klamm"


@contextmanager
def _serving(stderr: int, environment: Mapping[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A service whose database is away: it says its settings all the same."""
    process = subprocess.Popen(
        [KLAMM, "serve", "--port", "0"],
        cwd=folder,
        env={**without_ours(), "KLAMM_DATABASE_URL": NOWHERE, "KLAMM_DRAIN_MS": "0", **environment},
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT_S)


def _first_line(descriptor: int) -> str:
    """What comes until the first line ends."""
    read = b""
    deadline = time.monotonic() + LIMIT_S
    while b"\n" not in read:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, "nothing came"
        read += os.read(descriptor, 65_536)
    return read.partition(b"\n")[0].decode().rstrip("\r")


@pytest.mark.parametrize(
    ("terminal", "environment", "json_lines"),
    [
        (True, {}, False),
        (False, {}, True),
        (True, {"KLAMM_LOG_FORMAT": "JSON"}, True),
        (False, {"KLAMM_LOG_FORMAT": "TEXT"}, False),
    ],
    ids=["terminal", "pipe", "terminal, JSON wanted", "pipe, TEXT wanted"],
)
def test_a_terminal_gets_plain_lines_and_all_else_json_unless_one_is_wanted(
    terminal: bool,  # noqa: FBT001 - a case
    environment: dict[str, str],
    json_lines: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
) -> None:
    ours, theirs = pty.openpty() if terminal else os.pipe()
    try:
        with _serving(theirs, environment, tmp_path):
            line = _first_line(ours)
    finally:
        os.close(ours)
        os.close(theirs)
    if json_lines:
        assert json.loads(line)["event"] == "settings"
    else:
        assert re.match(r"[-0-9T:.]+Z INFO app\.cli\.serving settings ", line)


def _section(title: str) -> str:
    text = (ROOT / "docs" / "operations.md").read_text()
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    return str(found)


def _blocks(section: str) -> list[str]:
    """The indented blocks, each as it would be typed."""
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", section, re.MULTILINE)
    return [re.sub(r"^    ", "", each, flags=re.MULTILINE).strip("\n") for each in found]


def _set_up(tmp_path: Path) -> str:
    """The commands of the section, without the one that serves, typed in a clone; gives the question."""
    before, ask = _blocks(_section("Callers"))
    *commands, serve = before.splitlines()
    assert serve == "../.venv/bin/klamm serve"
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    done = subprocess.run(
        ["/bin/bash", "-e", "-c", "\n".join(commands)],
        cwd=tmp_path,
        env=without_ours(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    plant((tmp_path / "with-callers" / "orders.token").read_text().strip())
    return ask


def test_the_readme_s_section_on_callers_works_as_it_is_typed(tmp_path: Path) -> None:
    ask = _set_up(tmp_path)
    folder = tmp_path / "with-callers"
    log = tmp_path / "log"
    with log.open("wb") as err:
        process = subprocess.Popen(
            ["../.venv/bin/klamm", "serve"],
            cwd=folder,
            env={**without_ours(), "KLAMM_PORT": "0", "KLAMM_DRAIN_MS": "0"},
            stdout=subprocess.DEVNULL,
            stderr=err,
        )
    try:
        address = _address(log, process)
        plant_of_folder(folder / ".klamm")
        _until_ready(address)
        answer = subprocess.run(
            ["/bin/bash", "-e", "-c", ask.replace("http://127.0.0.1:8080", address)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        assert json.loads(answer.stdout)["results"] == ["DENIED"]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + LIMIT_S
    while (found := re.search(r'serving","address":"([^"]+)', log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return found[1]


def _until_ready(address: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while httpx.get(f"{address}/readyz").status_code != httpx.codes.OK:
        assert time.monotonic() < deadline
        time.sleep(0.05)
