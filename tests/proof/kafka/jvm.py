"""A program in a JVM of its own, which answers each line that it is given by one."""

import subprocess
from types import TracebackType
from typing import Self

from tests.proof.kafka.broker import LOGGING
from tests.proof.kafka.jars import Kafka

QUICK_START = "-XX:TieredStopAtLevel=1"


class Jvm:
    """A class, or a single-file program. `with` ends it."""

    def __init__(self, kafka: Kafka, main: str, *arguments: str, flags: tuple[str, ...] = (QUICK_START,)) -> None:
        self._process = subprocess.Popen(
            kafka.command(main, *arguments, flags=("-Xmx256m", LOGGING, *flags)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(60)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def answer_to(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.line()

    def line(self) -> str:
        """What it says next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the JVM has ended"
        return line.rstrip("\n")

    def last_line(self) -> str:
        """What it says once it is given no more."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.line()
