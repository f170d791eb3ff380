"""A real browser, headless, that says what it drew, what it logged and what it asked for."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-domain-reliability",
    "--no-first-run",
    "--no-pings",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
)
_PATIENCE_S = 120.0
_OWN = re.compile(r"https?://(?:[\w-]+\.)*(?:google|googleapis|gvt1|gstatic)\.com[/:]")
"""What the browser asks for by itself, whatever it shows: its maker's own servers."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What came of showing a file: its document as text, what it said on the console, and requests of the network."""

    document: str
    console: Sequence[str]
    requests: Sequence[str]


def chromium() -> str:
    """The browser's command. Skips the test where there is none."""
    named = os.environ.get("KLAMM_TEST_CHROMIUM")
    found = named or next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium: apt-get install --no-install-recommends chromium, or name one by KLAMM_TEST_CHROMIUM")
    return found


def visit(page: Path, folder: Path, *more: str, fragment: str = "") -> Visit:
    """Show the file, wait until it has come to rest, and tell. `folder` is for the browser's own files."""
    net_log = folder / "net-log.json"
    flags = [*_FLAGS, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={net_log}", *more]
    ended = subprocess.run(
        [chromium(), *flags, "--dump-dom", f"{page.as_uri()}{fragment}"],
        capture_output=True,
        encoding="utf-8",
        timeout=_PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    console = [line for line in ended.stderr.splitlines() if ":CONSOLE" in line]
    return Visit(ended.stdout, console, _requests(json.loads(net_log.read_text(encoding="utf-8"))))


def _requests(log: dict[str, Any]) -> list[str]:
    """Every URL that went to the network's stack, be it from a cache, but what the browser asks for by itself."""
    urls = {
        str(event.get("params", {}).get("url", "")) for event in log["events"] if isinstance(event.get("params"), dict)
    }
    return sorted(url for url in urls if url and not _OWN.match(url))
