"""The embedded PostgreSQL with real binaries: what it keeps, whom it obeys, and that it dies with its supervisor."""

import asyncio
import os
import pwd
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg
import pytest

from app.store.embedded.process import OWN_IDS
from app.store.embedded.server import EmbeddedPostgres, EmbeddedPostgresError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its account")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux sends the death signal")

_SUPERVISOR = """
import sys, time
from pathlib import Path
from app.store.embedded.server import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
print(server.start(), server.pid, flush=True)
time.sleep(600)
"""

# Docker gives root 14 capabilities; the one to look at other users' processes is not among them.
_AS_IN_A_CONTAINER = ("setpriv", "--bounding-set", "-all,+chown,+dac_override,+fowner,+kill,+setgid,+setuid")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Spaces, quotes and other letters are part of many a folder's name."""
    return tmp_path / 'it\'s a "klamm" däta $HOME %s' / "data"


@pytest.fixture
def closed_folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own are closed."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def _ask(dsn: str, question: str) -> object:
    connection = await asyncpg.connect(dsn, timeout=30)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close(timeout=30)


def _account_of(pid: int | None) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def _modes_above(path: Path) -> list[int]:
    return [parent.stat().st_mode for parent in path.parents]


def _is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"  # ended; whoever inherited it has not looked yet


@contextmanager
def _supervisor(data_dir: Path, *before: str) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """Another process that supervises this folder, run by a command: it, its DSN, its server's process id."""
    command = [*before, sys.executable, "-c", _SUPERVISOR, str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            dsn, pid = process.stdout.readline().split()
            yield process, dsn, int(pid)
        finally:
            process.kill()


async def test_a_new_folder_becomes_a_database_on_loopback(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        assert await _ask(server.dsn, "SELECT current_database()::text") == "klamm"
        assert await _ask(server.dsn, "SHOW server_encoding") == "UTF8"
        assert await _ask(server.dsn, "SHOW wal_level") == "logical"
        assert await _ask(server.dsn, "SHOW fsync") == "on"
        assert await _ask(server.dsn, "SHOW listen_addresses") == "127.0.0.1"
        assert await _ask(server.dsn, "SHOW unix_socket_directories") == ""


async def test_the_password_is_needed_and_only_its_owner_can_read_it(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        password = (data_dir / "password").read_text().strip()
        assert password in server.dsn
        assert stat.S_IMODE((data_dir / "password").stat().st_mode) == 0o600
        with pytest.raises(asyncpg.InvalidPasswordError):
            await _ask(server.dsn.replace(password, "guess"), "SELECT 1")
        hba = "SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules"
        assert await _ask(server.dsn, hba) == "scram-sha-256"


async def test_a_restart_keeps_data_password_and_port(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        first = server.dsn
        await _ask(first, "CREATE TABLE kept AS SELECT 42 AS answer")
    with EmbeddedPostgres(data_dir) as server:
        assert server.dsn == first
        assert await _ask(server.dsn, "SELECT answer FROM kept") == 42


async def test_a_port_that_was_taken_meanwhile_is_replaced(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        first = server.dsn
    with socket.socket() as other:
        other.bind(("127.0.0.1", int((data_dir / "port").read_text())))
        other.listen()
        with EmbeddedPostgres(data_dir) as server:
            assert server.dsn != first
            assert await _ask(server.dsn, "SELECT 1") == 1


async def test_settings_reach_the_server(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir, settings={"max_connections": "17"}) as server:
        assert await _ask(server.dsn, "SHOW max_connections") == "17"


def test_a_stopped_server_is_gone_and_has_no_dsn(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    server.start()
    pid = server.pid
    assert pid is not None
    server.stop()
    server.stop()
    assert _is_gone(pid)
    assert server.pid is None
    with pytest.raises(RuntimeError, match="not started"):
        _ = server.dsn


def test_a_server_starts_once(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server, pytest.raises(RuntimeError, match="started already"):
        server.start()


def test_a_second_supervisor_is_told_who_holds_the_folder(data_dir: Path) -> None:
    with _supervisor(data_dir) as (process, _, _):
        with pytest.raises(EmbeddedPostgresError, match=rf"in use by the Klamm process {process.pid}; stop that one"):
            EmbeddedPostgres(data_dir).start()
        assert process.poll() is None


@on_linux
async def test_sigkill_of_the_supervisor_stops_the_server_and_loses_nothing(data_dir: Path) -> None:
    with _supervisor(data_dir) as (process, dsn, pid):
        await _ask(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
        process.kill()
        process.wait(30)
        # At once: the next start has to wait for the last checkpoint of the one before.
        with EmbeddedPostgres(data_dir) as server:
            assert _is_gone(pid)
            assert server.dsn == dsn
            assert await _ask(server.dsn, "SELECT answer FROM kept") == 42


@on_linux
@pytest.mark.parametrize("rights", [(), pytest.param(_AS_IN_A_CONTAINER, marks=as_root)], ids=["all", "container"])
async def test_a_server_that_ends_slowly_is_waited_for(data_dir: Path, rights: tuple[str, ...]) -> None:
    with _supervisor(data_dir) as (process, dsn, pid):
        await _ask(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
        os.kill(pid, signal.SIGSTOP)
        process.kill()
        process.wait(30)
        goes_on = threading.Timer(2, os.kill, (pid, signal.SIGCONT))
        goes_on.start()
        with _supervisor(data_dir, *rights) as (_, again, _):
            assert _is_gone(pid)
            assert await _ask(again, "SELECT answer FROM kept") == 42
        goes_on.join()


async def test_a_crashed_server_is_started_again_on_its_port(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        first = server.pid
        assert first is not None
        server.keep_alive()
        assert server.pid == first
        os.kill(first, signal.SIGKILL)

        async with asyncio.timeout(60):
            while True:
                server.keep_alive()
                with suppress(OSError, asyncpg.CannotConnectNowError):
                    assert await _ask(server.dsn, "SELECT 1") == 1
                    break
                await asyncio.sleep(0.02)
        assert server.pid not in (None, first)


def test_a_server_that_hangs_is_killed_in_the_end(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.embedded.server._QUIT_TIMEOUT_S", 0.1)
    server = EmbeddedPostgres(data_dir, stop_timeout_s=0.1)
    server.start()
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    server.stop()
    assert _is_gone(pid)


async def test_an_unfinished_cluster_is_made_anew(data_dir: Path) -> None:
    (data_dir / "postgres.new" / "base").mkdir(parents=True)
    with EmbeddedPostgres(data_dir) as server:
        assert await _ask(server.dsn, "SELECT 1") == 1
    assert not (data_dir / "postgres.new").exists()


@as_root
async def test_a_first_start_that_was_killed_is_made_anew_with_another_password(data_dir: Path) -> None:
    # Earlier versions gave the password to initdb's account until the cluster was made.
    (data_dir / "postgres.new" / "base").mkdir(parents=True)
    (data_dir / "password").write_text("given-away\n")
    for path in (data_dir / "password", data_dir / "postgres.new"):
        os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
    with EmbeddedPostgres(data_dir) as server:
        assert await _ask(server.dsn, "SELECT 1") == 1
        password = (data_dir / "password").read_text().strip()
        assert f":{password}@" in server.dsn
    assert password != "given-away"
    assert (data_dir / "password").stat().st_uid == 0


def test_data_of_another_major_version_is_refused(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir):
        pass
    (data_dir / "postgres" / "PG_VERSION").write_text("12\n")
    with pytest.raises(EmbeddedPostgresError, match=r"was written by PostgreSQL 12, but .* KLAMM_POSTGRES_BIN"):
        EmbeddedPostgres(data_dir).start()


def test_a_lost_password_is_told(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir):
        pass
    (data_dir / "password").unlink()
    with pytest.raises(EmbeddedPostgresError, match=r"password.* is missing; restore it"):
        EmbeddedPostgres(data_dir).start()


def test_postgresql_itself_says_why_it_does_not_start(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, settings={"shared_buffers": "nonsense"})
    with pytest.raises(EmbeddedPostgresError, match=r"does not start: .*FATAL: .*invalid value for parameter"):
        server.start()
    assert server.pid is None
    with EmbeddedPostgres(data_dir):
        pass


def test_a_server_that_is_slow_to_start_is_given_up(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir):
        pass
    server = EmbeddedPostgres(data_dir, start_timeout_s=0.0)
    with pytest.raises(EmbeddedPostgresError, match="was not ready within 0 s"):
        server.start()
    assert server.pid is None


@on_linux
def test_a_process_id_that_belongs_to_somebody_else_by_now_is_no_hindrance(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir):
        pass
    # As after the restart of a container: the number that the dead server had is in use again.
    (data_dir / "postgres" / "postmaster.pid").write_text(f"{os.getppid()}\n/old\n0\n1\n\n127.0.0.1\n0 0\nready\n")
    with EmbeddedPostgres(data_dir) as server:
        assert server.pid is not None


@on_linux
def test_a_server_that_klamm_did_not_start_is_left_alone_and_named(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir):
        pass
    with subprocess.Popen(["/bin/sleep", "600"], cwd=data_dir / "postgres") as stranger:
        (data_dir / "postgres" / "postmaster.pid").write_text(f"{stranger.pid}\n")
        with pytest.raises(
            EmbeddedPostgresError, match=rf"Klamm did not start is running .*\(process {stranger.pid}\)"
        ):
            EmbeddedPostgres(data_dir).start()
        assert (data_dir / "postgres" / "postmaster.pid").exists()
        stranger.kill()


@as_root
@on_linux
async def test_root_runs_it_as_somebody_else_and_opens_no_folder(closed_folder: Path) -> None:
    data_dir = closed_folder / "data"
    modes = _modes_above(data_dir)
    with EmbeddedPostgres(data_dir) as server:
        assert _account_of(server.pid) != 0
        assert await _ask(server.dsn, "SELECT 1") == 1
    assert _modes_above(data_dir) == modes
    with EmbeddedPostgres(data_dir) as server:
        assert await _ask(server.dsn, "SELECT 1") == 1


@as_root
def test_root_goes_on_as_the_owner_of_the_data(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir):
        owner = (data_dir / "postgres").stat().st_uid
    with EmbeddedPostgres(data_dir) as server:
        assert _account_of(server.pid) == owner != 0


_NOSY = """
for path in {data}/password {data}/postgres/PG_VERSION /proc/{pid}/cwd/PG_VERSION /proc/{pid}/environ; do
    cat "$path" 2>/dev/null && echo "read $path"
done
ls {data} /proc/{pid}/fd 2>/dev/null && echo listed
kill -0 {pid} 2>/dev/null && echo "may kill"
exit 0
"""


def _seen_by(account: pwd.struct_passwd, data_dir: Path, pid: int | None) -> str:
    script = _NOSY.format(data=data_dir, pid=pid)
    nosy = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return subprocess.run(["/bin/sh", "-c", script], **nosy, capture_output=True, text=True, check=True).stdout  # type: ignore[call-overload, no-any-return]  # keywords in a dictionary


@as_root
@on_linux
async def test_no_other_account_sees_anything_of_root_s_server(open_folder: Path) -> None:
    data_dir = open_folder / "data"
    for _ in range(2):
        with EmbeddedPostgres(data_dir) as server:
            assert _account_of(server.pid) in OWN_IDS
            assert await _ask(server.dsn, "SELECT 1") == 1
            for name in ("nobody", "daemon"):
                assert _seen_by(pwd.getpwnam(name), data_dir, server.pid) == ""
    owners = {path.lstat().st_uid for path in (data_dir / "postgres").rglob("*")}
    assert owners == {(data_dir / "postgres").stat().st_uid}
    assert (data_dir / "password").stat().st_uid == 0


@as_root
async def test_what_root_has_put_back_is_the_server_s_again(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        await _ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    for path in (data_dir / "postgres", *(data_dir / "postgres").rglob("*")):
        os.chown(path, 0, 0)
    with EmbeddedPostgres(data_dir) as server:
        assert await _ask(server.dsn, "SELECT answer FROM kept") == 42


@as_root
async def test_a_folder_of_another_id_is_used_as_that_one(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        await _ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    for path in (data_dir / "postgres", *(data_dir / "postgres").rglob("*")):
        os.chown(path, OWN_IDS[99], OWN_IDS[99])
    with EmbeddedPostgres(data_dir) as server:
        assert _account_of(server.pid) == OWN_IDS[99]
        assert await _ask(server.dsn, "SELECT answer FROM kept") == 42


def test_a_folder_that_is_a_link_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "victim")
    with pytest.raises(EmbeddedPostgresError, match="is a symbolic link"):
        EmbeddedPostgres(tmp_path / "data").start()
    assert list((tmp_path / "victim").iterdir()) == []
