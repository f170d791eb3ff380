"""ALLOWs with an end, on real processes whose wall clocks are wrong, without PostgreSQL, and frozen over the end."""

import signal
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.asking_again import client_of
from tests.klamm import LIMIT_S, Json, Process, acl, action, context, wait_until
from tests.postgres import Store, sql
from tests.proof.e2e.repeating import Repeating
from tests.proof.e2e.workers import kill, pids, ready, service_of

HOUR = 3_600
ACTIONS = 500
SOON_S = 15
MANY = 1_000_000
QUESTION: Json = {"context": context("User:alice"), "actions": [action("orders")] * ACTIONS}

WRONG_CLOCK = """
import time
_time, _time_ns, _clock_gettime = time.time, time.time_ns, time.clock_gettime
time.time = lambda: _time() + {seconds}
time.time_ns = lambda: _time_ns() + {seconds} * 10**9
time.clock_gettime = lambda clock: _clock_gettime(clock) + ({seconds} if clock == time.CLOCK_REALTIME else 0)
print("the wall clock is off by {seconds} s", flush=True)
"""


def off_by(folder: Path, seconds: int) -> dict[str, str]:
    """Variables of a process whose wall clock is wrong."""
    folder = folder / f"off_by_{seconds}"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WRONG_CLOCK.format(seconds=seconds), encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


class Sampling(Repeating):
    """Threads that ask a service all the time: when each question was sent, by the store's clock, and its answer.

    PostgreSQL is on this machine, so its clock is the tests' own.
    """

    def __init__(self, service: Process, threads: int = 2) -> None:
        self.answers: list[tuple[float, set[str]]] = []
        self._by_arrival: list[tuple[float, set[str]]] = []
        """By when they had come back."""
        self._url = service.url
        super().__init__(*[self._ask] * threads)

    def _ask(self) -> None:
        with client_of(self._url) as http:
            while not self.done.is_set():
                sent_at = time.time()
                reply = http.post("/v1/authorize", json=QUESTION)
                assert reply.status_code == httpx.codes.OK, reply.text
                results = set(reply.json()["results"])
                self.answers.append((sent_at, results))
                self._by_arrival.append((time.time(), results))

    def after(self, ends_at: float) -> int:
        """How many answers came to questions that were sent after the end."""
        return ACTIONS * sum(sent_at >= ends_at for sent_at, _ in self.answers.copy())

    def check(self, ends_at: float) -> None:
        """Every question that was sent after the end was denied, and until shortly before it was allowed."""
        wrong = [answer for answer in self.answers if answer[0] >= ends_at and answer[1] != {"DENIED"}]
        early = [answer for answer in self._by_arrival if answer[0] < ends_at - 1 and answer[1] != {"ALLOWED"}]
        assert (wrong, early) == ([], [])
        print(f"{self.after(ends_at):,} answers after the end, of {len(self.answers) * ACTIONS:,}")
        assert 0 < self.after(ends_at) < len(self.answers) * ACTIONS


def rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def removals(store: Store) -> int:
    (row,) = sql(
        store.dsn,
        "SELECT count(*) FROM acl_record_v2 WHERE kind = 'RemoveAccessControlEntryRecord' AND actor = 'klamm:expiry'",
    )
    return int(row[0])


def services_of(store: Store, folder: Path, stack: ExitStack, *seconds: int) -> list[Process]:
    """Services of two workers each, whose wall clocks are off by so many seconds."""
    found = []
    for each in seconds:
        service = stack.enter_context(service_of(2, store.dsn, **off_by(folder, each)))
        found.append(ready(service, 2))
        assert sum(f"off by {each} s" in line for line in service.lines) >= 2
    return found


def allow_until(ends_at: int, service: Process, *others: Process) -> None:
    service.create(acl("orders", expires_at=rfc3339(ends_at)))
    for each in others:
        wait_until(lambda each=each: each.authorize("User:alice", action("orders")) == ["ALLOWED"], "it is known")  # type: ignore[misc]


def test_a_million_answers_by_clocks_that_are_an_hour_off_and_one_record_removes_it(
    store: Store, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        services = services_of(store, tmp_path, stack, HOUR, -HOUR)
        ends_at = int(time.time()) + SOON_S
        allow_until(ends_at, *services)
        with Sampling(services[0]) as one, Sampling(services[1]) as other:
            wait_until(lambda: one.after(ends_at) + other.after(ends_at) >= MANY, "a million answers", 600)
        one.check(ends_at)
        other.check(ends_at)
        wait_until(lambda: services[0].acls(principal="User:alice") == [], "it is removed")
        time.sleep(1)
        assert removals(store) == 1


def test_an_allow_ends_while_postgresql_is_away_also_for_who_was_frozen_over_the_end(
    store: Store, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        (service,) = services_of(store, tmp_path, stack, -HOUR)
        ends_at = int(time.time()) + SOON_S
        allow_until(ends_at, service)
        clients = [stack.enter_context(client_of(service.url)) for _ in range(12)]
        with Sampling(service) as sampling:
            store.server.stop()
            time.sleep(1)
        assert {results for _, answers in sampling.answers for results in answers} == {"ALLOWED"}
        assert first_answers(service, clients, ends_at) == [["DENIED"] * ACTIONS] * len(clients)
        about = {"context": context(), "about": {"principal": "User:alice", "client_address": "127.0.0.1"}}
        (found,) = service.post("/v1/explain", {**about, "actions": [action("orders")]})["results"]
        assert (found["result"], found["near_misses"][0]["missed"]) == ("DENIED", ["expiry"])
        assert "ended at" in found["near_misses"][0]["detail"]
        assert [acl["resource_name"] for acl in service.acls(principal="User:alice")] == ["orders"]
        store.server.start()
        wait_until(lambda: service.acls(principal="User:alice") == [], "it is removed once the store is back")
        assert removals(store) == 1


def first_answers(service: Process, clients: Sequence[httpx.Client], ends_at: int) -> list[list[str]]:
    """What those are told first who ask workers that stand still over the end, and then go on."""
    return asked_while_frozen(pids(service).values(), clients, QUESTION, ends_at)


def asked_while_frozen(
    processes: Collection[int], clients: Sequence[httpx.Client], question: Json, ends_at: int
) -> list[list[str]]:
    """The first answers of processes that stand still over the end; before it they have allowed it."""
    for client in clients:
        assert client.post("/v1/authorize", json=question).json()["results"][0] == "ALLOWED"
    found: list[list[str]] = []
    asking = [threading.Thread(target=_ask, args=(client, question, found)) for client in clients]
    try:
        for pid in processes:
            kill(pid, signal.SIGSTOP)
        time.sleep(max(0, ends_at + 0.01 - time.time()))
        for thread in asking:
            thread.start()
        time.sleep(0.5)
        assert found == []
    finally:
        for pid in processes:
            kill(pid, signal.SIGCONT)
    for thread in asking:
        thread.join(LIMIT_S)
    return found


def _ask(client: httpx.Client, question: Json, found: list[list[str]]) -> None:
    while (reply := client.post("/v1/authorize", json=question)).status_code == httpx.codes.TOO_MANY_REQUESTS:
        pass
    found.append(reply.json()["results"] if reply.status_code == httpx.codes.OK else [reply.text])
