import errno
import os
import pwd
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from app.store.embedded import process as embedded_process
from app.store.embedded.process import OWN_IDS, Account, EmbeddedPostgresError, Launcher

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its account")
NOBODY = pwd.getpwnam("nobody")
STRANGER = Account("nobody", NOBODY.pw_uid, NOBODY.pw_gid)
# Whoever runs the tests, this is somebody else.
FOREIGN = Account("somebody", os.geteuid() + 4711, os.getegid() + 4711)
SHELL = "/bin/sh"


def _accounts(*names: str) -> object:
    def look_up(name: str) -> pwd.struct_passwd:
        if name not in names:
            raise KeyError(name)
        return pwd.struct_passwd((name, "x", 4711, 4712, "", "/", "/bin/false"))

    return look_up


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_a_normal_user_runs_postgresql_as_himself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", os.getuid if os.getuid() else lambda: 1000)
    assert Account.choose(tmp_path / "postgres") is None


def test_somebody_elses_data_is_refused_to_a_normal_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(
        EmbeddedPostgresError, match=rf"belongs to user id {owner}, but Klamm runs as user id {owner + 1}; .*--data-dir"
    ):
        Account.choose(tmp_path)


@pytest.mark.usefixtures("root")
def test_root_takes_a_user_id_that_nobody_has(tmp_path: Path) -> None:
    account = Account.choose(tmp_path / "postgres")
    assert account is not None
    assert account.uid == account.gid in OWN_IDS
    with pytest.raises(KeyError):
        pwd.getpwuid(account.uid)


@pytest.mark.usefixtures("root")
def test_an_id_that_has_a_name_or_a_process_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = OWN_IDS[-1]
    named = [pwd.struct_passwd((str(uid), "x", uid, uid, "", "/", "/bin/false")) for uid in OWN_IDS[2:-1]]
    monkeypatch.setattr(pwd, "getpwall", lambda: named)
    monkeypatch.setattr(embedded_process, "_ids_at_work", lambda: {OWN_IDS[0], OWN_IDS[1]})
    assert Account.choose(tmp_path / "postgres") == Account(f"user id {free}", free, free)
    monkeypatch.setattr(embedded_process, "_ids_at_work", lambda: {OWN_IDS[0], OWN_IDS[1], free})
    with pytest.raises(EmbeddedPostgresError, match=r"no user id .* is free; run Klamm as a normal user"):
        Account.choose(tmp_path / "postgres")


def test_the_account_for_making_is_the_first_that_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwnam", _accounts("daemon", "postgres"))
    monkeypatch.setattr(embedded_process, "_ids_at_work", set)
    assert Account.for_making() == Account("postgres", 4711, 4712)
    monkeypatch.setattr(embedded_process, "_ids_at_work", lambda: {4711})
    # All are at work: then any has to do.
    assert Account.for_making() == Account("postgres", 4711, 4712)
    ids = {"postgres": 4711, "daemon": 4712}
    monkeypatch.setattr(
        pwd, "getpwnam", lambda name: pwd.struct_passwd((name, "x", ids[name], 1, "", "/", "/bin/false"))
    )
    assert Account.for_making() == Account("daemon", 4712, 1)


def test_root_without_any_unprivileged_account_is_told_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwnam", _accounts())
    with pytest.raises(EmbeddedPostgresError, match="run Klamm as a normal user, or set KLAMM_DATABASE_URL"):
        Account.for_making()


@as_root
def test_data_of_an_id_of_its_own_keeps_it(tmp_path: Path) -> None:
    os.chown(tmp_path, OWN_IDS[7], OWN_IDS[7])
    assert Account.choose(tmp_path) == Account(f"user id {OWN_IDS[7]}", OWN_IDS[7], OWN_IDS[7])


def test_the_ids_of_processes_are_known() -> None:
    if Path("/proc/self/status").exists():
        assert os.getuid() in embedded_process._ids_at_work()


@as_root
def test_what_is_given_away_is_given_whole_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("")
    data = tmp_path / "data"
    (data / "base").mkdir(parents=True)
    (data / "base" / "1").write_text("")
    (data / "link").symlink_to(tmp_path / "outside")
    (data / "folders").symlink_to(tmp_path)
    Launcher(STRANGER).own(data)
    owners = {path: path.lstat().st_uid for path in (data, data / "base", data / "base" / "1", data / "link")}
    assert set(owners.values()) == {STRANGER.uid}
    assert {path.stat().st_uid for path in (tmp_path, tmp_path / "outside")} == {0}


@as_root
def test_an_id_that_a_container_does_not_have_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(
        EmbeddedPostgresError, match=r"can't change the owner of .* \(Invalid argument\).* run Klamm as a normal user"
    ):
        Launcher(STRANGER).own(tmp_path)


@as_root
def test_root_becomes_the_owner_of_the_data(tmp_path: Path) -> None:
    daemon = pwd.getpwnam("daemon")
    os.chown(tmp_path, daemon.pw_uid, daemon.pw_gid)
    assert Account.choose(tmp_path) == Account("daemon", daemon.pw_uid, daemon.pw_gid)


@as_root
def test_data_of_a_user_id_without_an_account_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 3_999_999, -1)
    with pytest.raises(EmbeddedPostgresError, match="belongs to user id 3999999, which has no account here"):
        Account.choose(tmp_path)


def test_the_first_closed_folder_on_the_way_is_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    closed = tmp_path / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0o700)
    way = Launcher(FOREIGN).closed_parent(closed / "inner" / "data")
    # Above the test's own folder the machine decides.
    assert way is not None
    assert way == closed or way in closed.parents
    assert Launcher(None).closed_parent(closed / "inner" / "data") is None


@as_root
def test_a_closed_folder_is_reached_without_opening_its_parents(tmp_path: Path) -> None:
    data = tmp_path / "closed" / "data"
    data.mkdir(parents=True)
    data.parent.chmod(0o700)
    launcher = Launcher(STRANGER)
    launcher.own(data)
    with launcher.reach(data) as (name, descriptors):
        done = launcher.run([SHELL, "-c", f"id -un > {name}/who"], timeout_s=30, descriptors=descriptors)
    assert done.returncode == 0, done.stderr
    assert (data / "who").read_text() == "nobody\n"
    assert data.parent.stat().st_mode & 0o777 == 0o700


def test_without_proc_a_closed_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(Path, "is_dir", lambda _: False)
    with (
        pytest.raises(EmbeddedPostgresError, match="the account that PostgreSQL runs as can't enter the folder"),
        Launcher(FOREIGN).reach(tmp_path / "x"),
    ):
        pass


def test_programs_see_no_secret_and_none_of_the_callers_postgresql_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("PGDATA", "/somewhere")
    seen = Launcher(None).run([SHELL, "-c", "env"], timeout_s=30).stdout
    assert "KLAMM_" not in seen
    assert "PGDATA" not in seen
    assert "PATH=" in seen


def test_a_program_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"`/bin/sh` did not end within 0.1 s"):
        Launcher(None).run([SHELL, "-c", "sleep 30"], timeout_s=0.1)


def test_a_program_that_is_not_there_is_the_callers_business() -> None:
    with pytest.raises(FileNotFoundError):
        Launcher(None).run(["/nonexistent/postgres"], timeout_s=30)


def test_an_account_that_can_not_be_had_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")  # as where a container maps one user only

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(EmbeddedPostgresError, match=r"can't switch to `nobody` to run PostgreSQL \(Invalid argument\)"):
        Launcher(STRANGER).run([SHELL, "-c", "true"], timeout_s=30)


def test_a_server_is_not_started_from_another_thread(tmp_path: Path) -> None:
    refusals: list[str] = []

    def start() -> None:
        with (tmp_path / "log").open("wb") as log:
            try:
                Launcher(None).spawn([SHELL], descriptors=(), log=log)
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
    Launcher(None).spawn(["/bin/sh", "-c", script], descriptors=(), log=log)
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
