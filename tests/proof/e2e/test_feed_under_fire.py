"""Nothing acknowledged is lost and nothing is made up, whatever is killed, started or restarted meanwhile."""

import logging
from collections import Counter
from itertools import count

from tests.klamm import Process, acl, action, replica
from tests.proof.e2e.crowd import Answer, Crowd, judge
from tests.proof.e2e.history import History, offset_of, seven_of
from tests.proof.e2e.keepers import Keeper
from tests.proof.e2e.outside import Outside
from tests.proof.e2e.relay import relay_to
from tests.proxy import COMMIT, Proxy

_log = logging.getLogger(__name__)

WRITERS = 8
FIRE_S = 20.0
KILL_EVERY_S = 0.25
CUT_EACH = 8


def test_what_8_writers_were_told_is_what_is_stored_while_connections_are_killed(migrated_database_url: str) -> None:
    keepers = [Keeper(f"keeper-{each}") for each in range(WRITERS)]
    names = [key.name for keeper in keepers for key in keeper.keys]
    with (
        Outside(migrated_database_url) as outside,
        relay_to(migrated_database_url) as relay,
        replica(migrated_database_url) as one,
        replica(relay.dsn) as other,
    ):
        replicas = [one.ready(), other.ready()]
        urls = [each.url for each in replicas]
        with Crowd() as crowd:
            for keeper in keepers:
                crowd.start(keeper.work, crowd, urls)
            asking = [crowd.start(crowd.ask, url, names, gap_s=0.01) for url in urls]
            crowd.start(_set_fire, crowd, migrated_database_url, relay)
            crowd.go_on_for(FIRE_S)
        history = _settled(outside, replicas)
        for each in asking:
            judge(each.result(), names, history)
        _log_outcomes(keepers, asking[0].result() + asking[1].result(), history)
        for keeper in keepers:
            keeper.check(history)
        # A lost connection is no reason to distrust the image.
        assert [replica.metric("klamm_feed_mismatches_total") for replica in replicas] == [0, 0]
        assert one.metric("klamm_image_loads_total") == 1


def _set_fire(crowd: Crowd, database_url: str, relay: Proxy) -> None:
    killed: Counter[str | None] = Counter()
    with Outside(database_url) as outside:
        for each in count():
            if not crowd.going:
                break
            if each % CUT_EACH == 0:
                # Who is killed has not committed; whose line is cut behind its COMMIT has, and can't know it.
                relay.then, relay.trip = "deliver", COMMIT
            killed[outside.kill_any()] += 1
            crowd.pause(KILL_EVERY_S)
    relay.trip = None
    _log.info("killed: %s", dict(killed))
    assert {"klamm writer", "klamm feed", "klamm listener"} <= killed.keys()


def _settled(outside: Outside, replicas: list[Process]) -> History:
    """The history of the store, which both replicas now equal, as the table does."""
    # A replica writes in order, so behind these there is nothing left that was given up while it was under way.
    tokens = [replica.create(acl("the last one"))["token"] for replica in replicas]
    token = max(tokens, key=offset_of)
    for each in replicas:
        assert each.authorize("User:alice", action("the last one"), at_least=token) == ["ALLOWED"]
        assert {seven_of(acl): acl["id"] for acl in each.acls()} == outside.acls()
    history = outside.history()
    assert history.acls == outside.acls()
    return history


def _log_outcomes(keepers: list[Keeper], answers: list[Answer], history: History) -> None:
    outcomes = sum((keeper.outcomes for keeper in keepers), Counter[str]())
    _log.info("%s, %d records, %d batches answered", dict(outcomes), history.last_offset, len(answers))
