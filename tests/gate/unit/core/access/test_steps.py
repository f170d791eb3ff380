"""However many hosts a principal has on one topic, each step looks at a bounded number: work is counted, not timed."""

from collections.abc import Iterator
from random import Random

import pytest

from app.core.access import holdings, what, who
from app.core.access.what import WhatCan, WhatQuestion
from app.core.access.who import WhoCan, WhoQuestion
from app.core.image import AuthorizerImage
from app.core.index import denies
from app.core.index.search import search
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from tests.access_grids import ASKED_ADDRESSES, ASKED_NAMES, ASKED_PRINCIPALS, random_store
from tests.gate.unit.core.test_bounded_work import counted_calls
from tests.images import image_of, numbered
from tests.updates import topic

HOSTS = 20_000
MOST_CALLS = 18_000
"""Of functions in one step, which is of 400 ACLs at most."""

STEPS = 50

WIDE = topic("orders", "User:wide")
EVERY = sum(1 << each for each in AclOperation)


@pytest.fixture(scope="module")
def image() -> AuthorizerImage:
    hosts = (f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}" for number in range(HOSTS))
    return image_of(numbered(WIDE._replace(host=each, operation=AclOperation.READ) for each in hosts))


def most_calls(steps: Iterator[object]) -> int:
    most = 0
    for _ in range(STEPS):
        with counted_calls() as calls:
            next(steps, None)
        most = max(most, calls.count)
    return most


@pytest.mark.parametrize("host", ["", "10.0.77.7"])
@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.WRITE])
def test_a_search(image: AuthorizerImage, operation: AclOperation, host: str) -> None:
    after = (2, "orders", 3, "User:wide", host, 0, 0) if host else None
    assert most_calls(search(image.index, AclBindingFilter(operation=operation), after)) < MOST_CALLS


def test_what_a_principal_can(image: AuthorizerImage) -> None:
    assert most_calls(WhatCan(image, WhatQuestion("User:wide")).steps()) < MOST_CALLS


def test_who_can(image: AuthorizerImage) -> None:
    assert most_calls(WhoCan(image, WhoQuestion(ResourceType.TOPIC, "orders", EVERY)).steps()) < MOST_CALLS


def rows_of(image: AuthorizerImage) -> list[object]:
    address = parse_address(ASKED_ADDRESSES[0])
    asked: list[WhatCan | WhoCan] = []
    for client in (None, address):
        asked += (WhatCan(image, WhatQuestion(each, client)) for each in ASKED_PRINCIPALS)
        asked += (WhoCan(image, WhoQuestion(ResourceType.TOPIC, each, EVERY, client)) for each in ASKED_NAMES)
    for each in asked:
        for _ in each.steps():
            pass
    return [row for each in asked for row in each.rows]


@pytest.mark.parametrize("seed", range(3))
def test_answers_in_many_small_steps_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    image, _ = random_store(Random(seed), AuthorizerConfig())
    rows = rows_of(image)
    for room in (what, who, denies):
        monkeypatch.setattr(room, "_STEP", 1)
    monkeypatch.setattr(holdings, "_RUN", 1)
    assert rows_of(image) == rows


def test_only_the_first_of_many_are_kept() -> None:
    acls = numbered(WIDE._replace(host=f"10.0.0.{number}") for number in range(3 * holdings.MAX_LISTED))
    first = holdings.First[StandardAcl](lambda acl: (acl.id,))
    for acl in reversed(acls):
        first.add(acl)
    found = first.listed(lambda acl: acl)
    assert (list(found.acls), found.count) == (acls[: holdings.MAX_LISTED], len(acls))


def test_a_search_for_denies_pauses_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denies, "_STEP", 1)
    (deny, *_) = acls = numbered(
        [WIDE._replace(permission_type=AclPermissionType.DENY), *(topic(f"t{at}", "User:wide") for at in range(5))]
    )
    found = [*denies.denies_of(image_of(acls).index, "User:wide")]
    assert [each for each in found if each is not None] == [deny]
    assert found.count(None) > 5
