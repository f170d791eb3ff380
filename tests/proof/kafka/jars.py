"""What a broker is made of: a JDK of this machine; Kafka from Maven, kept in the user's cache."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.local_cache import cache_folder

POM = Path(__file__).with_name("pom.xml")
_OLDEST_JAVA = 17
_TIMEOUT_S = 900
_VERSION = re.compile(r'version "(\d+)')


class NotToBeHadError(Exception):
    """There is no broker to be had on this machine; one line that says what is missing and where it comes from."""


@dataclass(frozen=True)
class Kafka:
    """Java, and the class path of everything that runs on it."""

    java: Path
    classpath: str

    def command(self, main: str, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
        """The command line of a class, or of a single-file program."""
        return [str(self.java), *flags, "-cp", self.classpath, main, *arguments]


@cache
def find_kafka(pom: Path = POM, version: str = "") -> Kafka:
    """Java and the jars that a POM names, fetched if they are not in the cache yet. Raises NotToBeHadError.

    A version of Kafka stands in place of the POM's own.
    """
    return Kafka(find_java(), f"{_jars(pom, version)}/*")


@cache
def find_java() -> Path:
    """A JDK's `java`: of JAVA_HOME, else on PATH. Raises NotToBeHadError."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    wanted = f"a JDK of version {_OLDEST_JAVA} or newer (apt install openjdk-17-jdk-headless, or set JAVA_HOME)"
    if found is None or not Path(found).is_file():
        raise NotToBeHadError(f"needs Java: install {wanted}")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=False)
    version = _VERSION.search(said.stderr)
    if version is None or int(version[1]) < _OLDEST_JAVA or not Path(found).resolve().with_name("javac").is_file():
        raise NotToBeHadError(f"needs another Java than `{found}`: install {wanted}")
    return Path(found)


def _jars(pom: Path, version: str) -> Path:
    """The folder of all jars: either complete or not there."""
    try:
        folder = cache_folder(os.environ, "kafka")
    except PipelineError as fault:
        raise NotToBeHadError(str(fault)) from None
    jars = folder / hashlib.sha256(pom.read_bytes() + version.encode()).hexdigest()[:16]
    if jars.is_dir():
        return jars
    fetched = Path(tempfile.mkdtemp(dir=folder, prefix="fetching-"))
    try:
        _fetch(pom, version, fetched)
        try:
            fetched.rename(jars)
        except OSError:
            # Another run was faster.
            if not jars.is_dir():
                raise
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    return jars


def _fetch(pom: Path, version: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotToBeHadError(
            "needs Kafka's jars, which Maven fetches once: install it (apt install maven), with a network"
        )
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    if version:
        goal.append(f"-Dkafka.version={version}")
    done = subprocess.run(
        [maven, "--batch-mode", "--quiet", "--strict-checksums", "--file", str(pom), *goal],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0 or not any(folder.glob("kafka-clients-*.jar")):
        why = next((line for line in done.stdout.splitlines() if "[ERROR]" in line), "it said nothing")[:300]
        raise NotToBeHadError(f"needs Kafka's jars, which Maven fetches once, with a network; it failed: {why}")
