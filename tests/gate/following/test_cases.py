"""The one table of cases that says how a follower goes on; the plugin's FollowingTest (JUnit) reads it as well."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.core.epochs import Cause, Epoch, Epochs, may_replace
from app.core.following import Following, Probe
from app.core.token import Token

Row = Mapping[str, Any]

_FILE = Path(__file__).parents[2] / "following" / "cases.jsonl"
_LINES = [json.loads(line) for line in _FILE.read_text("utf-8").splitlines()]
_IDS = {name: UUID(text) for name, text in _LINES[0]["epochs"].items()}
_CASES: list[Row] = _LINES[1:]
_KEYS = {
    "judge": {"epochs", "last_offset", "position", "store_time", "standing"},
    "replace": {"held", "offered", "epochs", "cause", "may_replace"},
    "follow": {"urls", "held", "epochs", "steps"},
    "probe": {"bookmarks", "age_s"},
}
_FOLLOWED = {1, 2, 3, 4, 5, 6, 7, 10, 11, 13}
"""The items of the issue that are about following."""


def _token(text: str | None) -> Token | None:
    if text is None:
        return None
    name, _, offset = text.partition(":")
    return Token(_IDS[name], int(offset))


def _rows(epochs: list[list[Any]]) -> list[tuple[UUID, int]]:
    return [(_IDS[name], offset) for name, offset in epochs]


def _epochs(epochs: list[list[Any]]) -> Epochs:
    return Epochs.of(Epoch(*row) for row in _rows(epochs))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["case"])
def test_case(case: Row) -> None:
    assert set(case) <= {"case", "items", "kind", *_KEYS[case["kind"]]}
    if case["kind"] == "judge":
        at = datetime.fromisoformat(case["store_time"]) if "store_time" in case else None
        position = _token(case["position"])
        assert position is not None
        assert _epochs(case["epochs"]).judge(position, case["last_offset"], at).name == case["standing"]
    elif case["kind"] == "replace":
        offered = _token(case["offered"])
        assert offered is not None
        may = may_replace(_token(case["held"]), offered, _epochs(case["epochs"]), Cause[case["cause"]])
        assert may is case["may_replace"]
    elif case["kind"] == "probe":
        probe = Probe()
        for token, age_s, reads_on in case["bookmarks"]:
            assert probe.bookmark(_known(token), age_s) is reads_on
        assert probe.age_s == case["age_s"]
    else:
        following = Following(case["urls"], _token(case["held"]))
        for step in case["steps"]:
            _take(following, step)


def _take(following: Following, step: Row) -> None:
    left, now = dict(step), float(step["at"])
    left.pop("at")
    do = left.pop("do")
    pop = left.pop
    events: dict[str, Callable[[], object]] = {
        "opened": lambda: following.opened(now),
        "refused": lambda: following.refused(pop("code"), now),
        "broke": lambda: following.broke(now),
        "failed_check": lambda: following.failed_check(now),
        "snapshot": lambda: following.snapshot(
            _known(pop("token")), _rows(pop("epochs")), pop("acls"), pop("configs"), now
        ),
        "acls": lambda: following.acls(pop("count"), pop("size"), now),
        "configs": lambda: following.configs(pop("count"), pop("size"), now),
        "synced": lambda: following.synced(_known(pop("token")), now),
        "epoch": lambda: following.epoch(_IDS[pop("epoch")], pop("first_offset"), now),
        "transaction": lambda: following.transaction(_known(pop("token")), pop("first_offset"), now),
        "bookmark": lambda: following.bookmark(_known(pop("token")), pop("age_s"), now),
        "unknown": lambda: True,
        "check": lambda: following.check(now),
        "probed": lambda: following.probed(pop("url"), pop("code"), pop("age_s"), now),
        "resume": lambda: following.resume(_known(pop("token")), _epochs(pop("epochs")), float(pop("equal_at"))),
    }
    answer = events[do]()
    checks: dict[str, Callable[[Any], None]] = {
        "reads_on": lambda expected: _equal(answer, expected, step),
        "action": lambda expected: _equal(getattr(answer, "name", None), expected, step),
        "probe_url": lambda expected: _equal(following.probe_url, expected, step),
        "held": lambda expected: _equal(following.held, _token(expected), step),
        "age_s": lambda expected: _equal(following.age_s(now), pytest.approx(expected) if expected else expected, step),
        "ask": lambda expected: _equal(_asked(following), expected, step),
    }
    for name, expected in left.items():
        checks[name](expected)


def _asked(following: Following) -> dict[str, object]:
    ask = following.ask
    if ask.after is None:
        return {"url": ask.url, "snapshot": None if ask.cause is None else ask.cause.name}
    name = next(name for name, each in _IDS.items() if each == ask.after.epoch)
    return {"url": ask.url, "after": f"{name}:{ask.after.offset}"}


def _known(text: str) -> Token:
    token = _token(text)
    assert token is not None
    return token


def _equal(actual: object, expected: object, step: Row) -> None:
    assert actual == expected, step


def test_there_are_enough_cases_of_each_item() -> None:
    assert len(_CASES) >= 60
    assert len({case["case"] for case in _CASES}) == len(_CASES)
    items = [item for case in _CASES for item in case["items"]]
    assert {item for item in _FOLLOWED if items.count(item) < 2} == set()
