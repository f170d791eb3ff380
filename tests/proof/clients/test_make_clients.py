"""`make clients`: what it builds, what it says of a missing tool, and that it does nothing twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.clients.kept import cache
from deploy.clients.languages import HERE
from tests.klamm import ROOT
from tests.proof.clients.conftest import ClientOf


def generate(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "deploy.clients.generate", "--output", str(folder), *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_it_builds_what_is_asked_for_into_the_folder_and_says_so(client_of: ClientOf, tmp_path: Path) -> None:
    client_of("typescript")
    (tmp_path / "typescript").mkdir()
    (tmp_path / "typescript" / "stale").touch()
    done = generate(tmp_path, "--only", "python,typescript")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["python", "typescript"]
    assert list((tmp_path / "python" / "dist").glob("klamm_client-*.whl"))
    assert (tmp_path / "typescript" / "dist" / "index.js").is_file()
    assert not (tmp_path / "typescript" / "stale").exists()


def test_what_misses_its_tool_says_so_in_a_line_with_the_way_out_and_the_others_go_on(
    client_of: ClientOf, tmp_path: Path
) -> None:
    client_of("python")
    nowhere = tmp_path / "bin"
    nowhere.mkdir()
    done = generate(tmp_path, PATH=str(nowhere))
    assert done.returncode == 3
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["python"]
    told = done.stderr.splitlines()
    assert [line.partition(": ")[0] for line in told] == ["java", "go", "typescript"]
    assert all("there is no `" in line and "install" in line for line in told)


def test_a_client_that_is_there_is_not_made_again(client_of: ClientOf) -> None:
    made = client_of("python")
    before = (made / "pyproject.toml").stat().st_ctime_ns
    assert client_of("python") == made
    assert (made / "pyproject.toml").stat().st_ctime_ns == before


@pytest.mark.parametrize("language", ["python", "java", "go", "typescript"])
def test_no_client_names_a_folder_of_this_machine(client_of: ClientOf, language: str) -> None:
    made = client_of(language)
    here = str(cache()).encode()
    assert not [path for path in made.rglob("*") if path.is_file() and here in path.read_bytes()]


def test_every_pin_has_a_checksum_and_comes_from_no_address() -> None:
    lock = (HERE / "python" / "requirements.lock").read_text(encoding="utf-8")
    pins = [line for line in lock.replace("\\\n", " ").splitlines() if line and not line.lstrip().startswith("#")]
    assert pins
    assert all("==" in pin and "--hash=sha256:" in pin for pin in pins)
    assert "://" not in lock
    packages = json.loads((HERE / "typescript" / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    fetched = {name: package for name, package in packages.items() if name}
    assert fetched
    assert all("integrity" in package and "resolved" not in package for package in fetched.values())
    own = json.loads((HERE / "typescript" / "package.json").read_text(encoding="utf-8"))
    named = {**own["dependencies"], **own["devDependencies"]}
    assert all(fetched[f"node_modules/{name}"]["version"] == version for name, version in named.items())


def test_a_document_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    done = generate(tmp_path, "--openapi", str(tmp_path / "absent.json"))
    assert done.returncode == 2
    assert "klamm openapi" in done.stderr
