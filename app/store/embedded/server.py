"""The embedded PostgreSQL. The supervisor above the web server creates it, starts it, keeps it alive and stops it."""

import logging
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Self

from app.core.backoff import Backoff
from app.store.embedded.binaries import Binaries, find_binaries
from app.store.embedded.cluster import DATABASE, USER, prepare_cluster
from app.store.embedded.folder import LOOPBACK, DataFolder, FolderHeldError, port_is_free
from app.store.embedded.process import EmbeddedPostgresError, Launcher

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "FolderHeldError"]

_QUIT_TIMEOUT_S = 8.0
_POLL_S = 0.02
_PORT_TRIES = 5
_REVIVE_FIRST_S = 1.0
_REVIVE_MOST_S = 30.0
# These override the user's own postgresql.conf.
_SETTINGS = MappingProxyType(
    {
        "listen_addresses": LOOPBACK,
        "unix_socket_directories": "",
        "wal_level": "logical",
        "cluster_name": "klamm",
        "log_destination": "stderr",
        "logging_collector": "off",
        "log_timezone": "UTC",
        "timezone": "UTC",
    }
)

_log = logging.getLogger(__name__)


class EmbeddedPostgres:
    """A PostgreSQL server with its data below `data_dir`, on a loopback port, for as long as this process lives.

    `bin_dir` is the folder of initdb and postgres (None: those of a wheel, else those on PATH). `settings` override the
    defaults. Call all methods from the main thread.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        start_timeout_s: float = 120.0,
        stop_timeout_s: float = 10.0,
    ) -> None:
        self._folder = DataFolder(data_dir)
        self._bin_dir = bin_dir
        self._settings = {**_SETTINGS, **(settings or {})}
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._respawn: Callable[[], subprocess.Popen[bytes]] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._dsn = ""
        self._revive_at = 0.0
        self._backoff = Backoff(_REVIVE_FIRST_S, _REVIVE_MOST_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self.stop()

    @property
    def dsn(self) -> str:
        if not self._dsn:
            raise RuntimeError("the embedded PostgreSQL is not started")
        return self._dsn

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> str:
        """Returns the DSN. Raises EmbeddedPostgresError, with nothing left running."""
        if self._process is not None:
            raise RuntimeError("the embedded PostgreSQL is started already")
        self._folder.hold()
        try:
            launcher = Launcher.for_cluster(self._folder.cluster)
            binaries = find_binaries(launcher, self._bin_dir)
            prepare_cluster(self._folder, launcher, binaries)
            self._launch(launcher, binaries)
        except BaseException:
            self.stop()
            raise
        self._dsn = f"postgresql://{USER}:{self._folder.password()}@{LOOPBACK}:{self._port}/{DATABASE}"
        return self._dsn

    def stop(self) -> None:
        process, self._process = self._process, None
        try:
            if process is not None:
                self._end(process)
        finally:
            self._dsn = ""
            self._folder.release()

    def keep_alive(self) -> None:
        """Restarts the server if it has ended by itself, and does not wait for it. Call it about once a second."""
        now = time.monotonic()
        if self._respawn is None or self._process is None or self._process.poll() is None or now < self._revive_at:
            return
        if now > self._revive_at + _REVIVE_MOST_S:
            self._backoff.reset()
        self._revive_at = now + self._backoff.next_s()
        _log.error(
            "embedded_postgres_ended", extra={"status": self._process.returncode, "said": self._folder.last_words()}
        )
        self._process = self._respawn()

    def _launch(self, launcher: Launcher, binaries: Binaries) -> None:
        self._respawn = partial(self._spawn, launcher, binaries)
        for _ in range(_PORT_TRIES):
            self._port = self._folder.port()
            self._process = self._respawn()
            if self._await_ready(self._process):
                return
            if port_is_free(self._port):
                break
            # Another program took the port between the choice and the start: choose another port.
        raise EmbeddedPostgresError(f"PostgreSQL does not start: {self._folder.last_words()}")

    def _spawn(self, launcher: Launcher, binaries: Binaries) -> subprocess.Popen[bytes]:
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        command = [binaries.program("postgres"), "-p", str(self._port), *settings]
        lock = self._folder.lock_descriptor
        with self._folder.open_log() as log:
            return launcher.spawn(command, self._folder.cluster, log=log, inherited=[lock])

    def _await_ready(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + self._start_timeout_s
        while process.poll() is None:
            if self._is_ready(process.pid):
                return True
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"PostgreSQL was not ready within {self._start_timeout_s:g} s: {self._folder.last_words()}"
                )
            time.sleep(_POLL_S)
        return False

    def _is_ready(self, pid: int) -> bool:
        try:
            lines = (self._folder.cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return False
        # In PostgreSQL's file the first line is the process id, the eighth the state.
        state = "".join(lines[7:8]).strip()
        return state == "ready" and lines[0].strip() == str(pid)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        for how, timeout_s in ((signal.SIGINT, self._stop_timeout_s), (signal.SIGQUIT, _QUIT_TIMEOUT_S)):
            process.send_signal(how)
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                _log.warning("embedded_postgres_slow_to_stop", extra={"signal": how.name, "waited_s": timeout_s})
            else:
                return
        process.kill()
        process.wait()
