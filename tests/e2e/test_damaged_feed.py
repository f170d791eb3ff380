"""Records that are no changes: never half applied. A sound table takes their place; else the last good image serves."""

import logging
from collections.abc import Iterator

import pytest

from tests.e2e.crowd import Crowd, judge, seconds_until
from tests.e2e.history import History
from tests.e2e.outside import Outside
from tests.e2e.postgres import Frozen
from tests.e2e.service import Service, action, binding, context, eventually, replica_on

_log = logging.getLogger(__name__)

DAMAGES = {
    "unknown operation": "UPDATE acl_record SET operation = 99 WHERE resource_name = 'torn-2'",
    "unknown kind": "UPDATE acl_record SET kind = 'PartitionRecord' WHERE resource_name = 'torn-2'",
    "other content": "UPDATE acl_record SET principal = 'User:mallory' WHERE resource_name = 'torn-2'",
    "broken chain": "UPDATE acl_record SET hash = sha256('') WHERE resource_name = 'torn-3'",
    "torn transaction": "UPDATE acl_record SET tx_last = 4 WHERE resource_name IN ('torn-1', 'torn-2')",
    "hole": "DELETE FROM acl_record WHERE resource_name = 'torn-2'",
    "hole at the end": "DELETE FROM acl_record WHERE resource_name = 'after'",
}
DAMAGED_TABLE = "UPDATE acl SET operation = 99 WHERE resource_name = 'torn-2'"
MENDINGS = {
    "table": "DELETE FROM acl WHERE resource_name <> 'own'; INSERT INTO acl TABLE sound_acl",
    "feed": "DELETE FROM acl_record WHERE resource_name <> 'own'; INSERT INTO acl_record TABLE sound_record",
}
NAMES = ["before", "good", "torn-1", "torn-2", "torn-3", "after", "own"]
GOOD_OFFSET, LAST_OFFSET = 2, 6


@pytest.fixture
def outside(migrated_database_url: str) -> Iterator[Outside]:
    with Outside(migrated_database_url) as outside:
        yield outside


@pytest.fixture
def one(migrated_database_url: str) -> Iterator[Service]:
    """A replica that has followed before the damage was done."""
    with replica_on(migrated_database_url) as service:
        service.ready().create(binding("before"))
        yield service


@pytest.fixture
def other(one: Service, migrated_database_url: str) -> Iterator[Service]:
    """One that will meet the damage."""
    with replica_on(migrated_database_url, KLAMM_REQUEST_TIMEOUT_MS="500") as service:
        assert service.ready().metric("klamm_feed_offset") == one.metric("klamm_feed_offset")
        yield service


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_feed_is_never_half_applied_and_a_sound_table_takes_its_place(
    one: Service, other: Service, outside: Outside, damage: str
) -> None:
    with Crowd() as crowd:
        asking = crowd.start(crowd.ask, other.url, NAMES)
        with Frozen([other.process.pid]):
            history = _write_what_will_be_damaged(one, outside)
            outside.execute(DAMAGES[damage])
        took_s = seconds_until(lambda: other.metric("klamm_feed_offset") == LAST_OFFSET, "recovered")
    _log.info("%s in the feed, sound table -> current again: %.2f s", damage, took_s)
    judge(asking.result(), NAMES, history)
    assert {acl["id"] for acl in other.acls()} == set(outside.acls().values())
    assert other.metric("klamm_records_poisoned_total") > 0
    assert other.metric("klamm_image_loads_total") == 2
    assert one.metric("klamm_image_loads_total") == 1


@pytest.mark.parametrize(
    ("damage", "mended"),
    [
        ("unknown operation", "table"),
        ("hole", "table"),
        ("torn transaction", "feed"),
        ("broken chain", "feed"),
    ],
)
def test_with_feed_and_table_damaged_the_last_good_image_serves_on_and_says_so_until_either_is_mended(
    one: Service, other: Service, outside: Outside, damage: str, mended: str
) -> None:
    with Crowd() as crowd:
        asking = crowd.start(crowd.ask, other.url, NAMES, gap_s=0.01)
        with Frozen([other.process.pid]):
            history = _write_what_will_be_damaged(one, outside)
            outside.execute("CREATE TABLE sound_acl AS TABLE acl; CREATE TABLE sound_record AS TABLE acl_record")
            outside.execute(DAMAGES[damage])
            outside.execute(DAMAGED_TABLE)
        _stands_still(other)
        # It still writes for who asks it, and tells that it can't show the change.
        refused = other.post("/v1/acls", {"context": context(), "bindings": [binding("own")]}, status=504)
        assert "is written" in refused["detail"]
        _stands_still(other)

        outside.execute(MENDINGS[mended])
        took_s = seconds_until(lambda: other.metric("klamm_feed_offset") == LAST_OFFSET + 1, "recovered")
        _log.info("%s in the feed, damaged table, %s mended -> current again: %.2f s", damage, mended, took_s)
        eventually(lambda: other.http.get("/readyz").text == "ok", "ready")
        assert other.authorize("User:alice", *map(action, NAMES)) == ["ALLOWED"] * len(NAMES)
    for answer in asking.result():
        # "own" came later than this history.
        assert answer.results[:-1] == history.results(NAMES[:-1], answer.offset)


def _write_what_will_be_damaged(one: Service, outside: Outside) -> History:
    """A good transaction, one that will be damaged, one after it; and how things should be."""
    one.create(binding("good"))
    one.create(*(binding(f"torn-{each}") for each in (1, 2, 3)))
    one.create(binding("after"))
    return outside.history()


def _stands_still(replica: Service) -> None:
    """At the last good offset; answering, telling, and trying again."""
    failures = replica.metric("klamm_image_load_failures_total")
    eventually(lambda: replica.metric("klamm_image_load_failures_total") > failures + 1, "it goes on trying")
    assert 'klamm_readiness_state{state="LAGGING"} 1.0' in replica.http.get("/metrics").text
    assert replica.metric("klamm_records_poisoned_total") > 0
    assert replica.metric("klamm_image_loads_total") == 1
    assert replica.metric("klamm_feed_offset") == GOOD_OFFSET
    probe = replica.http.get("/readyz?verbose")
    assert probe.status_code == 200
    assert "change-feed ok: lagging" in probe.text
    assert "can't read" in probe.text
    allowed = replica.authorize("User:alice", *map(action, NAMES)).count("ALLOWED")
    assert allowed == GOOD_OFFSET
