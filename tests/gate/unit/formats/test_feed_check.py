"""A stream's events, checked as a whole."""

import copy
import io
import json
from typing import Any

import pytest

from app.core.proof import FeedDamagedError
from app.formats.feed_check import EventCheck
from app.formats.feed_events import NoEventError, events_in
from tests.gate.unit.formats.test_feed_events import EVENTS

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


def test_a_snapshot_that_is_not_whole_is_found(subtests: pytest.Subtests) -> None:
    for events in [
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
    ]:
        with subtests.test(events=events), pytest.raises(FeedDamagedError):
            check(events)


@pytest.mark.parametrize("fields", [{"token": "x"}, {"hash": "x"}, {"hash": None}, {"digest": 5}, {"token": None}])
def test_a_field_that_can_not_be_read_is_told_with_its_line(fields: dict[str, object]) -> None:
    with pytest.raises(NoEventError, match="line 4"):
        check(spoiled(3, **fields))


FIRST, SECOND = EVENTS[0]["token"].partition(":")[0], "0199f0c2-5d1e-7c3a-9a41-3f6f0b8a2c17"


def began(epoch: str, first_offset: int) -> dict[str, Any]:
    return {"type": "epoch", "epoch": epoch, "first_offset": first_offset}


def moved(events: list[dict[str, Any]], epoch: str = SECOND) -> list[dict[str, Any]]:
    """The same events, of another epoch."""
    return [{**each, "token": f"{epoch}:{each['token'].partition(':')[2]}"} for each in events]


def snapshot_of_history(*epochs: tuple[str, int]) -> list[dict[str, Any]]:
    """The snapshot as one of a history with these epochs."""
    rows = [{"epoch": epoch, "first_offset": first_offset} for epoch, first_offset in epochs]
    first, last = moved([{**SNAPSHOT[0], "epochs": rows}, SNAPSHOT[3]], epochs[-1][0])
    return [first, *SNAPSHOT[1:3], last]


def test_a_stream_over_two_epochs_comes_to_the_same() -> None:
    whole = check([*EVENTS[:4], began(SECOND, 3), *moved(EVENTS[4:])]).proof
    assert (whole.offset, whole.digest) == (4, check(EVENTS).proof.digest)
    check([*SNAPSHOT, began(SECOND, 3), *moved(EVENTS[4:])])
    check([*snapshot_of_history((FIRST, 0), (SECOND, 3)), *moved(EVENTS[4:])])
    check([began(SECOND, 3), *moved(EVENTS[4:])])
    check([began(SECOND, 3), *moved(EVENTS[3:4])])


def test_an_epoch_that_does_not_fit_is_found(subtests: pytest.Subtests) -> None:
    for events, why in [
        ([*EVENTS[:4], *moved(EVENTS[4:])], "was not stated to begin"),
        ([*EVENTS[:4], began(SECOND, 2), *moved(EVENTS[4:])], "but the feed is at 3"),
        ([*EVENTS[:4], began(SECOND, 4), *moved(EVENTS[4:])], "but the feed is at 3"),
        ([*EVENTS[:4], began(SECOND, 3), *EVENTS[4:]], "was not stated to begin"),
        ([*moved(EVENTS[:4]), began(FIRST, 3), *EVENTS[4:]], "not a later one"),
        ([*EVENTS[:4], began(FIRST, 3), *EVENTS[4:]], "not a later one"),
        ([*SNAPSHOT[:2], began(SECOND, 3)], "within a snapshot"),
        ([began(SECOND, 2), *moved(EVENTS[4:])], "began after offset 2"),
        ([began(SECOND, 2), *moved(EVENTS[3:4])], "began after offset 2"),
        (snapshot_of_history((SECOND, 0), (FIRST, 3)), "not a later one"),
        (snapshot_of_history((FIRST, 0), (SECOND, 4)), "but the feed is at 3"),
    ]:
        with subtests.test(events=events, why=why), pytest.raises(FeedDamagedError, match=why):
            check(events)


@pytest.mark.parametrize("epochs", [[(FIRST, 0)], [(FIRST, 5), (SECOND, 3)], [(SECOND, 0), (SECOND, 3)]])
def test_epochs_that_no_history_has_are_told_with_their_line(epochs: list[tuple[str, int]]) -> None:
    rows = [{"epoch": epoch, "first_offset": first_offset} for epoch, first_offset in epochs]
    with pytest.raises(NoEventError, match="line 1"):
        check([{**moved(SNAPSHOT[:1])[0], "epochs": rows}])
