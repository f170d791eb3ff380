"""A controller and three brokers, each a process of its own."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.proof.kafka.broker import Node, free_ports, security
from tests.proof.kafka.jars import Kafka

BROKERS = (1, 2, 3)
CONTROLLER = 100


class Cluster:
    """All nodes have the same settings beside their own, and a folder each for their authorizer's state."""

    def __init__(self, kafka: Kafka, folder: Path, cluster_id: str, settings: Iterable[str]) -> None:
        controller_port, *ports = free_ports(1 + len(BROKERS))
        voters = f"controller.quorum.voters={CONTROLLER}@127.0.0.1:{controller_port}"
        shared = (voters, *settings)
        self.addresses = {number: f"127.0.0.1:{port}" for number, port in zip(BROKERS, ports, strict=True)}
        self.states = {number: folder / f"node-{number}" / "acls" for number in (CONTROLLER, *BROKERS)}
        self._stack = ExitStack()
        self.nodes: dict[int, Node] = {}
        self._make(kafka, folder, cluster_id, CONTROLLER, self._controller(controller_port, shared))
        for number in BROKERS:
            self._make(kafka, folder, cluster_id, number, self._broker(number, shared))

    def _make(self, kafka: Kafka, folder: Path, cluster_id: str, number: int, settings: tuple[str, ...]) -> None:
        own = folder / f"node-{number}"
        own.mkdir()
        state = f"klamm.state.dir={self.states[number]}"
        self.nodes[number] = Node(kafka, own, cluster_id, (f"node.id={number}", state, *settings))

    def _controller(self, port: int, shared: tuple[str, ...]) -> tuple[str, ...]:
        return (
            "process.roles=controller",
            f"listeners=CONTROLLER://127.0.0.1:{port}",
            *security(),
            *shared,
        )

    def _broker(self, number: int, shared: tuple[str, ...]) -> tuple[str, ...]:
        listener = f"CLIENT://{self.addresses[number]}"
        own = (f"listeners={listener}", f"advertised.listeners={listener}")
        return ("process.roles=broker", *own, *security(), *shared)

    def __enter__(self) -> Self:
        with self._stack:
            for node in self.nodes.values():
                node.begin()
                self._stack.callback(node.kill)
            for node in self.nodes.values():
                node.has_begun()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def restart(self, number: int) -> None:
        """kill -9, and begin anew."""
        self.nodes[number].kill()
        self.nodes[number].begin()
        self.nodes[number].has_begun()
