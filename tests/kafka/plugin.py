"""The OPA plugin in a JVM of its own, without a broker: what it makes of a service's answers."""

from pathlib import Path

from tests.kafka.jars import Kafka
from tests.kafka.jvm import QUICK_START, Jvm

_SOURCE = Path(__file__).with_name("Plugin.java")


class Plugin(Jvm):
    """Asks as a broker would. It keeps decisions for an hour, and takes errors for ALLOWED."""

    def __init__(self, kafka: Kafka, *flags: str) -> None:
        super().__init__(kafka, str(_SOURCE), flags=(QUICK_START, *flags))

    def ask(  # noqa: PLR0913 - what a question is made of, most of it left alone
        self,
        url: str,
        operation: str = "READ",
        name: str = "orders",
        *,
        principal: str = "User:alice",
        type_: str = "TOPIC",
        address: str = "127.0.0.1",
        host: str = "",
        scope: int = 0,
    ) -> str:
        """ALLOWED or DENIED. Without a name it is authorizeByResourceType."""
        fields = (url, principal, host, address, str(scope), operation, type_, name)
        return self.answer_to("\t".join(fields)).strip()
