"""The broker's own authorizer, without a broker: its answers are Kafka's, and it believes nothing unproved."""

import json
import re
from pathlib import Path

import pytest

from tests.gate.differential.test_decisions import rules_on_type
from tests.klamm import ROOT
from tests.proof.kafka.authorizer import Authorizer
from tests.vectors.loader import Line, lines

_MOST_BYTES = 300_000
_FEED = (ROOT / "docs" / "feed.md").read_text(encoding="utf-8")
_EXAMPLE = re.findall(r'^    (\{"type": .*\})$', _FEED, re.MULTILINE)
_CANONICAL = re.search(r"canonical record 3.*?\n\n((?:    [0-9a-f]+\n)+)", _FEED, re.DOTALL)
_EPOCH = "5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11"
_STORES, _DECISIONS = 1_000, 1_000
"""A tenth of what docs/kafka-broker.md tells of."""


def _snapshot(digest: str = "0" * 64, count: int = 0) -> list[str]:
    head = {"token": f"{_EPOCH}:0", "hash": "0" * 64, "digest": digest}
    return [
        json.dumps({"type": "snapshot", **head, "acl_count": count, "config_count": 0}),
        json.dumps({"type": "configs", "configs": {}}),
        json.dumps({"type": "synced", **head}),
    ]


def _states(authorizer: Authorizer, events: list[str]) -> list[str]:
    return authorizer.run("FeedLines", lines="\n".join(events) + "\n")


def test_the_jar_is_small_and_holds_nothing_of_others(authorizer: Authorizer) -> None:
    assert authorizer.jar.stat().st_size < _MOST_BYTES


def _by_the_rules(line: Line) -> Line:
    """Kafka 4.4.0 finds 0.0.0.0 in no range (quirk 4), where authorizeByResourceType is asked from there; we do."""
    for request in line.get("requests", []):
        if "checks" in request and request["host"] == "0.0.0.0":  # noqa: S104 - a client's address
            request["documented_rules_say"] = [
                said if said.startswith("ERROR") else rules_on_type(line, request, check, zero_is_nowhere=False)
                for check, said in zip(request["checks"], request["expected"], strict=True)
            ]
    return line


def test_an_answer_that_was_long_on_its_way_ends_no_allow_too_early(authorizer: Authorizer) -> None:
    """The count before it is closer, but for an answer that is ahead of it, or far behind."""
    assert authorizer.run("StoreTimes") == [
        "first: 0",
        "long on its way: 0",
        "ahead and long on its way: 3660",
        "behind: -3550",
        "suspended: true",
        "long on its way then: 0 false",
    ]


@pytest.mark.parametrize("name", ["authorize", "authorize_quirks", "by_resource_type", "filters"])
def test_it_answers_as_kafkas_own_classes_do(authorizer: Authorizer, tmp_path: Path, name: str) -> None:
    asked = "\n".join(json.dumps(_by_the_rules(line)) for line in lines(name))
    same, *differences = authorizer.run("Vectors", str(tmp_path), lines=asked + "\n")
    assert not differences
    assert int(same) >= {"authorize": 54_000, "by_resource_type": 39_000, "filters": 11_000}.get(name, 50)


def test_it_decides_as_the_brokers_own_authorizer_on_random_stores(authorizer: Authorizer, tmp_path: Path) -> None:
    same, different, *examples = authorizer.run("Compare", str(tmp_path), str(_STORES), str(_DECISIONS), "20261123")
    assert different == "0", examples
    assert int(same) == _STORES * _DECISIONS


def test_the_worked_example_of_the_feed_is_followed_to_the_byte(authorizer: Authorizer) -> None:
    assert _CANONICAL is not None
    third = next(line for line in _EXAMPLE if '"first_offset": 3' in line)
    said = _states(authorizer, [*_snapshot(), *_EXAMPLE, "canonical", third])
    assert said[-1] == "".join(_CANONICAL[1].split())
    for event, state in zip(map(json.loads, _EXAMPLE), said[3:], strict=False):
        token, hash_, digest, _ = state.split()
        assert (token, hash_) == (event["token"], event["hash"])
        assert digest == event.get("digest", digest)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"orders"', '"order"'),
        ('"User:alice"', '"User:alicf"'),
        ('"hash_version": 1', '"hash_version": 2'),
        ('"first_offset": 1, "last_offset": 2', '"first_offset": 2, "last_offset": 3'),
        ('"actor": "User:admin"', '"actor": "User:admim"'),
        ("06:00:00.123456Z", "06:00:00.123457Z"),
        ('"operation": "READ"', '"operation": "SHOUT"'),
        ('"kind": "AccessControlEntryRecord"', '"kind": "RemoveAccessControlEntryRecord"'),
    ],
)
def test_a_change_that_was_tampered_with_is_refused(authorizer: Authorizer, old: str, new: str) -> None:
    assert old in _EXAMPLE[0]
    *_, before, refused, still = _states(authorizer, [*_snapshot(), _EXAMPLE[0].replace(old, new), _snapshot()[1]])
    assert refused.startswith("refused: "), refused
    assert still.startswith("refused: ") or still == before


def test_a_snapshot_that_is_not_whole_is_refused(authorizer: Authorizer) -> None:
    assert _states(authorizer, _snapshot("1" * 64))[-1].startswith("refused: the digest")
    assert _states(authorizer, _snapshot(count=1))[-1].startswith("refused: a snapshot is not whole")
    assert _states(authorizer, [_snapshot()[0], _snapshot()[2]])[-1].startswith("refused: a snapshot is not whole")


def test_a_transaction_that_was_missed_is_noticed(authorizer: Authorizer) -> None:
    missed = "refused: a transaction is not the one that comes next"
    assert _states(authorizer, [*_snapshot(), _EXAMPLE[2]])[-1] == missed
    assert _states(authorizer, [*_snapshot(), _EXAMPLE[1]])[-1].startswith("refused: a bookmark is not of the state")


def test_an_older_snapshot_is_refused_because_a_revoked_right_would_be_back(authorizer: Authorizer) -> None:
    failed = '{"type": "acls", "acls": []}'
    _, _, _, held, asked, older, *_, still = _states(
        authorizer, [*_snapshot(), _EXAMPLE[0], failed, *_snapshot(), '{"type": "unknown"}']
    )
    assert asked.startswith("refused: "), "a snapshot is asked for"
    assert older.startswith("refused: a snapshot of an older state")
    assert still == held


def test_epochs_that_begin_are_followed_without_a_snapshot(authorizer: Authorizer) -> None:
    later = "01939000-0000-7000-8000-000000000001"
    begun = json.dumps({"type": "epoch", "epoch": later, "first_offset": 0})
    first = json.loads(_EXAMPLE[0])
    of_it = json.dumps({**first, "token": f"{later}:{first['last_offset']}"})
    *_, epoch, state = _states(authorizer, [*_snapshot(), begun, of_it])
    assert epoch.split()[0] == f"{later}:0"
    assert state.split()[:2] == [f"{later}:2", first["hash"]]
    assert _states(authorizer, [*_snapshot(), of_it])[-1].startswith("refused: a transaction is of another epoch")
