import errno
import os
import pwd
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from app.store.embedded.process import OWN_IDS, EmbeddedPostgresError, Launcher

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
NOBODY = pwd.getpwnam("nobody").pw_uid
SHELL = "/bin/sh"
HERE = Path("/")


def _accounts(ids: dict[str, int]) -> object:
    def look_up(name: str) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", ids[name], 1, "", "/", "/bin/false"))

    return look_up


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_a_normal_user_runs_postgresql_as_himself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    launcher = Launcher.for_cluster(tmp_path)
    assert launcher == launcher.for_initdb() == Launcher()
    echo = [SHELL, "-c", "echo $PGDATA"]
    assert launcher.run(echo, tmp_path, timeout_s=30).stdout == f"{tmp_path}\n"


@pytest.mark.usefixtures("root")
def test_root_takes_a_user_id_without_an_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(uid: int) -> object:
        if uid != OWN_IDS[2]:
            return object()
        raise KeyError

    assert Launcher.for_cluster(tmp_path / "postgres") == Launcher(OWN_IDS[0])
    monkeypatch.setattr(pwd, "getpwuid", look_up)
    assert Launcher.for_cluster(tmp_path / "postgres") == Launcher(OWN_IDS[2])
    monkeypatch.setattr(pwd, "getpwuid", lambda _: object())
    with pytest.raises(EmbeddedPostgresError, match=r"has an account; run Klamm as a normal user"):
        Launcher.for_cluster(tmp_path / "postgres")


@pytest.mark.usefixtures("root")
def test_root_is_told_the_way_out_where_a_server_can_not_be_its_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(EmbeddedPostgresError, match="can't run as root; run Klamm as a normal user"):
        Launcher.for_cluster(tmp_path)


def test_initdb_gets_an_account_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    root_s = Launcher(OWN_IDS[0])
    monkeypatch.setattr(pwd, "getpwnam", _accounts({"daemon": 1, "nobody": 4711}))
    assert root_s.for_initdb() == Launcher(1)
    monkeypatch.setattr(pwd, "getpwnam", _accounts({"nobody": 4711}))
    assert root_s.for_initdb() == Launcher(4711)
    monkeypatch.setattr(pwd, "getpwnam", _accounts({}))
    with pytest.raises(EmbeddedPostgresError, match="run Klamm as a normal user, or set KLAMM_DATABASE_URL"):
        root_s.for_initdb()


@as_root
def test_data_of_an_id_of_its_own_keeps_it(tmp_path: Path) -> None:
    os.chown(tmp_path, OWN_IDS[7], OWN_IDS[7])
    assert Launcher.for_cluster(tmp_path) == Launcher(OWN_IDS[7])


@as_root
def test_what_is_given_away_is_given_whole_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("")
    data = tmp_path / "data"
    (data / "base").mkdir(parents=True)
    (data / "base" / "1").write_text("")
    (data / "link").symlink_to(tmp_path / "outside")
    (data / "folders").symlink_to(tmp_path)
    Launcher(NOBODY).give(data)
    owners = {path: path.lstat().st_uid for path in (data, data / "base", data / "base" / "1", data / "link")}
    assert set(owners.values()) == {NOBODY}
    assert {path.stat().st_uid for path in (tmp_path, tmp_path / "outside")} == {0}


@as_root
def test_an_id_that_a_container_does_not_have_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(
        EmbeddedPostgresError, match=rf"not as user id {NOBODY} either \(Invalid argument\); run Klamm as a normal user"
    ):
        Launcher(NOBODY).give(tmp_path)


@as_root
def test_a_closed_folder_is_reached_without_opening_its_parents(tmp_path: Path) -> None:
    data = tmp_path / "closed" / "data"
    data.mkdir(parents=True)
    data.parent.chmod(0o700)
    launcher = Launcher(NOBODY)
    launcher.give(data)
    with launcher.text_in("said\n", data.parent) as stdin:
        done = launcher.run(
            [SHELL, "-c", "cat /dev/stdin; id -u > $PGDATA/who; id -G >> $PGDATA/who"], data, timeout_s=30, stdin=stdin
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "said\n"
    assert (data / "who").read_text() == f"{NOBODY}\n{OWN_IDS[0]}\n"
    assert data.parent.stat().st_mode & 0o777 == 0o700


def test_programs_see_no_secret_and_none_of_the_callers_postgresql_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("PGDATA", "/somewhere")
    seen = Launcher().run([SHELL, "-c", "env"], HERE, timeout_s=30).stdout
    assert "KLAMM_" not in seen
    assert "/somewhere" not in seen
    assert "PATH=" in seen


def test_a_program_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"`/bin/sh` did not end within 0.1 s"):
        Launcher().run([SHELL, "-c", "sleep 30"], HERE, timeout_s=0.1)


def test_a_program_that_is_not_there_is_the_callers_business() -> None:
    with pytest.raises(FileNotFoundError):
        Launcher().run(["/nonexistent/postgres"], HERE, timeout_s=30)


@as_root
def test_a_user_that_can_not_be_had_is_named() -> None:
    code = (
        "import sys; from pathlib import Path; from app.store.embedded.process import Launcher\n"
        f"try: Launcher({NOBODY}).run(['/bin/true'], Path('/'), timeout_s=30)\n"
        "except Exception as fault: print(type(fault).__name__, fault)"
    )
    limits = ["setpriv", "--bounding-set", "-setuid"]
    done = subprocess.run([*limits, sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert re.search(rf"PostgresError .* not as user id {NOBODY} either \(Operation not permitted\)", done.stdout)


def test_a_server_is_not_started_from_another_thread(tmp_path: Path) -> None:
    refusals: list[str] = []

    def start() -> None:
        with (tmp_path / "log").open("wb") as log:
            try:
                Launcher().spawn([SHELL], HERE, log=log)
            except RuntimeError as refusal:
                refusals.append(str(refusal))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join(30)
    assert refusals == ["the embedded PostgreSQL must be started from the main thread"]


_PARENT = """
import sys, time
from pathlib import Path
from app.store.embedded.process import Launcher
folder = Path(sys.argv[1])
script = f"trap 'echo INT > {folder}/told; exit' INT; echo $$ > {folder}/pid; while :; do sleep 0.02; done"
with (folder / "log").open("wb") as log:
    Launcher().spawn(["/bin/sh", "-c", script], folder, log=log)
time.sleep(60)
"""


def _appears(path: Path) -> str:
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)
    return path.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux sends the death signal")
def test_a_server_is_told_of_the_death_of_its_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, tmp_path])
    _appears(tmp_path / "pid")
    parent.kill()
    parent.wait(30)
    assert _appears(tmp_path / "told") == "INT\n"
