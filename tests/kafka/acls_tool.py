"""kafka-acls itself in one JVM, as the super user of a broker that keeps ACLs of its own."""

import base64
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.broker import BROKER, LOGGING, login
from tests.kafka.jars import Kafka
from tests.kafka_acls_tool import Said

_SOURCE = Path(__file__).with_name("Acls.java")
_FIELDS = 7


class AclsTool:
    """Runs command lines one after another, on the broker at this address."""

    def __init__(self, kafka: Kafka, address: str, folder: Path) -> None:
        config = folder / "acls.properties"
        config.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login(BROKER)};\n",
            encoding="utf-8",
        )
        self._whom = ("--bootstrap-server", address, "--command-config", str(config))
        flags = ("-Xmx256m", "-XX:TieredStopAtLevel=1", LOGGING)
        self._process = subprocess.Popen(
            kafka.command(str(_SOURCE), address, str(config), flags=flags),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate(timeout=60)

    def run(self, *words: str) -> Said:
        """One command line. Nobody answers its questions, for it has no console."""
        code, out, err = self._ask("!" + "".join(f"{_encoded(word)}." for word in (*self._whom, *words)))
        return Said(list(words), int(code), out, err.partition("\n")[0])

    def acls(self) -> set[tuple[str, ...]]:
        """The broker's ACLs, each as its seven texts."""
        texts = self._ask("")
        return set(zip(*(texts[at::_FIELDS] for at in range(_FIELDS)), strict=True))

    def _ask(self, line: str) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the tool's JVM has ended"
        return [base64.b64decode(each).decode() for each in answer.strip().split(".")[:-1]]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
