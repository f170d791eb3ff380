"""Two services on one store, a follower of one, a follower of that; all of them are killed while clients go on."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.store.rows import acl_of
from tests.e2e.crowd import Crowd
from tests.e2e.outside import Outside
from tests.e2e.postgres import OwnPostgres
from tests.e2e.service import ADMIN
from tests.history.checker import Store, faults_of
from tests.history.clients import Asker, Client, Names, Writer
from tests.history.members import Member, Reader
from tests.history.observed import Observed

_SETTLE_S = 300.0


@dataclass(frozen=True)
class Plan:
    changes: int
    """The story goes on until so many were acknowledged."""
    kill_every_s: float = 3.0
    followers: int = 2
    singles: int = 4
    bulks: int = 1
    askers: int = 2
    longest_s: float = 3600.0


@dataclass
class Outcome:
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


@contextmanager
def _members(folder: Path, plan: Plan) -> Iterator[tuple[OwnPostgres, str, list[Member]]]:
    with ExitStack() as stack:
        server = stack.enter_context(OwnPostgres(folder / "postgres"))
        dsn = server.new_store()
        members = [Member(name, {"KLAMM_DATABASE_URL": dsn}) for name in ("first", "second")]
        for number in range(plan.followers):
            source = members[0] if number == 0 else members[-1]
            members.append(Member(f"follower {number + 1}", {"KLAMM_UPSTREAM_URLS": source.url}))
        for member in members:
            stack.enter_context(member)
            member.service.ready()
        yield server, dsn, members


def told(folder: Path, plan: Plan) -> Outcome:
    """Tell the story, and judge it."""
    outcome, names = Outcome(), Names()
    with _members(folder, plan) as (server, dsn, members), ExitStack() as stack:
        readers = [stack.enter_context(Reader(member)) for member in members]
        clients: list[Asker | Writer] = [Asker(f"asker-{each}", members, names) for each in range(plan.askers)]
        clients += [Writer(f"single-{each}", members, names, bulk=False) for each in range(plan.singles)]
        clients += [Writer(f"bulk-{each}", members, names, bulk=True) for each in range(plan.bulks)]
        with Crowd() as crowd:
            for client in clients:
                stack.enter_context(client)
                crowd.start(_work, crowd, client)
            _kill_by_turns(server, members, outcome.counts, names, plan)
            crowd.stop()
        last = Writer("last", members[:1], names, bulk=False)
        clients.append(stack.enter_context(last))
        _settle(dsn, members, readers, last)
        outcome.faults = faults_of(_store(dsn), _observed(clients))
        outcome.counts["changes"] = names.changes
        _count(outcome.counts, clients, readers)
    return outcome


def _work(crowd: Crowd, client: Asker | Writer) -> None:
    while crowd.going:
        client.step()
        crowd.pause(0.002)


def _kill_by_turns(
    server: OwnPostgres, members: Sequence[Member], counts: Counter[str], names: Names, plan: Plan
) -> None:
    draw, ends_at = random.Random(1), time.monotonic() + plan.longest_s
    while names.changes < plan.changes:
        assert time.monotonic() < ends_at, f"only {names.changes} changes"
        time.sleep(plan.kill_every_s * draw.uniform(0.5, 1.5))
        number = draw.randrange(len(members) + 1)
        if number == len(members):
            _kill_postmaster(server)
            counts["kills of the postmaster"] += 1
            continue
        members[number].kill()
        counts[f"kills of {members[number].name}"] += 1
        time.sleep(draw.uniform(0, 1))
        members[number].start()


def _kill_postmaster(server: OwnPostgres) -> None:
    for process in server.processes():
        os.kill(process, signal.SIGKILL)
    server.stop()
    server.start()


def _settle(dsn: str, members: Sequence[Member], readers: Sequence[Reader], last: Writer) -> None:
    """Everybody comes to the head, and has the store's digest there."""
    for member in members:
        member.service.ready()
    last.step()
    with Outside(dsn) as outside:
        head = outside.head()
        stored = {acl.id: acl for acl in (acl_of(row) for row in outside.rows("SELECT * FROM acl"))}
    token = f"{head.epoch}:{head.last_offset}"
    for reader in readers:
        # The reader has checked the digest of every bookmark against what it holds.
        reader.until(token, _SETTLE_S)
        assert reader.seen.hash == head.hash
        assert reader.seen.acls == stored
    for member in members:
        member.service.authorize("User:nobody", at_least=token)


def _store(dsn: str) -> Store:
    with Outside(dsn) as outside:
        rows = [acl_of(row) for row in outside.rows("SELECT * FROM acl")]
        acls = {acl.id: acl.binding for acl in rows}
        return Store(outside.head(), outside.records(), acls, frozenset({ADMIN}))


def _observed(clients: Sequence[Client]) -> Observed:
    observed = Observed()
    for client in clients:
        observed.add(client.calls)
    return observed


def _count(counts: Counter[str], clients: Sequence[Client], readers: Sequence[Reader]) -> None:
    for client in clients:
        counts.update(type(call).__name__ for call in client.calls)
    counts["streams"] = sum(reader.streams for reader in readers)
