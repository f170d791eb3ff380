from pathlib import Path

import pytest

from app.store.embedded.binaries import Binaries
from app.store.embedded.cluster import prepare_cluster
from app.store.embedded.folder import DataFolder
from app.store.embedded.process import EmbeddedPostgresError, Launcher

_OF_POSTGRESQL = "case $1 in --single) {single};; esac"


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path / "data")
    folder.path.mkdir()
    return folder


def _binaries(home: Path, initdb: str, single: str = "true") -> Binaries:
    home.mkdir()
    for name, script in (("initdb", initdb), ("postgres", _OF_POSTGRESQL.format(single=single))):
        (home / name).write_text(f"#!/bin/sh\n{script}\n")
        (home / name).chmod(0o755)
    return Binaries(home, "18.4")


def test_what_initdb_says_is_told(folder: DataFolder, tmp_path: Path) -> None:
    initdb = (
        "echo 'creating' >&2; echo 'initdb: error: could not write: No space left on device' >&2; echo bye >&2; exit 1"
    )
    with pytest.raises(EmbeddedPostgresError, match=r"initdb failed in .*: initdb: error: .* No space left on device$"):
        prepare_cluster(folder, Launcher(None), _binaries(tmp_path / "bin", initdb))
    assert not folder.cluster.exists()


def test_an_initdb_that_fails_in_silence_is_told(folder: DataFolder, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="initdb failed in"):
        prepare_cluster(folder, Launcher(None), _binaries(tmp_path / "bin", "exit 1"))


def test_a_database_that_can_not_be_made_is_told(folder: DataFolder, tmp_path: Path) -> None:
    # In single-user mode PostgreSQL ends with status 0 whatever the statement came to.
    binaries = _binaries(tmp_path / "bin", "true", "echo 'ERROR:  permission denied' >&2")
    with pytest.raises(
        EmbeddedPostgresError, match=r"making the database `klamm` failed in .*: ERROR:  permission denied"
    ):
        prepare_cluster(folder, Launcher(None), binaries)
    assert not folder.cluster.exists()


def test_a_failed_attempt_is_followed_by_a_fresh_one(folder: DataFolder, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedPostgresError):
        prepare_cluster(folder, Launcher(None), _binaries(tmp_path / "broken", "touch ${2}/half; exit 1"))
    prepare_cluster(folder, Launcher(None), _binaries(tmp_path / "mended", "touch ${2}/whole"))
    assert [path.name for path in folder.cluster.iterdir()] == ["whole"]


def test_the_password_is_on_file_before_initdb_takes_it(folder: DataFolder, tmp_path: Path) -> None:
    initdb = 'for word in "$@"; do case $word in --pwfile=*) cat "${word#--pwfile=}" > "$2/taken";; esac; done'
    prepare_cluster(folder, Launcher(None), _binaries(tmp_path / "bin", initdb))
    assert (folder.cluster / "taken").read_text().strip() == folder.password() != ""
