import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.store.embedded.folder import LOOPBACK, DataFolder, port_is_free
from app.store.embedded.process import EmbeddedPostgresError


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "klamm data")


def test_the_folder_is_made_and_names_its_holder(folder: DataFolder) -> None:
    folder.hold()
    assert (folder.path / "lock").read_text() == f"{os.getpid()}\n"
    folder.release()


def test_nobody_else_may_look_into_the_folder(folder: DataFolder) -> None:
    folder.hold()
    folder.release()
    assert not folder.path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IRGRP | stat.S_IWGRP)


def test_a_second_holder_is_told_who_holds_it(folder: DataFolder) -> None:
    folder.hold()
    with pytest.raises(EmbeddedPostgresError, match=rf"in use by the Klamm process {os.getpid()}; .*--data-dir"):
        DataFolder(folder.path).hold()
    folder.release()


def test_a_released_folder_can_be_held_again(folder: DataFolder) -> None:
    folder.hold()
    folder.release()
    folder.release()
    again = DataFolder(folder.path)
    again.hold()
    again.release()


def test_the_end_of_a_process_releases_its_folder(folder: DataFolder) -> None:
    code = (
        "import os, sys; from pathlib import Path; from app.store.embedded.folder import DataFolder\n"
        "DataFolder(Path(sys.argv[1])).hold(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, folder.path], check=False, timeout=60)
    folder.hold()
    folder.release()


def test_a_bare_data_folder_of_postgresql_is_refused(folder: DataFolder) -> None:
    folder.path.mkdir()
    (folder.path / "PG_VERSION").write_text("18\n")
    with pytest.raises(EmbeddedPostgresError, match="a data folder of PostgreSQL itself"):
        folder.hold()


def test_a_file_in_the_folders_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedPostgresError, match=r"can't keep data in `.*file/data` \(Not a directory"):
        DataFolder(tmp_path / "file" / "data").hold()


def test_the_password_is_random_kept_and_private(folder: DataFolder) -> None:
    folder.path.mkdir()
    assert folder.password() == ""
    folder.make_password()
    password = folder.password()
    folder.make_password()
    assert folder.password() == password
    assert len(password) >= 40
    assert stat.S_IMODE(folder.password_file.stat().st_mode) == 0o600


def test_an_unfinished_password_is_made_anew(folder: DataFolder) -> None:
    folder.path.mkdir()
    folder.password_file.write_text("")
    folder.make_password()
    assert folder.password()


def test_the_port_is_remembered_while_it_is_free(folder: DataFolder) -> None:
    folder.path.mkdir()
    port = folder.port()
    assert folder.port() == port
    with socket.socket() as other:
        other.bind((LOOPBACK, port))
        other.listen()
        assert not port_is_free(port)
        assert folder.port() != port


@pytest.mark.parametrize("remembered", ["", "many", "70000"])
def test_nonsense_for_a_port_is_replaced(folder: DataFolder, remembered: str) -> None:
    folder.path.mkdir()
    (folder.path / "port").write_text(remembered)
    assert 0 < folder.port() < 65536


def test_last_words_are_the_fatal_line_of_this_run(folder: DataFolder) -> None:
    folder.path.mkdir()
    with folder.open_log() as log:
        log.write(b"FATAL:  of an earlier run\n")
    with folder.open_log() as log:
        assert folder.last_words() == ""
        log.write(b"LOG:  one\nFATAL:  this one\nLOG:  shut down\n")
        log.flush()
        assert folder.last_words() == "FATAL:  this one"


def test_last_words_without_a_fatal_line_are_the_last_line(folder: DataFolder) -> None:
    folder.path.mkdir()
    with folder.open_log() as log:
        log.write(b"postgres: error while loading shared libraries\n")
    assert folder.last_words() == "postgres: error while loading shared libraries"


def test_a_log_that_has_grown_large_is_put_aside_once(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.embedded.folder._LOG_LIMIT_BYTES", 3)
    folder.path.mkdir()
    with folder.open_log() as log:
        log.write(b"old lines\n")
    with folder.open_log() as log:
        log.write(b"new\n")
    assert (folder.path / "postgresql.log").read_bytes() == b"new\n"
    assert (folder.path / "postgresql.log.1").read_bytes() == b"old lines\n"
