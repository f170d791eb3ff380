"""kafka-acls itself in one JVM, as the super user of a broker that keeps ACLs of its own."""

import base64
from pathlib import Path

from tests.kafka_acls_tool import Said
from tests.proof.kafka.broker import BROKER, login
from tests.proof.kafka.jars import Kafka
from tests.proof.kafka.jvm import Jvm

_SOURCE = Path(__file__).with_name("Acls.java")
_FIELDS = 7


class AclsTool(Jvm):
    """Runs command lines one after another, on the broker at this address."""

    def __init__(self, kafka: Kafka, address: str, folder: Path) -> None:
        config = folder / "acls.properties"
        config.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login(BROKER)};\n",
            encoding="utf-8",
        )
        self._whom = ("--bootstrap-server", address, "--command-config", str(config))
        super().__init__(kafka, str(_SOURCE), address, str(config))

    def run(self, *words: str) -> Said:
        """One command line. Nobody answers its questions, for it has no console."""
        code, out, err = self._texts("!" + "".join(f"{_encoded(word)}." for word in (*self._whom, *words)))
        return Said(list(words), int(code), out, err.partition("\n")[0])

    def acls(self) -> set[tuple[str, ...]]:
        """The broker's ACLs, each as its seven texts."""
        texts = self._texts("")
        return set(zip(*(texts[at::_FIELDS] for at in range(_FIELDS)), strict=True))

    def _texts(self, line: str) -> list[str]:
        return [base64.b64decode(each).decode() for each in self.answer_to(line).strip().split(".")[:-1]]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
