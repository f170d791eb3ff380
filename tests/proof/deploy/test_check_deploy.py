"""`make check-deploy`: in order as it is; and it finds what is wrong."""

import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.deploy.manifests import ROOT

# The first one fetches the tools.
pytestmark = pytest.mark.timeout(900)

NOT_CHECKED = 3


def check(root: Path, *checks: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(root / ".ci" / "check_deploy.py"), *checks],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )


@cache
def as_it_is() -> subprocess.CompletedProcess[str]:
    done = check(ROOT)
    if done.returncode == NOT_CHECKED:
        missing = [line for line in done.stdout.splitlines() if "NOT CHECKED" in line]
        pytest.skip("; ".join(missing))
    return done


def test_everything_is_in_order() -> None:
    done = as_it_is()
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 6
    assert all(line.startswith("check-deploy: in order: ") for line in lines)


@pytest.mark.parametrize(
    ("which", "file", "there", "instead", "said"),
    [
        ("hadolint", "Containerfile", "WORKDIR /etc/klamm", "WORKDIR etc/klamm", "DL3000"),
        (
            "kubernetes",
            "sidecar/component/sidecar.yaml",
            "failureThreshold: 450",
            "failureThreshhold: 450",
            "Threshhold",
        ),
        ("kubernetes", "pipeline/kustomization.yaml", "  - claims.yaml", "  - claim.yaml", "claim.yaml"),
        (
            "kubernetes",
            "pipeline/cronjob.yaml",
            "concurrencyPolicy: Forbid",
            "concurrencyPolicy: [Forbid]",
            "concurrencyPolicy",
        ),
        (
            "helm",
            "helm/klamm/templates/deployment.yaml",
            "failureThreshold: 450",
            "failureThreshhold: 450",
            "Threshhold",
        ),
        ("helm", "helm/decision-log.values.yaml", "volumeMounts:", "volumeMount:", "volumeMount"),
        ("helm", "helm/klamm/values.yaml", "  cpuUtilization: 60", "  cpuUtilisation: 60", "cpuUtilisation"),
        ("compose", "compose.yaml", "healthcheck:", "helthcheck:", "helthcheck"),
        ("prometheus", "prometheus/klamm.rules.yaml", "> 600", "> 60000", "KlammImageVeryOld"),
        ("prometheus", "prometheus/klamm.rules.yaml", "sum by (job, le)", "sum by (job, le", "parse"),
        ("prometheus", "compose/prometheus.yaml", "scrape_interval: 15s", "scrape_interval: often", "often"),
        ("workflows", "../.github/workflows/ci.yaml", "{{ matrix.python }}", "{{ matrix.pyton }}", "pyton"),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, which: str, file: str, there: str, instead: str, said: str) -> None:
    as_it_is()
    for name in (".ci", ".github", "deploy"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("secrets", "__pycache__"))
    path = tmp_path / "deploy" / file
    text = path.read_text()
    assert there in text
    path.write_text(text.replace(there, instead))
    done = check(tmp_path, which)
    assert done.returncode == 1
    assert "check-deploy: found something: " in done.stdout
    assert said in done.stdout


def test_its_tools_are_locked_with_hashes_and_come_from_no_address() -> None:
    lock = (ROOT / ".ci" / "deploy-tools.lock").read_text()
    wanted = {
        line.split()[0]
        for line in (ROOT / ".ci" / "deploy-tools.in").read_text().splitlines()
        if not line.startswith("#")
    }
    entries = [entry for entry in re.split(r"\n(?=\w)", lock) if not entry.startswith("#")]
    assert all("--hash=sha256:" in entry for entry in entries)
    assert wanted <= {entry.split()[0] for entry in entries}
    assert "://" not in lock


def test_a_check_that_there_is_not_is_told() -> None:
    done = check(ROOT, "nonsense")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "there is no check `nonsense`; there are hadolint, kubernetes, helm, compose, prometheus, workflows"
    )


def test_a_tool_that_can_not_be_had_is_told_and_not_passed_over(tmp_path: Path) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copytree(ROOT / "deploy" / "prometheus", tmp_path / "deploy" / "prometheus")
    done = subprocess.run(
        [sys.executable, str(tmp_path / ".ci" / "check_deploy.py"), "prometheus"],
        env={"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == NOT_CHECKED
    (line,) = done.stdout.splitlines()
    assert line.startswith("check-deploy: NOT CHECKED, which is not 'in order': promtool")
