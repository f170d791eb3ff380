"""What is sent to executors is all that runs there, and the same whoever makes it."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from app.pipeline.job import main
from app.pipeline.spark.shipping import ROOMS, package

APP = Path(__file__).parents[5] / "app"

# But for two, which only a driver imports.
_IMPORTS_ALL = """
import pkgutil, sys
sys.path.insert(0, sys.argv[1])
sys.modules.update(dict.fromkeys(("msgspec", "yaml", "jinja2", "markupsafe", "plotly", "rich")))
import app.pipeline
assert app.__file__.startswith(sys.argv[1]), app.__file__
for each in pkgutil.walk_packages(app.pipeline.__path__, "app.pipeline."):
    if each.name not in ("app.pipeline.report.page", "app.pipeline.access.change_files"):
        __import__(each.name)
from app.pipeline.spark.shipping import package
sys.stdout.buffer.write(package())
"""


def test_it_holds_every_file_of_its_rooms_and_nothing_else() -> None:
    with zipfile.ZipFile(io.BytesIO(package())) as archive:
        names = set(archive.namelist())
    wanted = {
        str(path.relative_to(APP.parent))
        for room in ROOMS
        for path in (APP / room).rglob("*")
        if path.is_file() and not {"__pycache__", "jars"} & set(path.parts)
    }
    assert names == wanted | {"app/__init__.py"}


def test_out_of_it_everything_is_imported_without_the_rest_and_it_makes_itself_again(tmp_path: Path) -> None:
    path = tmp_path / "klamm.zip"
    with pytest.raises(SystemExit) as end:
        main(["--package", str(path)])
    assert end.value.code == 0
    ended = subprocess.run(
        [sys.executable, "-c", _IMPORTS_ALL, str(path)], cwd=tmp_path, capture_output=True, check=False, timeout=200
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert ended.stdout == path.read_bytes() == package()


@pytest.mark.parametrize("name", ["klamm.whl", "missing/klamm.zip"])
def test_a_package_that_nobody_could_use_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["--package", name])
    assert end.value.code == 2
    assert "--package" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
