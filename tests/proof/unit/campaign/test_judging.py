"""The campaign's judge: which answers of a node it finds wrong."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.campaign.askers import NO_TOKEN, REVOKED, SURVIVES, TOKEN, Askers
from tests.campaign.journal import Journal
from tests.campaign.ledger import Copy, Ledger, Operation
from tests.campaign.nodes import Node, Reply, Verdicts
from tests.clocks import Clocks

ALLOWED, DENIED = True, False
LOST = Reply({}, "TOKEN_EPOCH_MISMATCH")


class _Node(Node):
    """Says what a test wants."""

    def __init__(self, folder: Path) -> None:
        super().__init__("node", [], Clocks(folder))
        self.age: float | None = 0.0
        self.says = DENIED

    def pid(self) -> int:
        return 0

    def ask(self, names: Sequence[str]) -> Verdicts:
        return dict.fromkeys(names, self.says)

    def age_s(self) -> float | None:
        return self.age

    def snapshots(self) -> int | None:
        return None

    def _begin(self) -> None: ...

    def _end(self, sig: int) -> None: ...


class _Story:
    """One ACL, and what the judge says of an answer about it. Time passes by `later`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger, self.journal, self.node = Ledger(1), Journal(), _Node(folder)
        self.node.fed_since = 0.0
        self._askers = Askers(self.ledger, self.journal, [])
        self._now = 1_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self._now)
        self.name = self.ledger.creating()
        self.created = self.ledger.acknowledged(self.name, "e:1", present=True)

    def later(self, seconds: float = 2.0) -> None:
        self._now += seconds

    def put_back(self, copy: Copy) -> None:
        self.ledger.give_up(copy)
        self.ledger.is_back(self.ledger.put_back(copy, self._now), self._now)

    def delete(self) -> Operation:
        self.ledger.deleting(self.name)
        return self.ledger.acknowledged(self.name, "e:3", present=False)

    def broken_by(self, verdict: bool, age: float | None = 0.0) -> set[str]:  # noqa: FBT001
        self.node.says, self.node.age = verdict, age
        self._askers.ask_once(self.node, [self.name])
        return {rule for rule, _ in self.journal._violations}

    def broken_with(self, operation: Operation, reply: Reply) -> set[str]:
        self._askers._judge_with_token(self.node, operation, reply, was_lost=operation.is_lost)
        return {rule for rule, _ in self.journal._violations}


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Story:
    return _Story(tmp_path, monkeypatch)


def test_what_is_there_is_allowed_and_what_is_gone_is_not(story: _Story) -> None:
    story.later()
    assert story.broken_by(ALLOWED) == set()
    story.delete()
    story.later()
    assert story.broken_by(DENIED) == set()


def test_a_node_may_be_as_old_as_it_says(story: _Story) -> None:
    story.later()
    story.delete()
    story.later()
    assert story.broken_by(ALLOWED, age=3.0) == set()
    assert story.broken_by(ALLOWED, age=None) == set()
    assert story.broken_by(ALLOWED, age=1.0) == {NO_TOKEN}


def test_a_state_without_what_was_created_is_old_as_well(story: _Story) -> None:
    story.later()
    assert story.broken_by(DENIED, age=3.0) == set()
    assert story.broken_by(DENIED) == {NO_TOKEN}


def test_a_change_that_nobody_has_acknowledged_may_be_there_or_not(story: _Story) -> None:
    story.later()
    story.ledger.deleting(story.name)
    story.later()
    assert story.broken_by(ALLOWED) == story.broken_by(DENIED) == set()
    story.ledger.doubtful(story.name)
    assert story.broken_by(ALLOWED) == story.broken_by(DENIED) == set()


def test_a_revoked_right_is_allowed_for_ten_seconds_where_there_is_a_way_to_the_store(story: _Story) -> None:
    story.later()
    story.delete()
    story.later(9)
    assert story.broken_by(ALLOWED, age=60.0) == set()
    story.later(9)
    story.node.fed_since = None
    assert story.broken_by(ALLOWED, age=60.0) == set(), "it is cut off"
    story.node.fed_since = 0.0
    assert story.broken_by(ALLOWED, age=60.0) == {REVOKED}


def test_a_token_is_satisfied_by_nothing_older(story: _Story) -> None:
    assert story.broken_with(story.created, Reply({story.name: ALLOWED})) == set()
    deleted = story.delete()
    assert story.broken_with(deleted, Reply({story.name: DENIED})) == set()
    assert story.broken_with(deleted, Reply({}, "OFFSET_NOT_AVAILABLE")) == set()
    assert story.broken_with(deleted, Reply({story.name: ALLOWED})) == {TOKEN}


def test_a_token_of_the_history_that_goes_on_is_not_refused(story: _Story) -> None:
    assert story.broken_with(story.created, LOST) == {SURVIVES}


def test_with_the_token_of_a_lost_deletion_nothing_is_allowed_though_the_acl_is_back(story: _Story) -> None:
    story.later()
    copy = story.ledger.copy()
    deleted = story.delete()
    story.later()
    story.put_back(copy)
    story.later()
    assert story.broken_by(ALLOWED) == story.broken_with(deleted, LOST) == set()
    assert story.broken_with(deleted, Reply({story.name: ALLOWED})) == {TOKEN}


def test_who_follows_the_history_that_was_given_up_is_old(story: _Story) -> None:
    story.later()
    copy = story.ledger.copy()
    story.delete()
    story.later()
    story.put_back(copy)
    story.later()
    assert story.broken_by(DENIED, age=3.0) == set()
    assert story.broken_by(DENIED) == {NO_TOKEN}
