"""The store is put back to an older copy, in several ways; and upstreams that tell of states that never were."""

import math
import random
import signal
import time
from contextlib import ExitStack

from tests.campaign.bad_upstreams import BAD, FORGED
from tests.campaign.faults import Faults
from tests.campaign.journal import Journal
from tests.campaign.ledger import Copy, Ledger
from tests.campaign.links import LinkState
from tests.campaign.stage import SERVICES, Stage
from tests.campaign.writers import Writer

WAYS = (
    "all services down, nobody writes",
    "all services down, a service writes before any follower comes",
    "all services down, another process writes past them",
    "twice from the same copy",
    "while the services run",
)
_BEFORE_S = 6.0
_NOTICED_S = 6.0
"""Services that run notice at their next poll; the machine may be busy."""
_TOLD_S = 12.0


class Restores:
    def __init__(self, stage: Stage, ledger: Ledger, writer: Writer, journal: Journal, faults: Faults) -> None:
        self._stage, self._ledger, self._writer, self._journal, self._faults = stage, ledger, writer, journal, faults

    def put_back(self, way: str, draw: random.Random) -> None:
        """Copies the store, lets changes be made that all nodes hear of, and puts the copy back."""
        self._stage.changed()
        with self._writer.paused():
            self._stage.store.copy()
            copy = self._ledger.copy()
        self._stage.changed()
        self._journal.step("the store is copied")
        time.sleep(_BEFORE_S + draw.random() * _BEFORE_S)
        clock_s = self._faults.clock_s()
        with self._writer.paused():
            self._restore(way, copy, clock_s, draw)
            if way == "twice from the same copy":
                self._writer.create_at(self._stage.service("one"), draw.randrange(3))
                time.sleep(draw.random() * 3)
                self._restore(way, copy, clock_s, draw)
        self._stage.store.begin_standby()

    def _restore(self, way: str, copy: Copy, clock_s: int, draw: random.Random) -> None:
        lost = self._ledger.give_up(copy)
        self._journal.step(
            f"the store is put back, {way}; {lost} changes are lost; its clock is off by {clock_s} s",
            f"store put back: {way}",
        )
        since = time.monotonic()
        services = [self._stage.nodes[name] for name in SERVICES]
        with ExitStack() as stack:
            if way == "all services down, a service writes before any follower comes":
                for link in self._stage.links:
                    if link.target in SERVICES:
                        link.set(LinkState.DOWN)
                        stack.callback(link.set, LinkState.UP)
                stack.callback(self._writer.create_at, self._stage.service("one"), draw.choice([3, 60]))
            if way != "while the services run":
                sig = draw.choice([signal.SIGKILL, signal.SIGTERM])
                stack.enter_context(self._stage.without(*services, sig=sig))
            self._stage.store.put_back(clock_s)
            changes = self._ledger.put_back(copy, since)
            if way == "all services down, another process writes past them":
                self._write_past(draw.choice([3, 60, 120]))
        self._stage.changed()
        self._ledger.is_back(changes, time.monotonic() + _NOTICED_S)

    def _write_past(self, count: int) -> None:
        names = [self._ledger.creating() for _ in range(count)]
        for name, token in zip(names, self._stage.store.write(names), strict=True):
            self._ledger.acknowledged(name, token, present=True)

    def forge(self, kind: str, draw: random.Random) -> None:
        """All URLs of a follower lead to a forged upstream for a while."""
        assert kind in FORGED
        node = draw.choice(self._stage.followers[:3])
        behind = self._stage.behind(node)
        for each in behind:
            each.forged = math.inf
        self._stage.changed()
        self._journal.step(f"{node.name} is told of {kind}", f"forged upstream: {kind}")
        self._stage.bad.forge(kind, self._stage.url_of("one"))
        for link in node.links:
            link.lead_to(BAD, self._stage.url_of(BAD))
        time.sleep(_TOLD_S)
        self._stage.bad.behaviour = "silence"
        for link in node.links:
            link.lead_home()
        now = time.monotonic()
        for each in behind:
            each.forged = now
        self._stage.changed()
