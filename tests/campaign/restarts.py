"""Services are restarted again and again, each time with a change: no follower may need a snapshot for it."""

import random
import signal
import time

from tests.campaign.journal import Journal
from tests.campaign.ledger import Ledger
from tests.campaign.nodes import Node
from tests.campaign.stage import SERVICES, STALE, Stage
from tests.campaign.writers import Writer

_PATIENCE_S = 60.0
_TELL_EVERY = 20

NO_SNAPSHOT = "a restart of a service costs no follower a snapshot"


def count_snapshots(stage: Stage, journal: Journal, restarts: int, seed: int) -> None:
    """Restarts one of the services at a time, and makes a change there before any other."""
    draw = random.Random(seed)
    ledger = Ledger(seed)
    writer = Writer(ledger, journal, [stage.service(name) for name in SERVICES], seed)
    followers = [*stage.followers, stage.nodes[STALE]]
    _wait(writer, followers)
    before = {node.name: _count(node) for node in followers}
    for number in range(1, restarts + 1):
        node = stage.nodes[draw.choice(SERVICES)]
        sig = draw.choice([signal.SIGKILL, signal.SIGTERM])
        with stage.without(node, sig=sig):
            pass
        _change(writer, stage, node.name)
        journal.checked("restarts")
        if number % _TELL_EVERY == 0 or number == restarts:
            _wait(writer, followers)
            counts = {each.name: _count(each) for each in followers}
            journal.step(f"{number} restarts, snapshots since the start: {_since(before, counts)}")
    after = {node.name: _count(node) for node in followers}
    for name, count in _since(before, after).items():
        if count:
            journal.violation(NO_SNAPSHOT, name, f"{count} snapshots in {restarts} restarts")
    journal.note(f"epochs in the store: {stage.store.epochs()}")


def _change(writer: Writer, stage: Stage, name: str) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not writer.create_at(stage.service(name), 1):
        assert time.monotonic() < end, f"{name} takes no change after its restart"
        time.sleep(0.1)


def _wait(writer: Writer, nodes: list[Node]) -> None:
    mark = writer.mark(_PATIENCE_S)
    assert mark is not None
    end = time.monotonic() + _PATIENCE_S
    for node in nodes:
        while not node.ask([mark.name]).get(mark.name):
            assert time.monotonic() < end, f"{node.name} does not follow"
            time.sleep(0.1)


def _count(node: Node) -> int:
    count = node.snapshots()
    assert count is not None, f"{node.name} does not say how many snapshots it has taken"
    return count


def _since(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in after.items()}
