"""What make installs, and the audit of the locks, both run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOCKS = [path.name for path in ROOT.glob("requirements*.lock")]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What make looks at, in a folder where nothing is set up."""
    for name in ("Makefile", "pyproject.toml", *LOCKS):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def _would_run(target: str, clone: Path) -> str:
    command = ["make", "--dry-run", "--no-print-directory", target]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def test_make_run_installs_what_serves_and_is_seen_to_do_so(clone: Path) -> None:
    ran = _would_run("run", clone)
    (install,) = [line for line in ran.splitlines() if "pip install" in line and "--editable" not in line]
    assert "cat requirements.lock" in ran
    assert "serves.lock" in install
    assert "--quiet" not in install
    assert "pyspark" not in ran
    assert not re.search(r"^pyspark\b", (ROOT / "requirements.lock").read_text(), re.MULTILINE)


@pytest.mark.parametrize("target", ["setup", "test", "check", "pipeline-demo"])
def test_what_needs_more_sets_it_up_on_top_of_what_serves(target: str, clone: Path) -> None:
    from_nothing = _would_run(target, clone)
    assert from_nothing.index("serves.lock") < from_nothing.index("--editable .") < from_nothing.index("wheels.lock")
    assert "--no-binary pyspark" in from_nothing

    (clone / ".venv").mkdir()
    (clone / ".venv" / ".serves").touch()
    on_top = _would_run(target, clone)
    assert "serves.lock" not in on_top
    assert "--no-binary pyspark" in on_top

    (clone / ".venv" / ".installed").touch()
    assert "pip install" not in _would_run(target, clone) + _would_run("run", clone)


def test_a_changed_lock_renews_what_it_says(clone: Path) -> None:
    (clone / ".venv").mkdir()
    for stamp in (".serves", ".installed"):
        (clone / ".venv" / stamp).touch()
        os.utime(clone / ".venv" / stamp, (1, 1))
        for name in ("pyproject.toml", *LOCKS):
            os.utime(clone / name, (0, 0))
    os.utime(clone / "requirements.lock", (2, 2))
    assert "serves.lock" in _would_run("run", clone)
    os.utime(clone / "requirements-dev.lock", (2, 2))
    assert "wheels.lock" in _would_run("test", clone)


KNOWN: dict[str, object] = {
    "name": "requests",
    "version": "2.19.0",
    "vulns": [{"id": "PYSEC-2018-28", "fix_versions": ["2.20.0"]}],
}


GOOD: dict[str, object] = {"name": "httpx", "version": "0.28.1", "vulns": []}


UNKNOWN: dict[str, object] = {"name": "httpx", "version": "0.28.1", "skip_reason": "Dependency not found"}


BAD: dict[str, object] = {"name": "httpx", "version": "0.28.1", "vulns": [{"id": "PYSEC-2030-1", "fix_versions": []}]}


FAKE = """
import sys
answers = {answers!r}
answer = answers["known-bad.txt" if "known-bad" in " ".join(sys.argv) else "lock"]
sys.stdout.write(answer)
sys.stderr.write("what pip-audit says besides")
"""


BAD_PART = {"vulns": [{"id": "GHSA-old"}]}


CLEAN_OTHERS = r"audit: clean: no advisory is known for any of \d+ jars and scripts and \d+ images\n"


def _audit(
    folder: Path,
    probe: list[dict[str, object]] | None,
    lock: list[dict[str, object]] | None,
    osv: list[object] | None,
    trivy: str | None = '{"Results": []}',
) -> subprocess.CompletedProcess[str]:
    """The audit, with stand-ins for pip-audit, OSV and trivy that give these answers; None is a dead network."""
    answers = {
        name: "" if dependencies is None else json.dumps({"dependencies": dependencies, "fixes": []})
        for name, dependencies in (("known-bad.txt", probe), ("lock", lock))
    }
    (folder / "pip_audit.py").write_text(FAKE.format(answers=answers))
    if osv is not None:
        (folder / "v1").mkdir()
        (folder / "v1" / "querybatch").write_text(json.dumps({"results": osv}))
    if trivy is not None:
        (folder / "answer.json").write_text(trivy)
        (folder / "trivy").write_text(f"#!/bin/sh\ncat {folder}/answer.json\n")
        (folder / "trivy").chmod(0o755)
    command = [sys.executable, str(ROOT / ".ci" / "audit.py"), str(folder / "some.lock")]
    environ = {"PYTHONPATH": str(folder), "PATH": f"{folder}:/usr/bin:/bin", "OSV_URL": folder.as_uri()}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environ}
    )


@pytest.fixture(scope="module")
def clean() -> list[object]:
    """What OSV says if it knows advisories for the known-bad parts only, which come first."""
    code = "import audit; print(len([*audit.jars(), *audit.scripts()]))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT / ".ci", capture_output=True, text=True, check=True, timeout=60)
    return [BAD_PART, BAD_PART, *[{}] * int(done.stdout)]


def test_an_audit_is_clean_where_the_services_know_every_entry_and_nothing_against_it(
    tmp_path: Path, clean: list[object]
) -> None:
    done = _audit(tmp_path, [KNOWN], [GOOD], clean)
    assert (done.returncode, done.stderr) == (0, "")
    packages = r"audit: clean: no advisory is known on \d{4}-\d\d-\d\d for any of 1 packages\n"
    assert re.fullmatch(packages + CLEAN_OTHERS, done.stdout)


def test_an_audit_names_each_advisory(tmp_path: Path, clean: list[object]) -> None:
    grave = '{"Results": [{"Vulnerabilities": [{"VulnerabilityID": "CVE-2030-2"}]}, {}]}'
    done = _audit(tmp_path, [KNOWN], [GOOD, BAD], [*clean[:2], BAD_PART, *clean[3:]], grave)
    assert done.returncode == 1
    first, driver, *images = done.stdout.splitlines()
    assert first == "audit: httpx 0.28.1: PYSEC-2030-1, mended in no version yet"
    assert re.fullmatch(r"audit: org.postgresql:postgresql [\d.]+: GHSA-old", driver)
    assert all(re.fullmatch(r"audit: \S+: CVE-2030-2", line) for line in images)
    assert any("postgres:" in line for line in images)


@pytest.mark.parametrize(
    ("osv", "trivy", "told"),
    [
        (None, "{}", "jars and scripts: OSV can't be reached"),
        ([], '{"Results": []}', "jars and scripts: no OSV that knows"),
        ([{}] * 12, '{"Results": []}', "jars and scripts: no OSV that knows"),
        ([BAD_PART, BAD_PART], '{"Results": []}', "jars and scripts: no OSV that knows"),
        (None, None, "images: trivy is not installed"),
        (None, "", "image .*: trivy could not look at it"),
    ],
)
def test_jars_scripts_and_images_that_could_not_be_looked_at_are_never_clean(
    tmp_path: Path, osv: list[object] | None, trivy: str | None, told: str
) -> None:
    done = _audit(tmp_path, [KNOWN], [GOOD], osv, trivy)
    assert done.returncode == 3
    assert "images" not in done.stdout
    assert re.search(rf"^audit: NOT CHECKED, which is not 'clean': {told}", done.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("probe", "lock"),
    [
        (None, [GOOD]),
        ([{**KNOWN, "vulns": []}], [GOOD]),
        ([{**UNKNOWN, "name": "requests"}], [GOOD]),
        ([KNOWN], None),
        ([KNOWN], []),
        ([KNOWN], [GOOD, UNKNOWN]),
    ],
    ids=["no network", "knows nothing bad", "knows nothing", "network lost", "read no lock", "knows not all"],
)
def test_an_audit_that_could_not_look_is_never_clean(
    tmp_path: Path, clean: list[object], probe: list[dict[str, object]] | None, lock: list[dict[str, object]] | None
) -> None:
    done = _audit(tmp_path, probe, lock, clean)
    assert done.returncode == 3
    assert re.fullmatch(CLEAN_OTHERS, done.stdout)
    assert re.fullmatch(r"audit: NOT CHECKED, which is not 'clean': [^\n]+\n", done.stderr)
