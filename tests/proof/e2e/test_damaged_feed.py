"""Records that are no changes: never half applied. A sound table takes their place; else the last good image serves."""

import logging
from collections.abc import Iterator

import pytest

from tests.klamm import Process, acl, action, context, replica, wait_until
from tests.postgres import Frozen
from tests.proof.e2e.crowd import Crowd, judge, seconds_until
from tests.proof.e2e.history import offset_of
from tests.proof.e2e.outside import Outside

_log = logging.getLogger(__name__)

NAMES = ["before", "good", "torn-1", "torn-2", "torn-3", "after", "own"]
DAMAGES = {
    "unknown operation": """UPDATE acl_record SET operation = 99 WHERE "offset" = $1""",
    "later version": """UPDATE acl_record SET hash_version = 3 WHERE "offset" = $1""",
    "unknown kind": """UPDATE acl_record SET kind = 'PartitionRecord' WHERE "offset" = $1""",
    "other content": """UPDATE acl_record SET principal = 'User:mallory' WHERE "offset" = $1""",
    "broken chain": """UPDATE acl_record SET hash = sha256('') WHERE "offset" = $1 + 1""",
    "torn transaction": """UPDATE acl_record SET tx_last = $1 WHERE "offset" BETWEEN $1 - 1 AND $1""",
    "hole": """DELETE FROM acl_record WHERE "offset" = $1""",
    "hole at the end": """DELETE FROM acl_record WHERE "offset" = $1 + 2""",
}
"""By the offset of torn-2."""
DAMAGED_TABLE = "UPDATE acl SET operation = 99 WHERE resource_name = 'torn-2'"
KEPT_SOUND = """DROP TABLE IF EXISTS sound_acl, sound_record;
    CREATE TABLE sound_acl AS TABLE acl; CREATE TABLE sound_record AS TABLE acl_record"""
MENDINGS = {
    "table": "DELETE FROM acl WHERE resource_name <> 'own'; INSERT INTO acl TABLE sound_acl",
    "feed": "DELETE FROM acl_record WHERE resource_name <> 'own'; INSERT INTO acl_record TABLE sound_record",
}


@pytest.fixture
def outside(migrated_database_url: str) -> Iterator[Outside]:
    with Outside(migrated_database_url) as outside:
        yield outside


@pytest.fixture
def one(migrated_database_url: str) -> Iterator[Process]:
    """A replica that follows before the damage is done."""
    with replica(migrated_database_url) as service:
        service.ready().create(acl("before"))
        yield service


@pytest.fixture
def other(one: Process, migrated_database_url: str) -> Iterator[Process]:
    """One that meets the damage."""
    with replica(migrated_database_url, KLAMM_REQUEST_TIMEOUT_MS="3000") as service:
        assert service.ready().metric("klamm_feed_offset") == one.metric("klamm_feed_offset")
        yield service


def test_a_damaged_feed_is_never_half_applied_and_a_sound_table_takes_its_place(
    one: Process, other: Process, outside: Outside
) -> None:
    with Crowd() as crowd:
        asking = crowd.start(crowd.ask, other.url, NAMES)
        for loads, damage in enumerate(DAMAGES, 2):
            with Frozen([other.process.pid]):
                last = _write_and_damage(one, outside, damage)
            took_s = seconds_until(lambda: other.metric("klamm_feed_offset") == last, damage)  # noqa: B023 - waited for
            _log.info("%s in the feed, sound table -> current again: %.2f s", damage, took_s)
            assert {acl["id"] for acl in other.acls()} == set(outside.acls().values())
            assert other.metric("klamm_records_poisoned_total") >= loads - 1
            assert other.metric("klamm_image_loads_total") == loads
            # By then it has met the three that it does not know.
            assert other.metric("klamm_records_unknown_total") >= min(loads - 1, 3)
            outside.execute(MENDINGS["feed"])
            one.delete({"principal": "User:alice"})
    judge(asking.result(), NAMES, outside.history())
    assert one.metric("klamm_image_loads_total") == 1


@pytest.mark.parametrize(("damage", "mended"), [("hole", "table"), ("broken chain", "feed")])
def test_with_feed_and_table_damaged_the_last_good_image_serves_on_and_says_so_until_either_is_mended(
    one: Process, other: Process, outside: Outside, damage: str, mended: str
) -> None:
    with Crowd() as crowd:
        asking = crowd.start(crowd.ask, other.url, NAMES, gap_s=0.01)
        with Frozen([other.process.pid]):
            last = _write_and_damage(one, outside, damage)
            outside.execute(DAMAGED_TABLE)
        _stands_still(other, at=2)
        # It still writes for who asks it, and tells that it can't show the change.
        refused = other.post("/v1/acls", {"context": context(), "bindings": [acl("own")]}, status=504)
        assert "was written" in refused["detail"]
        _stands_still(other, at=2)

        outside.execute(MENDINGS[mended])
        took_s = seconds_until(lambda: other.metric("klamm_feed_offset") == last + 1, "recovered")
        _log.info("%s in the feed, damaged table, %s mended -> current again: %.2f s", damage, mended, took_s)
        wait_until(lambda: other.http.get("/readyz").text == "ok", "ready")
        assert other.authorize("User:alice", *map(action, NAMES)) == ["ALLOWED"] * len(NAMES)
    outside.execute(MENDINGS["feed"])
    judge(asking.result(), NAMES, outside.history())


def _write_and_damage(one: Process, outside: Outside, damage: str) -> int:
    """A good transaction, one that is damaged, one after it; the last offset."""
    one.create(acl("good"))
    torn_3 = offset_of(one.create(*(acl(f"torn-{each}") for each in (1, 2, 3)))["token"])
    one.create(acl("after"))
    assert outside.history().last_offset == torn_3 + 1
    outside.execute(KEPT_SOUND)
    outside.rows(DAMAGES[damage], torn_3 - 1)
    return torn_3 + 1


def _stands_still(replica: Process, at: int) -> None:
    """At the last good offset; answering, telling, and trying again."""
    failures = replica.metric("klamm_image_load_failures_total")
    wait_until(lambda: replica.metric("klamm_image_load_failures_total") > failures + 1, "it goes on trying")
    assert 'klamm_readiness_state{state="LAGGING"} 1.0' in replica.http.get("/metrics").text
    assert replica.metric("klamm_records_poisoned_total") > 0
    assert replica.metric("klamm_image_loads_total") == 1
    assert replica.metric("klamm_feed_offset") == at
    probe = replica.http.get("/readyz?verbose")
    assert probe.status_code == 200
    assert "change-feed ok: lagging" in probe.text
    assert "can't read" in probe.text
    assert replica.authorize("User:alice", *map(action, NAMES)) == ["ALLOWED"] * at + ["DENIED"] * (len(NAMES) - at)
