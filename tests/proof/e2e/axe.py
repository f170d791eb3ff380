"""axe-core, which finds what keeps people with disabilities from using a page."""

import json
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.proof.e2e.chromium import Page

_PACKAGE = "axe-core@4.14.1"
_SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
_PATIENCE_S = 120


@cache
def axe() -> str:
    """Its script, fetched from the npm registry. Skips the test where that can't be had."""
    import hashlib  # noqa: PLC0415 - for this alone

    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm to fetch axe-core with")
    folder = Path(mkdtemp(prefix="klamm-axe-"))
    done = subprocess.run(
        [npm, "pack", _PACKAGE], cwd=folder, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
    )
    packed = next(folder.glob("*.tgz"), None)
    if done.returncode or packed is None:
        pytest.skip(f"{_PACKAGE} can't be fetched from the npm registry")
    assert hashlib.sha256(packed.read_bytes()).hexdigest() == _SHA256
    with tarfile.open(packed) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        text = script.read().decode()
    shutil.rmtree(folder)
    return text


def faults(page: Page) -> list[str]:
    """What axe finds wrong with the page as it is shown."""
    page.ask(f"(() => {{ {axe()}\n }})()")
    found: Any = page.ask(
        "axe.run().then((found) => found.violations.map((each) => "
        "({id: each.id, nodes: each.nodes.map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary)})))"
    )
    return [json.dumps(each) for each in found]
