"""A real standalone cluster of Spark on this machine: a master and two workers, processes each with its own JVM.

Executors have a Python of their own, with PySpark, pyarrow and pandas and without Klamm. `driver_only` is a folder
that they can't read: it is another user's, and workers are started without root's right to read what is not theirs.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from app.pipeline.spark.java import find_java
from tests import quick_spark

PATIENCE_S = 180.0
"""Spark's daemons take seconds to start, and minutes where others work beside them."""

_NOBODY = 65534
_PACKAGES = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "numpy.libs", "dateutil", "pytz", "tzdata", "six.py")
_LIKE_NOBODY = ("--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile("(Successfully registered with master)")


class Cluster:
    """Two workers of one core each; `with` starts and ends it, executors included."""

    def __init__(
        self, folder: Path, java_home: Path, *, worker_memory: str = "1g", java_options: str | None = None
    ) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self.driver_only = folder / "driver-only"
        self.python = folder / "python" / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.url = ""
        self._java_home = java_home
        self._worker_memory = worker_memory
        self._java_options = quick_spark.java_options() if java_options is None else java_options
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def arguments(self) -> list[str]:
        """How a job is told to run here."""
        settings = {
            "spark.executor.memory": "512m",
            "spark.pyspark.python": str(self.python),
            # Spark's own 200 are as many tasks, most of them without a row.
            "spark.sql.shuffle.partitions": "4",
        }
        named = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        return ["--master", self.url, "--driver-memory", "512m", *named]

    @property
    def variables(self) -> dict[str, str]:
        """Of a driver."""
        return {
            "JAVA_HOME": str(self._java_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JDK_JAVA_OPTIONS": self._java_options,
        }

    def __enter__(self) -> Self:
        for each in (self.shared, self.driver_only):
            each.mkdir()
        self.driver_only.chmod(0o700)
        if self._is_root:
            os.chown(self.driver_only, _NOBODY, _NOBODY)
        self._make_python()
        try:
            self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
            self.url = _found(self._daemons["master"], self._log("master"), _MASTER.search)
            for number in (1, 2):
                self.start_worker(number)
            self.await_workers()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    @property
    def hides_the_driver(self) -> bool:
        """Whether executors really can't read `driver_only`; only root can start processes with fewer rights."""
        return self._is_root and shutil.which("setpriv") is not None

    def start_worker(self, number: int) -> None:
        name = f"worker-{number}"
        self._log(name).unlink(missing_ok=True)
        share = ["--cores", "1", "--memory", self._worker_memory]
        where = ["--host", "127.0.0.1", *share, "--work-dir", str(self.folder / name)]
        self._start(name, "worker.Worker", *where, self.url)

    def await_workers(self) -> None:
        for name in ("worker-1", "worker-2"):
            _found(self._daemons[name], self._log(name), _REGISTERED.search)

    def kill_worker(self, number: int) -> None:
        """SIGKILL to the worker alone: its executors notice that by themselves."""
        worker = self._daemons[f"worker-{number}"]
        worker.kill()
        worker.wait(PATIENCE_S)

    def kill_an_executor(self) -> bool:
        """SIGKILL; whether there was one."""
        workers = {each.pid for name, each in self._daemons.items() if name != "master"}
        for pid in _children(workers):
            if b"CoarseGrainedExecutorBackend" in _command(pid):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def _start(self, name: str, program: str, *arguments: str) -> None:
        home = _package("pyspark")
        fewer = ["setpriv", *_LIKE_NOBODY] if name != "master" and self.hides_the_driver else []
        with self._log(name).open("wb") as log:
            self._daemons[name] = subprocess.Popen(
                [
                    *fewer,
                    str(home / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{program}",
                    *("--webui-port", "0"),
                    *arguments,
                ],
                env={
                    "PATH": f"{self.python.parent}:/usr/bin:/bin",
                    "SPARK_HOME": str(home),
                    "SPARK_DAEMON_MEMORY": "256m",
                    **self.variables,
                },
                cwd=self.shared,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _end(self) -> None:
        """With all that they have started, as each is a session of its own."""
        for each in self._daemons.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait(PATIENCE_S)

    def _make_python(self) -> None:
        folder = self.python.parents[1]
        venv.create(folder, with_pip=False, symlinks=True)
        packages = folder / "lib" / self.python.name / "site-packages"
        for name in _PACKAGES:
            origin = _package("pyspark").parent / name
            if origin.exists():
                (packages / name).symlink_to(origin)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    @property
    def _is_root(self) -> bool:
        return os.geteuid() == 0


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _found(process: subprocess.Popen[bytes], log: Path, search: Callable[[str], re.Match[str] | None]) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while (match := search(log.read_text(errors="replace"))) is None:
        text = log.read_text(errors="replace")
        assert process.poll() is None, text
        assert time.monotonic() < deadline, text
        time.sleep(0.1)
    return match[1]


def _children(parents: set[int]) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            rest = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(rest[1]) in parents and rest[0] != "Z":
            found.append(int(folder.name))
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def found_java_home() -> Path:
    """The Java that jobs would take. Raises PipelineError without one."""
    java = find_java(os.environ)
    if java.home is not None or "JAVA_HOME" in os.environ:
        return java.home or Path(os.environ["JAVA_HOME"])
    program = shutil.which("java")
    assert program is not None
    return Path(program).resolve().parents[1]


def driver_environment(cluster: Cluster) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KLAMM_", "SPARK_", "PYSPARK_"))}
    return {**clean, **cluster.variables}
