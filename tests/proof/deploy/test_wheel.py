"""Klamm's wheel holds all that `app` needs at run time: style sheets and scripts as well as code."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_file_of_the_rooms_is_in_the_wheel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    kept = shutil.ignore_patterns("__pycache__", "*.jar")
    for name in ("app", "migrations"):
        shutil.copytree(ROOT / name, source / name, ignore=kept)
    wanted = {str(path.relative_to(source)) for path in (source / "app").rglob("*") if path.is_file()}
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(tmp_path), str(source)], check=True, timeout=200)
    (wheel,) = tmp_path.glob("klamm-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert wanted - set(archive.namelist()) == set()
