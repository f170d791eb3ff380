"""Two services on one store, a follower of one, a follower of that; all of them are killed while clients go on."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.store.rows import acl_of
from tests.history.checker import Store, faults_of
from tests.history.observed import Observed
from tests.klamm import SUPER_USER, wait_until
from tests.postgres import Postgres
from tests.proof.e2e.crowd import Crowd
from tests.proof.e2e.outside import Outside
from tests.proof.e2e.relay import relay_to
from tests.proof.history.clients import Asker, Client, Names, Writer
from tests.proof.history.harm import Harm, Scene, put_back
from tests.proof.history.members import Member, Reader
from tests.proxy import Proxy

_log = logging.getLogger(__name__)

_REST_S = 0.005
_SETTLE_S = 300.0


@dataclass(frozen=True)
class Plan:
    changes: int
    """The story goes on until so many were acknowledged."""
    harm_every_s: float = 3.0
    """Half of it at least, one and a half times at most."""
    followers: int = 2
    singles: int = 4
    bulks: int = 2
    askers: int = 2
    longest_s: float = 2400.0
    """Then it is over, and judged, however many there were."""


@dataclass
class Outcome:
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


@contextmanager
def _scene(folder: Path, plan: Plan) -> Iterator[Scene]:
    with ExitStack() as stack:
        server = stack.enter_context(Postgres(folder / "postgres"))
        dsn = server.new_store()
        members = [Member(name, {"KLAMM_DATABASE_URL": dsn}) for name in ("first", "second")]
        ways: list[Proxy] = []
        for number in range(plan.followers):
            source = members[0] if number == 0 else members[-1]
            ways.append(stack.enter_context(relay_to(source.url)))
            members.append(Member(f"follower {number + 1}", {"KLAMM_UPSTREAM_URLS": ways[-1].dsn.replace("@", "")}))
        for member in members:
            stack.enter_context(member)
            member.service.ready()
        yield Scene(server, dsn, members, ways)


def told(folder: Path, plan: Plan) -> Outcome:
    """Tell the story, and judge it."""
    outcome, names = Outcome(), Names()
    with _scene(folder, plan) as scene:
        with ExitStack() as stack:
            readers = [stack.enter_context(Reader(member)) for member in scene.members]
            clients = _clients(scene.members, names, plan)
            for each in clients:
                stack.enter_context(each)
            _harmed(scene, clients, outcome.counts, names, plan)
            last = stack.enter_context(Writer("last", scene.members[:1], names, bulk=False))
            _settle(scene, readers, last)
            _count(outcome.counts, [*clients, last], readers)
        outcome.counts["changes"] = names.changes
        _log.info("judging %s", dict(outcome.counts))
        outcome.faults = faults_of(_store(scene.dsn), _observed([*clients, last]))
        put_back(scene)
    return outcome


def _clients(members: Sequence[Member], names: Names, plan: Plan) -> list[Asker | Writer]:
    clients: list[Asker | Writer] = [Asker(f"asker-{each}", members, names) for each in range(plan.askers)]
    clients += [Writer(f"single-{each}", members, names, bulk=False) for each in range(plan.singles)]
    clients += [Writer(f"bulk-{each}", members, names, bulk=True) for each in range(plan.bulks)]
    return clients


def _harmed(scene: Scene, clients: Sequence[Asker | Writer], counts: Counter[str], names: Names, plan: Plan) -> None:
    """Until there have been enough changes, one harm after the other is done."""
    harm, ends_at = Harm(scene, counts), time.monotonic() + plan.longest_s
    with Crowd() as crowd:
        for client in clients:
            crowd.start(_work, crowd, client)
        while names.changes < plan.changes and crowd.going and time.monotonic() < ends_at:
            harm.do(plan.harm_every_s)
            _log.info("%d changes, %d harms", names.changes, counts.total())


def _work(crowd: Crowd, client: Asker | Writer) -> None:
    while crowd.going:
        client.step()
        crowd.pause(_REST_S)


def _settle(scene: Scene, readers: Sequence[Reader], last: Writer) -> None:
    """Everybody comes to the head, and has the store's digest there."""
    for member in scene.members:
        member.service.ready()
    last.step()
    with Outside(scene.dsn) as outside:
        # The head may move on: an update of unknown outcome may still be under way.
        wait_until(lambda: all(reader.is_at(outside.head()) for reader in readers), "all are at the head", _SETTLE_S)
        head = outside.head()
        stored = {acl.id: acl for acl in (acl_of(row) for row in outside.rows("SELECT * FROM acl"))}
    token = f"{head.epoch}:{head.last_offset}"
    for reader in readers:
        # The reader has checked the digest of every bookmark against what it holds.
        assert reader.seen.hash == head.hash
        assert reader.seen.acls == stored
    for member in scene.members:
        member.service.authorize("User:nobody", at_least=token)


def _store(dsn: str) -> Store:
    with Outside(dsn) as outside:
        rows = [acl_of(row) for row in outside.rows("SELECT * FROM acl")]
        acls = {acl.id: acl.binding for acl in rows}
        return Store(outside.head(), outside.records(), acls, frozenset({SUPER_USER}))


def _observed(clients: Sequence[Client]) -> Observed:
    observed = Observed()
    for client in clients:
        observed.add(client.calls)
    return observed


def _count(counts: Counter[str], clients: Sequence[Client], readers: Sequence[Reader]) -> None:
    for client in clients:
        counts.update(type(call).__name__ for call in client.calls)
    counts["streams"] = sum(reader.streams for reader in readers)
