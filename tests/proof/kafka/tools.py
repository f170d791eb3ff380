"""Kafka's own command-line tools, each run as its script runs it, as one of the broker's users."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.proof.kafka.broker import LOGGING, login
from tests.proof.kafka.jars import Kafka

_PATIENCE_S = 180.0
_FLAGS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", LOGGING)
_MAINS: Mapping[str, str] = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
}
_REFUSED = re.compile(r"\w*AuthorizationException|Not authorized|Authorization failed", re.IGNORECASE)


@dataclass(frozen=True)
class Said:
    """What a tool has said, and with which code it has ended."""

    code: int
    out: str
    errors: str

    @property
    def refusals(self) -> set[str]:
        """The words for a lack of rights that occur in it."""
        return set(_REFUSED.findall(self.out + self.errors))

    @property
    def lines(self) -> set[str]:
        """What it has put out, line by line."""
        return {line for line in self.out.splitlines() if line}


class Tools:
    """The tools, for one broker."""

    def __init__(self, kafka: Kafka, address: str, folder: Path) -> None:
        self._kafka = kafka
        self._address = address
        self._folder = folder

    def run(self, tool: str, user: str, *arguments: str, typed: str = "") -> Said:
        """Run a tool to its end."""
        done = subprocess.run(
            self._command(tool, user, arguments),
            cwd=self._folder,
            input=typed,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def produce(self, user: str, topic: str, line: str) -> Said:
        """Write one message."""
        return self.run("producer", user, "--topic", topic, "--sync", typed=f"{line}\n")

    def consume(self, user: str, topic: str, group: str) -> Said:
        """Read one message as a member of a group."""
        first = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "120000")
        return self.run("consumer", user, "--topic", topic, "--group", group, *first)

    def open_producer(self, user: str, topic: str) -> "OpenProducer":
        return OpenProducer(self._command("producer", user, ("--topic", topic, "--sync")), self._folder)

    def read(self, user: str, topic: str, offset: str = "earliest") -> Said:
        """Read a message, as a member of no group."""
        first = ("--partition", "0", "--offset", offset, "--max-messages", "1", "--timeout-ms", "30000")
        return self.run("consumer", user, "--topic", topic, *first)

    def _command(self, tool: str, user: str, arguments: tuple[str, ...]) -> list[str]:
        config = self._folder / f"{user}.properties"
        config.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login(user)};\n",
            encoding="utf-8",
        )
        whom = ("--bootstrap-server", self._address, "--command-config", str(config))
        return self._kafka.command(_MAINS[tool], *whom, *arguments, flags=_FLAGS)


class OpenProducer:
    """A console producer whose lines are entered one by one, and sent at once."""

    def __init__(self, command: list[str], folder: Path) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self) -> Self:
        return self

    def enter(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def end(self) -> Said:
        out, _ = self._process.communicate(timeout=_PATIENCE_S)
        return Said(self._process.returncode, out, "")

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate(timeout=_PATIENCE_S)
