"""The broker's own authorizer (`plugin/`), as Maven builds it, and the programs of its tests."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.klamm import ROOT, wait_until
from tests.proof.kafka.broker import LOGGING
from tests.proof.kafka.jars import Kafka, NotToBeHadError
from tests.proof.kafka.jvm import Jvm

_TIMEOUT_S = 580


@dataclass(frozen=True)
class Authorizer:
    """The jar, and what runs it."""

    jar: Path
    kafka: Kafka
    """With the jar on its class path, and the classes of the tests."""

    def run(self, main: str, *arguments: str, lines: str = "") -> list[str]:
        """What a program of the plugin's tests writes, line by line."""
        done = subprocess.run(
            self.kafka.command(f"klamm.kafka.{main}", *arguments, flags=("-Xmx768m", LOGGING)),
            input=lines,
            capture_output=True,
            encoding="utf-8",
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4_000:]
        return done.stdout.splitlines()


def build(kafka: Kafka, folder: Path, root: Path = ROOT) -> Authorizer:
    """Build a clone's plugin into a folder.

    Raises NotToBeHadError without Maven, AssertionError if it does not build.
    """
    done = run_maven(folder, "-DskipTests", "package", root=root)
    assert done.returncode == 0, done.stdout
    jar = folder / "klamm-kafka-authorizer.jar"
    return Authorizer(jar, Kafka(kafka.java, f"{jar}:{folder / 'test-classes'}:{kafka.classpath}"))


def run_maven(folder: Path, *goals: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Do this with the plugin, with what is built in a folder. Raises NotToBeHadError without Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NotToBeHadError("needs Maven, which builds the plugin: install it (apt install maven)")
    command = [maven, "--batch-mode", "--quiet", "--strict-checksums", "--file", str(root / "plugin" / "pom.xml")]
    return subprocess.run(
        [*command, f"-Dbuild.folder={folder}", *goals],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


class Host(Jvm):
    """The authorizer in a JVM of its own, without a broker."""

    def __init__(self, authorizer: Authorizer, folder: Path, **settings: str) -> None:
        """Settings are named with `_` for `.`."""
        file = folder / "host.properties"
        file.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()))
        super().__init__(authorizer.kafka, "klamm.kafka.Host", str(file), flags=())
        self.began = self.line()

    def do(self, what: str, **more: object) -> str:
        """What the authorizer answers."""
        return self.answer_to(json.dumps({"do": what, **more}))

    def reads(self, name: str, principal: str = "User:alice") -> str:
        """ALLOWED, DENIED, or an exception's text."""
        return self.do("ask", names=[name], principal=principal).strip("[]")

    def becomes(self, name: str, answer: str) -> None:
        """Wait until this is the answer about this topic."""
        wait_until(lambda: self.reads(name) == answer, f"{name} is {answer}")

    def metric(self, name: str) -> float:
        """The value of one of the plugin's metrics."""
        figures: dict[str, float] = json.loads(self.do("metrics"))
        return figures[name]

    def ended(self) -> str:
        """Close the authorizer; which of its threads are left."""
        return self.last_line()
