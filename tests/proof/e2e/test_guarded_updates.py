"""Guarded writers on two replicas of one PostgreSQL: of those that have seen the same state, exactly one wins."""

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.klamm import Process, acl, action, context, replica

ROUNDS = 40
WRITERS = 4


@pytest.fixture
def replicas(migrated_database_url: str) -> Iterator[tuple[Process, Process]]:
    with replica(migrated_database_url) as one, replica(migrated_database_url) as other:
        yield one.ready(), other.ready()


def test_of_guarded_writers_that_have_seen_the_same_state_exactly_one_wins(replicas: tuple[Process, Process]) -> None:
    token: str = replicas[0].create(acl("first"))["token"]
    for number in range(ROUNDS):
        answers = _at_once([_writer(replicas[each % 2], f"t{number}-{each}", token) for each in range(WRITERS)])
        assert sorted(status for status, _ in answers) == [200] + [412] * (WRITERS - 1)
        (token,) = [reply["token"] for status, reply in answers if status == 200]
        assert int(token.rpartition(":")[2]) == number + 2
    # Nothing of those that lost is there.
    assert len(_acls_at(replicas[0], token)) == ROUNDS + 1


def test_guarded_writers_among_unguarded_ones_never_overwrite_what_they_have_not_seen(
    replicas: tuple[Process, Process],
) -> None:
    """A counter in the store, as a read, a look and a guarded write: no step is lost, though others write as well."""
    stop = threading.Event()

    def disturb() -> None:
        number = 0
        while not stop.is_set():
            replicas[1].create(acl(f"noise{number}"))
            number += 1
            stop.wait(0.05)

    noise = threading.Thread(target=disturb)
    noise.start()
    try:
        wins = _at_once([_counter(replica, 8) for replica in replicas])
    finally:
        stop.set()
        noise.join(60)
    names = _acls_at(replicas[0], replicas[1].create(acl("end"))["token"])
    assert sum(count for count, _ in wins) == 16
    assert {name for name in names if name.startswith("step")} == {f"step{number}" for number in range(16)}


def _acls_at(replica: Process, token: str) -> list[str]:
    """The names of the ACLs, not older than this token."""
    replica.authorize("User:alice", action("first"), at_least=token)
    return [acl["resource_name"] for acl in replica.acls()]


def _counter(replica: Process, wanted: int) -> Callable[[], tuple[int, dict[str, str]]]:
    def count() -> tuple[int, dict[str, str]]:
        done = 0
        while done < wanted:
            page = replica.post("/v1/acls/search", {"context": context(), "filter": {}, "limit": 1000})
            step = sum(acl["resource_name"].startswith("step") for acl in page["acls"])
            status, _ = _writer(replica, f"step{step}", page["token"])()
            done += status == 200
        return done, {}

    return count


def _writer(replica: Process, name: str, guard: str) -> Callable[[], tuple[int, dict[str, str]]]:
    def write() -> tuple[int, dict[str, str]]:
        body = {"context": context(), "bindings": [acl(name)], "if_unchanged_since": guard}
        reply = replica.http.post("/v1/acls", json=body)
        return reply.status_code, reply.json()

    return write


def _at_once(work: list[Callable[[], tuple[int, dict[str, str]]]]) -> list[tuple[int, dict[str, str]]]:
    answers: list[tuple[int, dict[str, str]]] = []
    threads = [threading.Thread(target=lambda each=each: answers.append(each())) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(answers) == len(work)
    return answers
