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
        prepare_cluster(folder, Launcher(), _binaries(tmp_path / "bin", initdb))
    assert not folder.cluster.exists()


# As PostgreSQL 18 says it, with the same end each time.
_FULL = """2026-11-27 12:53:06.849 UTC [8] FATAL:  could not write to file "pg_wal/xlogtemp.88": No space left on device
child process exited with exit code 1"""
_FILES = """2026-11-27 12:53:07.066 UTC [8881] FATAL:  insufficient file descriptors available to start server process
2026-11-27 12:53:07.066 UTC [8881] DETAIL:  System allows 10, server needs at least 58, 6 files are already open.
child process exited with exit code 1"""
_BUS = "child process was terminated by signal 7: Bus error"
_KILLED = """Killed
child process exited with exit code 137"""
_LOCALE = """initdb: error: invalid locale name "xx_YY.UTF-8"
initdb: hint: If the locale name is specific to ICU, use --icu-locale."""
_PANIC = """LOG:  listening
PANIC:  could not locate a valid checkpoint record
child process was terminated by signal 6: Aborted"""
_LIBRARY = "initdb: error while loading shared libraries: libpq.so.5: cannot open shared object file: No such file"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (_FULL, "No space left on device"),
        (_FILES, "insufficient file descriptors available to start server process"),
        (_FILES, "server needs at least 58, 6 files are already open."),
        (_BUS, "terminated by signal 7: Bus error"),
        (_KILLED, "Killed; child process exited with exit code 137"),
        (_LOCALE, 'invalid locale name "xx_YY.UTF-8"; initdb: hint: If the locale name is specific to ICU'),
        (_PANIC, "could not locate a valid checkpoint record"),
        (_LIBRARY, "libpq.so.5: cannot open shared object file"),
    ],
)
def test_the_cause_of_a_failed_initdb_is_told(said: str, cause: str, folder: DataFolder, tmp_path: Path) -> None:
    text = tmp_path / "said"
    text.write_text(f'{said}\ninitdb: removing data directory "/data/postgres.new"\n')
    with pytest.raises(EmbeddedPostgresError) as refused:
        prepare_cluster(folder, Launcher(), _binaries(tmp_path / "bin", f"cat '{text}' >&2; exit 1"))
    told = str(refused.value)
    assert cause in told
    assert "removing" not in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("initdb", "cause"), [("exit 3", "it ended with status 3"), ("kill -9 $$", "signal 9 ended it (Killed)")]
)
def test_an_initdb_that_fails_in_silence_is_told(initdb: str, cause: str, folder: DataFolder, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="initdb failed in") as refused:
        prepare_cluster(folder, Launcher(), _binaries(tmp_path / "bin", initdb))
    assert cause in str(refused.value)


def test_a_database_that_can_not_be_made_is_told(folder: DataFolder, tmp_path: Path) -> None:
    # In single-user mode PostgreSQL ends with status 0 whatever the statement came to.
    binaries = _binaries(tmp_path / "bin", "true", "echo 'ERROR:  permission denied' >&2")
    with pytest.raises(
        EmbeddedPostgresError, match=r"making the database `klamm` failed in .*: ERROR:  permission denied"
    ):
        prepare_cluster(folder, Launcher(), binaries)
    assert not folder.cluster.exists()


def test_a_failed_attempt_is_followed_by_a_fresh_one(folder: DataFolder, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedPostgresError):
        prepare_cluster(folder, Launcher(), _binaries(tmp_path / "broken", "touch $PGDATA/half; exit 1"))
    prepare_cluster(folder, Launcher(), _binaries(tmp_path / "mended", "touch $PGDATA/whole"))
    assert [path.name for path in folder.cluster.iterdir()] == ["whole"]


def test_a_fresh_attempt_has_a_password_of_its_own(folder: DataFolder, tmp_path: Path) -> None:
    with pytest.raises(EmbeddedPostgresError):
        prepare_cluster(folder, Launcher(), _binaries(tmp_path / "broken", "exit 1"))
    first = folder.password()
    prepare_cluster(folder, Launcher(), _binaries(tmp_path / "mended", "true"))
    assert folder.password() not in ("", first)


def test_the_password_is_on_file_before_initdb_takes_it(folder: DataFolder, tmp_path: Path) -> None:
    initdb = 'for word in "$@"; do case $word in --pwfile=*) cat "${word#--pwfile=}" > "$PGDATA/taken";; esac; done'
    prepare_cluster(folder, Launcher(), _binaries(tmp_path / "bin", initdb))
    assert (folder.cluster / "taken").read_text().strip() == folder.password() != ""
