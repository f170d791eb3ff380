"""The faults of a campaign. Each is a block: it begins, and what it has done is undone when the block ends."""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from tests.campaign.bad_upstreams import BAD, BEHAVIOURS
from tests.campaign.journal import Journal
from tests.campaign.links import NOBODY, Link, LinkState
from tests.campaign.nodes import Node
from tests.campaign.stage import SERVICES, STALE, STANDBY, Stage
from tests.campaign.writers import Forger
from tests.clocks import HOUR_S

_CUT_EVERY_S = 0.5
_OFF_CHANCE = 0.3
_FOLLOWED_S = 6.0


@dataclass(frozen=True)
class Fault:
    """`kind` is counted, `text` says what it is this time."""

    kind: str
    text: str
    block: Callable[[], AbstractContextManager[None]]


class Faults:
    """Draws faults; two that are drawn for one round have nothing to do with each other's nodes and links."""

    def __init__(self, stage: Stage, journal: Journal, draw: random.Random) -> None:
        self._stage, self._journal, self._draw = stage, journal, draw
        self._taken: set[str] = set()
        self._kinds: list[tuple[int, Callable[[], Fault | None]]] = [
            (4, self._restart),
            (1, self._restart_services),
            (3, self._link_down),
            (3, self._link_silent),
            (2, self._link_flaps),
            (3, self._freeze),
            (1, self._database_restarts),
            (1, self._database_freezes),
            (6, self._rewire),
            (2, self._standby_lags),
            (2, self._forger),
        ]

    def drawn(self, count: int) -> list[Fault]:
        """Up to so many."""
        self._taken.clear()
        weights = [weight for weight, _ in self._kinds]
        kinds = self._draw.choices([kind for _, kind in self._kinds], weights, k=count)
        return [fault for fault in (kind() for kind in kinds) if fault is not None]

    def clock_s(self) -> int:
        """How far off the clock of a process is that begins now; mostly it is right."""
        if not self._stage.clocks.can_be_off or self._draw.random() > _OFF_CHANCE:
            return 0
        return self._draw.choice([-HOUR_S, HOUR_S])

    # processes

    def _restart(self) -> Fault | None:
        node = self._node(list(self._stage.nodes.values()))
        return None if node is None else self._ended([node])

    def _restart_services(self) -> Fault | None:
        nodes = [self._node([self._stage.nodes[name]]) for name in SERVICES]
        return self._ended([node for node in nodes if node is not None]) if all(nodes) else None

    def _ended(self, nodes: list[Node]) -> Fault:
        sig = self._draw.choice([signal.SIGKILL, signal.SIGTERM])
        for node in nodes:
            node.clock_s = self.clock_s()
        what = " and ".join(f"{node.name} (then its clock is off by {node.clock_s} s)" for node in nodes)
        kind = f"restart of {nodes[0].name}" if len(nodes) == 1 else "restart of both services"
        return Fault(
            f"{kind} by {signal.Signals(sig).name}",
            f"{sig.name} for {what}",
            lambda: self._stage.without(*nodes, sig=sig),
        )

    def _freeze(self) -> Fault | None:
        node = self._node(list(self._stage.nodes.values()))
        if node is None:
            return None

        @contextmanager
        def block() -> Iterator[None]:
            node.freeze()
            yield
            node.thaw()

        return Fault("frozen process", f"{node.name} is frozen", block)

    # links

    def _link_down(self) -> Fault | None:
        return self._link_is(LinkState.DOWN, "link down")

    def _link_silent(self) -> Fault | None:
        return self._link_is(LinkState.SILENT, "silent link")

    def _link_is(self, state: LinkState, kind: str) -> Fault | None:
        link = self._link()
        if link is None:
            return None

        @contextmanager
        def block() -> Iterator[None]:
            link.set(state)
            yield
            link.set(LinkState.UP)

        return Fault(kind, f"{link.name} is {state.value}", block)

    def _link_flaps(self) -> Fault | None:
        link = self._link()
        if link is None:
            return None

        @contextmanager
        def block() -> Iterator[None]:
            ended = threading.Event()

            def flap() -> None:
                while not ended.wait(_CUT_EVERY_S):
                    link.cut()

            thread = threading.Thread(target=flap, daemon=True)
            thread.start()
            yield
            ended.set()
            thread.join(10)

        return Fault("connections cut again and again", f"{link.name} is cut each {_CUT_EVERY_S} s", block)

    # the store

    def _database_restarts(self) -> Fault | None:
        clock_s = self.clock_s()
        return self._of_database(
            "restart of PostgreSQL",
            f"PostgreSQL is stopped (then its clock is off by {clock_s} s)",
            lambda: self._stage.store.away(clock_s),
        )

    def _database_freezes(self) -> Fault | None:
        return self._of_database("frozen PostgreSQL", "PostgreSQL is frozen", self._stage.store.frozen)

    def _of_database(self, kind: str, text: str, block: Callable[[], AbstractContextManager[None]]) -> Fault | None:
        if not self._take("database"):
            return None
        return Fault(kind, text, block)

    def _standby_lags(self) -> Fault | None:
        if not self._take(STANDBY):
            return None

        @contextmanager
        def block() -> Iterator[None]:
            self._stage.store.stream.set(LinkState.SILENT)
            yield
            self._stage.store.stream.set(LinkState.UP)

        return Fault("standby that lags", "the standby hears nothing of the primary", block)

    # who is followed

    def _rewire(self) -> Fault | None:
        """One URL leads to somebody who is stale or worse, perhaps one to nobody, and others to whoever is good."""
        node = self._node(self._stage.followers)
        if node is None:
            return None
        worst = self._draw.choice([STALE, STANDBY, BAD])
        rest = self._draw.sample([*SERVICES, NOBODY], len(node.links) - 1)
        targets = [worst, *rest]
        self._draw.shuffle(targets)
        behaviour = self._draw.choice([each for each in BEHAVIOURS if each != "forged"])
        if worst == STANDBY and not self._take(STANDBY):
            return None
        what = f"{', '.join(targets)}{f' ({behaviour})' if worst == BAD else ''}"

        @contextmanager
        def block() -> Iterator[None]:
            self._stage.bad.behaviour = behaviour
            with ExitStack() as stack:
                for link, target in zip(node.links, targets, strict=True):
                    link.lead_to(target, self._stage.url_of(target))
                    stack.callback(link.lead_home)
                # Whoever follows it now was right to do so.
                time.sleep(self._draw.random() * _FOLLOWED_S)
                self._starve(stack, worst)
                yield

        kind = f"another upstream: {behaviour if worst == BAD else f'{worst}, which lags'}"
        return Fault(kind, f"the URLs of {node.name} lead to {what}", block)

    def _starve(self, stack: ExitStack, worst: str) -> None:
        links = {STALE: self._stage.nodes[STALE].links, STANDBY: [self._stage.store.stream]}.get(worst, [])
        for link in links:
            link.set(LinkState.SILENT if worst == STANDBY else LinkState.DOWN)
            stack.callback(link.set, LinkState.UP)

    def _forger(self) -> Fault | None:
        if not self._take("forger"):
            return None
        nodes = [self._stage.service(name) for name in (*SERVICES, "near", "far")]
        seed = self._draw.randrange(1 << 30)

        @contextmanager
        def block() -> Iterator[None]:
            with Forger(self._journal, nodes, seed):
                yield

        return Fault("forged positions in a loop", "a caller shows forged positions in a loop", block)

    # drawing

    def _node(self, among: list[Node]) -> Node | None:
        node = self._draw.choice(among)
        return node if self._take(node.name, *(link.name for link in node.links)) else None

    def _link(self) -> Link | None:
        link = self._draw.choice(self._stage.links)
        return link if self._take(link.name) else None

    def _take(self, *names: str) -> bool:
        if not self._taken.isdisjoint(names):
            return False
        self._taken.update(names)
        return True
