"""Services, followers and a broker under faults that a seed draws; see the package's docstring."""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.campaign.askers import SETTLED_S, Askers
from tests.campaign.bad_upstreams import FORGED
from tests.campaign.faults import Fault, Faults
from tests.campaign.journal import Journal
from tests.campaign.ledger import Ledger
from tests.campaign.nodes import Node
from tests.campaign.restarts import count_snapshots
from tests.campaign.restores import WAYS, Restores
from tests.campaign.stage import SERVICES, Stage
from tests.campaign.writers import Writer
from tests.klamm import ROOT
from tests.proof.kafka.authorizer import build
from tests.proof.kafka.jars import find_kafka

_FORGED_S = 600.0
_FORGED_FROM_MINUTES = 14
_LONG_CHANCE = 0.6
_HELD_S = 16.0
_QUIET_S = 40.0
_AT_ONCE = 100
_TRACEBACK = 60
_LOGS = ROOT / "build" / "campaign"

FOLLOWS = "a node with a way to the store follows within 30 seconds"
FORGOTTEN = "a node comes back from a forged upstream within ten minutes"
FORESEEN = "no process meets a fault that nobody has foreseen"
EQUAL = "at rest every node answers as the store"


class Campaign:
    def __init__(self, stage: Stage, journal: Journal, seed: int) -> None:
        self._stage, self._journal = stage, journal
        self._draw = random.Random(seed)
        self._ledger = Ledger(seed)
        entrances = [stage.service(name) for name in (*SERVICES, "near", "far")]
        self._writer = Writer(self._ledger, journal, entrances, seed)
        self._askers = Askers(self._ledger, journal, list(stage.nodes.values()))
        self._faults = Faults(stage, journal, self._draw)
        self._restores = Restores(stage, self._ledger, self._writer, journal, self._faults)

    def run(self, minutes: float) -> None:
        """To its end, and until every node is at rest."""
        end = time.monotonic() + minutes * 60
        plan = self._plan(minutes)
        with self._writer, self._askers:
            self._follows("the start", 60.0)
            while time.monotonic() < end:
                left_s = end - time.monotonic()
                if plan and plan[0][0] >= left_s:
                    self._do(plan.pop(0)[1])
                else:
                    self._round()
                self._look_at_forged()
            self._come_to_rest()

    def _plan(self, minutes: float) -> list[tuple[float, str]]:
        """What is done when so many seconds are left; in a short run not all ways to put a store back."""
        whole_s = minutes * 60
        ways = self._draw.sample(WAYS, k=len(WAYS)) * max(1, int(minutes / 20))
        plan = [(0.9 * whole_s * (1 - at / len(ways)), way) for at, way in enumerate(ways)]
        if minutes < _FORGED_FROM_MINUTES:
            plan = plan[:: max(1, int(2 * len(ways) / max(1.0, minutes)))]
        else:
            shares = (0.95, 0.68, 0.42)
            plan += [(share * whole_s, kind) for share, kind in zip(shares, FORGED, strict=True)]
        return sorted(plan, reverse=True)

    def _do(self, what: str) -> None:
        if what in FORGED:
            self._restores.forge(what, self._draw)
        else:
            self._restores.put_back(what, self._draw)
        self._follows(what)

    def _round(self) -> None:
        faults = self._faults.drawn(self._draw.choice([1, 1, 2]))
        if not faults:
            return
        is_long = self._draw.random() < _LONG_CHANCE
        with ExitStack() as stack:
            for fault in faults:
                stack.enter_context(self._made(fault))
            self._stage.changed()
            if is_long:
                self._follows("during " + " and ".join(fault.text for fault in faults))
                time.sleep(self._draw.random() * _HELD_S)
            else:
                time.sleep(self._draw.random() * _HELD_S / 2)
        self._follows("after " + " and ".join(fault.text for fault in faults))

    @contextmanager
    def _made(self, fault: Fault) -> Iterator[None]:
        self._journal.step(fault.text, fault.kind)
        with fault.block():
            yield
        self._stage.changed()

    def _follows(self, when: str, within_s: float = SETTLED_S) -> None:
        """Every node with a way to the store shows a new mark in time."""
        began_at = time.monotonic()
        with self._writer.paused():
            mark = self._writer.mark()
        if mark is None:
            if any(self._stage.nodes[name].fed_since for name in SERVICES):
                self._journal.note(f"nobody took a mark {when}")
            return
        self._askers.mark = mark
        left = [node for node in self._stage.nodes.values() if self._must_follow(node)]
        while left and time.monotonic() < began_at + within_s + _machine_slack_s():
            time.sleep(0.1)
            for node in [each for each in left if mark.name in each.seen]:
                left.remove(node)
                self._journal.took("until a node followed", node.seen[mark.name] - began_at, f"{node.name} {when}")
                self._journal.checked("nodes seen to follow")
        for node in left:
            if self._must_follow(node):
                self._journal.violation(FOLLOWS, node.name, f"not {when}, for {time.monotonic() - began_at:.1f} s")
        self._ledger.let_go(mark.name)

    def _must_follow(self, node: Node) -> bool:
        return node.fed_since is not None

    def _look_at_forged(self) -> None:
        for node in self._stage.nodes.values():
            if node.forged is not None and time.monotonic() - node.forged > _FORGED_S + SETTLED_S:
                self._journal.violation(FORGOTTEN, node.name, "it has not followed a mark since")
        self._stage.changed()

    def _come_to_rest(self) -> None:
        self._journal.step("no more faults")
        deadline = time.monotonic() + _FORGED_S + SETTLED_S
        while any(node.forged is not None for node in self._stage.nodes.values()) and time.monotonic() < deadline:
            self._follows("at the end")
            time.sleep(1)
        self._look_at_forged()
        self._follows("at the end")
        with self._writer.paused():
            self._compare()

    def _compare(self) -> None:
        """All names at all nodes."""
        expected = self._ledger.all_names()
        for node in self._stage.nodes.values():
            end = time.monotonic() + _QUIET_S
            while (differ := _differing(node, expected)) and time.monotonic() < end:
                time.sleep(0.2)
            self._journal.checked("names compared at rest", len(expected))
            if differ:
                text = f"{len(differ)} of {len(expected)} names, such as {differ[:5]}"
                self._journal.violation(EQUAL, node.name, text)


def _differing(node: Node, expected: dict[str, bool]) -> list[str]:
    names = list(expected)
    verdicts: dict[str, bool] = {}
    for at in range(0, len(names), _AT_ONCE):
        verdicts |= node.ask(names[at : at + _AT_ONCE])
    return [name for name in names if verdicts.get(name) is not expected[name]]


def _look_at_logs(stage: Stage, journal: Journal) -> None:
    """After a violation, and a fault that nobody has foreseen is one, keeps the logs."""
    for node in stage.nodes.values():
        said = node.said()
        at = next((number for number, line in enumerate(said) if "Traceback" in line), None)
        if at is not None:
            text = "\n".join(said[max(0, at - 1) : at + _TRACEBACK])
            journal.violation(FORESEEN, node.name, f"it said:\n{text}\n")
    if journal.has_violations:
        _LOGS.mkdir(parents=True, exist_ok=True)
        for node in stage.nodes.values():
            (_LOGS / f"{node.name}.log").write_text("\n".join(node.said()), encoding="utf-8")
        journal.note(f"the logs of all nodes are in {_LOGS}")


def _machine_slack_s() -> float:
    """A machine with more to do than it has cores is slower."""
    return min(30.0, 5.0 * os.getloadavg()[0] / (os.cpu_count() or 1))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.followers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--restarts", type=int, metavar="N", help="restart services so often instead, and count snapshots"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    journal = Journal()
    folder = Path(tempfile.mkdtemp(prefix="klamm-campaign-"))
    # The account that PostgreSQL runs as loads the shim of clocks.
    folder.chmod(0o711)
    try:
        with ExitStack() as stack:
            authorizer = build(find_kafka(), folder / "plugin")
            stage = Stage(stack, folder, authorizer)
            stage.begin()
            journal.step(f"all nodes have begun; the seed is {arguments.seed}")
            if arguments.restarts:
                count_snapshots(stage, journal, arguments.restarts, arguments.seed)
            else:
                Campaign(stage, journal, arguments.seed).run(arguments.minutes)
            _look_at_logs(stage, journal)
    except KeyboardInterrupt:
        journal.step("interrupted")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        print(journal.report())
    return 1 if journal.has_violations else 0


if __name__ == "__main__":
    sys.exit(main())
