"""Nodes of Kafka, each a process of its own; most tests need a single one."""

import base64
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from tests.proof.kafka.jars import Kafka

BROKER = "broker"
USERS = ("admin", "alice", "bob", "carol", "dan", "mallory")

LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.xml')}"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_PATIENCE_S = 240.0
_STOP_S = 20.0
_STARTED = "Kafka Server started"
_FLAGS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", LOGGING)


def new_cluster_id() -> str:
    """As Kafka makes them up, but for a leading `-`, which its tools take for an option."""
    return "k" + base64.urlsafe_b64encode(uuid4().bytes).decode()[1:22]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with ExitStack() as taken:
        sockets = [taken.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def login(user: str) -> str:
    """The JAAS line of one user."""
    return f'{_PLAIN} username="{user}" password="{password_of(user)}"'


def password_of(user: str) -> str:
    """Every user has one of its own."""
    return f"{user}-knows"


def security() -> tuple[str, ...]:
    """Both listeners ask for a password; a broker has none of the second, but speaks to it."""
    users = " ".join(f'user_{each}="{password_of(each)}"' for each in (BROKER, *USERS))
    return (
        "listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name=CLIENT",
        "controller.listener.names=CONTROLLER",
        "sasl.enabled.mechanisms=PLAIN",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        "sasl.mechanism.controller.protocol=PLAIN",
        *(f"listener.name.{each}.plain.sasl.jaas.config={login(BROKER)} {users};" for each in ("client", "controller")),
        f"super.users=User:{BROKER}",
    )


def internal_topics() -> tuple[str, ...]:
    """Small ones, for tests."""
    return (
        "auto.create.topics.enable=false",
        "group.initial.rebalance.delay.ms=0",
        "offsets.topic.num.partitions=1",
        "offsets.topic.replication.factor=1",
        "transaction.state.log.num.partitions=1",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
        "share.coordinator.state.topic.num.partitions=1",
        "share.coordinator.state.topic.replication.factor=1",
        "share.coordinator.state.topic.min.isr=1",
    )


class Node:
    """A process of Kafka in KRaft mode, for as long as the block lasts. It can be begun again.

    `flags` are more flags of its JVM.
    """

    def __init__(
        self, kafka: Kafka, folder: Path, cluster_id: str, settings: Iterable[str], flags: tuple[str, ...] = ()
    ) -> None:
        self._kafka = kafka
        self._flags = (*_FLAGS, *flags)
        self._folder = folder
        self._lines: list[str] = []
        self._started: queue.Queue[str]
        self._properties = folder / "server.properties"
        lines = (*settings, f"log.dirs={folder / 'data'}", *internal_topics(), "")
        self._properties.write_text("\n".join(lines), encoding="utf-8")
        self._run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._properties))

    def set(self, name: str, value: str) -> None:
        """Change a line of its settings, which holds from its next start on."""
        lines = self._properties.read_text(encoding="utf-8").splitlines()
        changed = [f"{name}={value}" if line.startswith(f"{name}=") else line for line in lines]
        assert changed != lines
        self._properties.write_text("\n".join((*changed, "")), encoding="utf-8")

    def _run(self, main: str, *arguments: str) -> None:
        done = subprocess.run(
            self._kafka.command(main, *arguments, flags=_FLAGS),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def __enter__(self) -> Self:
        self.begin()
        self.has_begun()
        return self

    def begin(self) -> None:
        """Begin the process, which takes a while."""
        self._started = queue.Queue()
        self._process = subprocess.Popen(
            self._kafka.command("kafka.Kafka", str(self._properties), flags=self._flags),
            cwd=self._folder,
            env={name: value for name, value in os.environ.items() if name != "KAFKA_OPTS"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def has_begun(self) -> None:
        """Wait until it serves."""
        if not self._started.get(timeout=_PATIENCE_S):
            raise AssertionError("the broker did not start\n" + "\n".join(self._lines))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))
            if _STARTED in line:
                self._started.put(line)
        self._started.put("")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Nobody needs its data, so it need not end well.
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._process.kill()
        self._closed()

    def stop(self) -> None:
        """End it as an operator does; kill -9 if that takes long."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._closed()

    def _closed(self) -> None:
        self._process.wait(60)
        self._reader.join(60)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def said(self) -> str:
        """Everything that it has said so far."""
        return "\n".join(self._lines)


class Broker(Node):
    """A cluster of one node."""

    def __init__(
        self, kafka: Kafka, folder: Path, cluster_id: str, more: Iterable[str], flags: tuple[str, ...] = ()
    ) -> None:
        port, controller_port = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        settings = (
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller_port}",
            f"listeners=CLIENT://{self.address},CONTROLLER://127.0.0.1:{controller_port}",
            f"advertised.listeners=CLIENT://{self.address}",
            *security(),
            *more,
        )
        super().__init__(kafka, folder, cluster_id, settings, flags)
