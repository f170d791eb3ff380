"""All nodes of a campaign, the links between them, and which of them have a way to the store."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.campaign.bad_upstreams import BAD, BadUpstream
from tests.campaign.links import NOBODY, Link, LinkState
from tests.campaign.nodes import BrokerNode, HostNode, Node, ServiceNode
from tests.campaign.store import CampaignStore
from tests.clocks import Clocks
from tests.proof.kafka.authorizer import Authorizer

SERVICES = ("one", "two")
"""Those on the primary."""
STANDBY, STALE = "standby", "stale"
_PATIENT = {"KLAMM_REQUEST_TIMEOUT_MS": "2000"}
_NOBODY_URL = "http://127.0.0.1:9"


class Stage:
    """one, two: services. near follows both, far near and two, stale one. broker and host are plugins.

    The last URL of near, far, broker and host leads to nobody, until the schedule leads it to somebody.
    """

    def __init__(self, stack: ExitStack, folder: Path, authorizer: Authorizer) -> None:
        self.clocks = Clocks(folder)
        self.store = CampaignStore(stack, folder, self.clocks)
        self.bad = stack.enter_context(BadUpstream())
        self._stack = stack
        self.nodes: dict[str, Node] = {}
        self.links: list[Link] = []
        for name in SERVICES:
            link = self._link(f"{name}-database", "database", self.store.dsn)
            more = {"KLAMM_STATE_PATH": str(folder / "one-state")} if name == "one" else {}
            self._add(ServiceNode(name, [link], self.clocks, (), {"KLAMM_DATABASE_URL": link.url, **_PATIENT, **more}))
        standby = {"KLAMM_DATABASE_URL": self.store.standby_dsn, **_PATIENT}
        self._add(ServiceNode(STANDBY, [], self.clocks, (), standby))
        self._follower("near", "one", "two", NOBODY, state=folder / "near-state")
        self._follower("far", "near", "two", NOBODY, state=folder / "far-state")
        self._follower(STALE, "one")
        host_links = self._links_of("host", "far", "two", NOBODY)
        self._add(HostNode("host", host_links, self.clocks, authorizer, folder / "host"))
        self.broker = BrokerNode(
            "broker", self._links_of("broker", "one", "near", NOBODY), self.clocks, authorizer, folder / "broker"
        )
        stack.callback(self.broker.close)
        self._add(self.broker)

    @property
    def followers(self) -> list[Node]:
        """Those whose URLs the schedule plays with."""
        return [self.nodes[name] for name in ("near", "far", "host", "broker")]

    @property
    def services(self) -> list[ServiceNode]:
        return [each for each in self.nodes.values() if isinstance(each, ServiceNode)]

    def service(self, name: str) -> ServiceNode:
        node = self.nodes[name]
        assert isinstance(node, ServiceNode)
        return node

    def url_of(self, target: str) -> str:
        """Of whom a link may lead to."""
        if target in self.nodes:
            return self.service(target).url
        return self.bad.url if target == BAD else _NOBODY_URL

    def link(self, name: str) -> Link:
        return next(link for link in self.links if link.name == name)

    def begin(self) -> None:
        for node in self.nodes.values():
            node.begin()
            self._stack.callback(_ended, node)
        self.changed()

    def changed(self) -> None:
        """Call this after whatever changes who has a way to the store."""
        now = time.monotonic()
        for node in self.nodes.values():
            if not self._is_fed(node, frozenset()):
                node.fed_since = None
            elif node.fed_since is None:
                node.fed_since = now

    @contextmanager
    def without(self, *nodes: Node, sig: int = signal.SIGKILL) -> Iterator[None]:
        """These are ended for as long as the block lasts."""
        for node in nodes:
            node.end(sig)
        self.changed()
        try:
            yield
        finally:
            for node in nodes:
                node.begin()
            self.changed()

    def behind(self, node: Node) -> set[Node]:
        """The node, and all that may hear of it."""
        found = {node}
        while True:
            names = {each.name for each in found}
            more = {each for each in self.nodes.values() for link in each.links if link.target in names} - found
            if not more:
                return found
            found |= more

    def _is_fed(self, node: Node, asked: frozenset[str]) -> bool:
        if not node.is_up or node.is_frozen or node.forged is not None or node.name in asked:
            return False
        for link in node.links:
            if link.state is not LinkState.UP:
                continue
            if link.target == "database":
                return self.store.is_reachable
            if link.target in self.nodes and self._is_fed(self.nodes[link.target], asked | {node.name}):
                return True
        return False

    def _follower(self, name: str, *targets: str, state: Path | None = None) -> None:
        links = self._links_of(name, *targets)
        arguments = [part for link in links for part in ("--upstream", link.url)]
        more = {} if state is None else {"KLAMM_STATE_PATH": str(state)}
        self._add(ServiceNode(name, links, self.clocks, arguments, {**_PATIENT, **more}))

    def _links_of(self, name: str, *targets: str) -> list[Link]:
        return [self._link(f"{name}-{number}", target, self.url_of(target)) for number, target in enumerate(targets, 1)]

    def _link(self, name: str, target: str, url: str) -> Link:
        self.links.append(Link(self._stack, name, target, url))
        return self.links[-1]

    def _add(self, node: Node) -> None:
        self.nodes[node.name] = node


def _ended(node: Node) -> None:
    if node.is_frozen:
        node.thaw()
    if node.is_up:
        node.end(signal.SIGKILL)
