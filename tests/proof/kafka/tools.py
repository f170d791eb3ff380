"""Kafka's own command-line tools, each run as its script runs it, as one of the broker's users."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.proof.kafka.broker import LOGGING, login
from tests.proof.kafka.jars import Kafka

_PATIENCE_S = 180.0
_FLAGS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", LOGGING)
_MAINS: Mapping[str, str] = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
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

    def read(self, user: str, topic: str) -> Said:
        """Read the first message, as a member of no group."""
        first = ("--partition", "0", "--offset", "earliest", "--max-messages", "1", "--timeout-ms", "30000")
        return self.run("consumer", user, "--topic", topic, *first)

    def _command(self, tool: str, user: str, arguments: tuple[str, ...]) -> list[str]:
        config = self._folder / f"{user}.properties"
        config.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login(user)};\n",
            encoding="utf-8",
        )
        whom = ("--bootstrap-server", self._address, "--command-config", str(config))
        return self._kafka.command(_MAINS[tool], *whom, *arguments, flags=_FLAGS)
