"""The OPA plugin in a JVM of its own, without a broker: what it makes of a service's answers."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.broker import LOGGING
from tests.kafka.jars import Kafka

_SOURCE = Path(__file__).with_name("Plugin.java")


class Plugin:
    """Asks as a broker would. It keeps decisions for an hour, and takes errors for ALLOWED."""

    def __init__(self, kafka: Kafka, *flags: str) -> None:
        self._process = subprocess.Popen(
            kafka.command(str(_SOURCE), flags=("-Xmx256m", "-XX:TieredStopAtLevel=1", LOGGING, *flags)),
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
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        fields = (url, principal, host, address, str(scope), operation, type_, name)
        self._process.stdin.write("\t".join(fields) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()
