"""Replicas that start at the same moment on nothing, and replicas that come and go under load."""

import logging
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx

from app.store.migrate import _LOCK_KEY
from tests.klamm import LIMIT_S, ROOT, Process, acl, action, replica, wait_until
from tests.planted import hear, plant_password
from tests.proof.e2e.crowd import Answer, Crowd, answer_in, judge, question_of
from tests.proof.e2e.keepers import Keeper
from tests.proof.e2e.outside import Outside

_log = logging.getLogger(__name__)

REPLICAS = 3


def migrate(database_url: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("klamm")), "migrate"],
        cwd=ROOT,
        env={**os.environ, "KLAMM_DATABASE_URL": plant_password(database_url)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    hear(f"{done.stdout}\n{done.stderr}")
    return done


def test_two_replicas_and_four_migrations_that_start_at_once_make_one_store(database_url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        with Outside(database_url) as outside:
            # Held until all stand in line, so that they truly begin at once; and none may pass it.
            outside.rows("SELECT pg_advisory_lock($1)", _LOCK_KEY)
            replicas = [pool.submit(replica, database_url) for _ in range(2)]
            migrations = [pool.submit(migrate, database_url) for _ in range(4)]
            wait_until(
                lambda: len(outside.backends("migration")) == 4 or any(each.done() for each in migrations), "all"
            )
            assert not any(map(Future.done, migrations))
        for migration in migrations:
            assert migration.result().returncode == 0, migration.result().stderr
    with replicas[0].result() as one, replicas[1].result() as other, Outside(database_url) as outside:
        one.ready()
        other.ready()
        created = one.create(acl("orders"))
        assert other.authorize("User:alice", action("orders"), at_least=created["token"]) == ["ALLOWED"]
        deleted = other.delete({"resource_name": "orders"})
        assert deleted["results"][0]["matches"][0]["id"] == created["results"][0]["id"]
        assert one.authorize("User:alice", action("orders"), at_least=deleted["token"]) == ["DENIED"]
        assert outside.history().last_offset == 2


_NO_ANSWERS = {"ConnectError", "ReadError", "RemoteProtocolError", "AUTHORIZER_NOT_READY", "OVERLOADED"}
"""A replica whose core is busy elsewhere for a quarter of a second is overloaded."""


def test_replicas_that_restart_under_load_answer_rightly_or_not_at_all(migrated_database_url: str) -> None:
    keepers = [Keeper(f"keeper-{each}") for each in range(3)]
    names = [key.name for keeper in keepers for key in keeper.keys]
    replicas = [replica(migrated_database_url) for _ in range(REPLICAS)]
    try:
        urls = [each.ready().url for each in replicas]
        with Crowd() as crowd:
            for keeper in keepers:
                crowd.start(keeper.work, crowd, urls)
            asking = [crowd.start(_ask_anyone, crowd, urls, names, dice) for dice in range(3)]
            for each in range(2 * REPLICAS):
                _restart(replicas, urls, each, migrated_database_url)
        with Outside(migrated_database_url) as outside:
            for service in replicas:
                service.create(acl("the last one"))
            history = outside.history()
            assert history.acls == outside.acls()
        for keeper in keepers:
            keeper.check(history)
        for answers, refusals in (each.result() for each in asking):
            _log.info("%s, %d answers", dict(refusals), sum(map(len, answers.values())))
            assert refusals.keys() <= _NO_ANSWERS
            for of_one_process in answers.values():
                judge(of_one_process, names, history)
        _log.info("updates: %s", dict(sum((keeper.outcomes for keeper in keepers), Counter())))
    finally:
        for service in replicas:
            service.stop()


def _restart(replicas: list[Process], urls: list[str], each: int, database_url: str) -> None:
    """One after the other, by SIGTERM and SIGKILL by turns; asked from the moment on that it listens."""
    at = each % len(replicas)
    killed = each % 2 == 1
    assert replicas[at].stop(signal.SIGKILL if killed else signal.SIGTERM) == (-signal.SIGKILL if killed else 0)
    replicas[at] = replica(database_url)
    urls[at] = replicas[at].url
    replicas[at].ready()


def _ask_anyone(
    crowd: Crowd, urls: Sequence[str], names: Sequence[str], dice: int
) -> tuple[dict[str, list[Answer]], Counter[str]]:
    """The answers of each process, and what else came of asking."""
    draw = random.Random(dice)
    answers: defaultdict[str, list[Answer]] = defaultdict(list)
    refusals: Counter[str] = Counter()
    with httpx.Client(timeout=LIMIT_S) as http:
        while crowd.going:
            url = draw.choice(urls)
            try:
                reply = http.post(f"{url}/v1/authorize", json=question_of(names))
            except httpx.TransportError as fault:
                refusals[type(fault).__name__] += 1
                continue
            if reply.status_code == httpx.codes.OK:
                answers[url].append(answer_in(reply.json()))
            else:
                refusals[reply.json()["code"]] += 1
    return answers, refusals
