"""`make docs` builds the site; nothing in it is loaded from elsewhere, no link leads nowhere, and faults are found."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.commands import COMMANDS
from app.settings.model import Settings
from app.settings.sources import TABLES
from tests.gate.deploy.test_prometheus import ALERTS

ROOT = Path(__file__).parents[3]
NOT_BUILT = 3

# MkDocs is fetched first.
pytestmark = pytest.mark.timeout(900)


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(root / ".ci" / "build_docs.py"), str(site)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )
    if done.returncode == NOT_BUILT:
        pytest.skip(done.stdout.strip())
    return done


def test_the_site_holds_what_the_code_says_and_all_that_leads_to_it(tmp_path: Path) -> None:
    root = tmp_path / "clone"
    for name in (".ci", "app", "docs", "examples", "deploy"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "secrets"))
    for path in [*ROOT.glob("*.md"), ROOT / "mkdocs.yml", ROOT / "openapi.json"]:
        shutil.copyfile(path, root / path.name)
    site = tmp_path / "site"
    done = build(root, site)
    assert done.returncode == 0, done.stdout + done.stderr

    rest = (site / "reference" / "rest.html").read_text()
    assert all(
        f">{path}" in rest or f" {path}<" in rest for path in json.loads((ROOT / "openapi.json").read_text())["paths"]
    )
    commands = (site / "reference" / "commands.html").read_text()
    assert all(f"klamm {name}<" in commands for name in COMMANDS)
    settings = (site / "reference" / "settings.html").read_text()
    assert all(
        f"<code>{name.replace('_', '.')}</code>" in settings for name in Settings.model_fields if name not in TABLES
    )
    assert "<code>klamm_feed_age_seconds</code>" in (site / "reference" / "metrics.html").read_text()
    for alert in ALERTS:
        page, _, place = alert["annotations"]["runbook_url"].partition("#")
        assert f'id="{place}"' in (site / Path(page).with_suffix(".html").name).read_text()

    concepts = root / "docs" / "concepts.md"
    concepts.write_text(
        concepts.read_text() + "\n[a](feed.md#nowhere), <img src='https://example.com/a.png' alt='b'>\n"
    )
    done = build(root, site)
    assert done.returncode == 1
    assert "nowhere" in done.stdout


def test_its_tools_are_locked_with_hashes_and_come_from_no_address() -> None:
    lock = (ROOT / ".ci" / "docs-tools.lock").read_text()
    entries = [entry for entry in re.split(r"\n(?=\w)", lock) if not entry.startswith("#")]
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in lock
