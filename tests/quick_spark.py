"""Settings that make Spark quicker for small queries; the results are the same.

Spark plans again after each stage, and compiles each query: more work than these queries are. Commands and the demo run
with Spark's defaults, and tests/proof/cluster compares what all jobs write with and without these settings.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
ARGUMENTS = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
"""The same on a job's command line."""

_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""Half of a short life would go into optimizing code that hardly runs again.

The default room for compiled code would then be 48 MB, and when it is full nothing is compiled any more.
"""

_TRAINING = Path(__file__).with_name("spark_training.py")
_PATIENCE_S = 600.0


@functools.cache
def java_options(*, makes_archive: bool = True) -> str:
    """Options of a JVM that lives for a few jobs.

    A third of its time would go into loading Spark's classes: they come from an archive, which the first run of the
    suite makes beside this Python's packages, unless it is not worth it for one test. Without the archive all is the
    same, and slower.
    """
    archive = _archive(makes=makes_archive)
    return _JAVA if archive is None else f"{_JAVA} -XX:SharedArchiveFile={archive} {_SILENT}"


_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Of an archive that does not fit Java would warn on standard output."""


def _archive(*, makes: bool) -> Path | None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=None if home is None else str(Path(home, "bin")))
    if java is None:
        return None
    known = f"{Path(java).resolve()} {version('pyspark')} {_TRAINING.read_text()} {_JAVA}"
    archive = Path(sys.prefix, f"spark-{hashlib.sha256(known.encode()).hexdigest()[:12]}.jsa")
    if not makes:
        return archive if archive.exists() else None
    with archive.with_suffix(".lock").open("w") as lock, contextlib.suppress(BlockingIOError):
        # While another worker makes it, this one does without.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not archive.exists():
            with contextlib.suppress(subprocess.TimeoutExpired):
                _make(archive)
    return archive if archive.exists() else None


def _make(archive: Path) -> None:
    new = archive.with_suffix(".new")
    options = f"{_JAVA} -XX:ArchiveClassesAtExit={new} {_SILENT}"
    # Its JVM writes the archive as it ends, and holds the pipe until then.
    ended = subprocess.run(
        [sys.executable, str(_TRAINING)],
        env={**os.environ, "JDK_JAVA_OPTIONS": options},
        cwd=_TRAINING.parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_PATIENCE_S,
        check=False,
    )
    if ended.returncode == 0 and new.exists():
        new.replace(archive)
