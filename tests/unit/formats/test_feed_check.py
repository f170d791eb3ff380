"""A stream's events, checked as a whole."""

import copy
import io
import json
from typing import Any

import pytest

from app.core.proof import FeedDamagedError
from app.formats.feed_check import EventCheck
from app.formats.feed_events import NoEventError, events_in
from tests.cases import each_case
from tests.unit.formats.test_feed_events import EVENTS

AFTER_3 = EVENTS[3]
ACL = EVENTS[2]["records"][0]["acl"]
STATE = {name: AFTER_3[name] for name in ("token", "hash", "digest")}
SNAPSHOT: list[dict[str, Any]] = [
    {"type": "snapshot", **STATE, "cluster_id": "c", "acl_count": 1, "config_count": 1},
    {"type": "acls", "acls": [ACL]},
    {"type": "configs", "configs": {"super.users": "User:admin"}},
    {"type": "synced", **STATE},
]


def check(events: list[dict[str, Any]]) -> EventCheck:
    found = EventCheck()
    found.follow_all(events_in(io.BytesIO(b"\n".join(json.dumps(each).encode() for each in events))))
    return found


def test_a_stream_from_the_birth_and_one_from_a_snapshot_come_to_the_same() -> None:
    whole, from_snapshot = check(EVENTS).proof, check([*SNAPSHOT, *EVENTS[4:]]).proof

    assert (whole.offset, whole.hash, whole.digest) == (4, from_snapshot.hash, from_snapshot.digest)
    assert whole.acl_count == from_snapshot.acl_count == 0


def test_one_that_begins_in_the_middle_proves_the_chain_only() -> None:
    assert check(EVENTS[2:]).proof.digest is None
    assert check(EVENTS[3:]).proof.offset == 4
    with pytest.raises(FeedDamagedError, match="line 3"):
        check([*EVENTS[2:4], {**EVENTS[4], "recorded_at": "2026-11-23T08:00:00.123457Z"}])


def test_what_a_later_version_adds_is_passed_over() -> None:
    check(
        [{"type": "news"}, {**EVENTS[0], "more": 1}, *EVENTS[1:], {"type": "end", "token": "x", "reason": "draining"}]
    )


def spoiled(at: int, **changes: object) -> list[dict[str, Any]]:
    events = copy.deepcopy(SNAPSHOT)
    events[at].update(changes)
    return events


@each_case(
    "events",
    [
        SNAPSHOT[1:],
        SNAPSHOT[:3],
        [*SNAPSHOT[:1], *SNAPSHOT[2:]],
        [*SNAPSHOT[:2], *SNAPSHOT[3:]],
        [*SNAPSHOT[:2], *SNAPSHOT[1:]],
        [*SNAPSHOT[:2], *EVENTS],
        spoiled(1, acls=[{**ACL, "permission_type": "DENY"}]),
        spoiled(1, acls=[{**ACL, "owner": None}]),
        spoiled(2, configs={"super.users": "User:mallory"}),
        spoiled(3, hash="00" * 32),
        [*SNAPSHOT, EVENTS[5]],
        [*EVENTS[:2], {**EVENTS[2], "token": EVENTS[2]["token"].replace("5a", "5b")}],
    ],
)
def test_a_snapshot_that_is_not_whole_is_found(events: list[dict[str, Any]]) -> None:
    with pytest.raises(FeedDamagedError):
        check(events)


@pytest.mark.parametrize("fields", [{"token": "x"}, {"hash": "x"}, {"hash": None}, {"digest": 5}, {"token": None}])
def test_a_field_that_can_not_be_read_is_told_with_its_line(fields: dict[str, object]) -> None:
    with pytest.raises(NoEventError, match="line 4"):
        check(spoiled(3, **fields))
