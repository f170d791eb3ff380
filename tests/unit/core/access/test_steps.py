"""However many hosts a principal has on one topic, each step looks at a bounded number: work is counted, not timed."""

from collections.abc import Iterator

import pytest

from app.core.access.what import WhatCan, WhatQuestion
from app.core.access.who import WhoCan, WhoQuestion
from app.core.image import AuthorizerImage
from app.core.index.search import search
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.filters import AclBindingFilter
from tests.images import image_of, numbered
from tests.unit.core.test_bounded_work import counted_calls
from tests.updates import topic

HOSTS = 20_000
MOST_CALLS = 18_000
"""Of functions in one step, which is of 400 ACLs at most."""

STEPS = 50

WIDE = topic("orders", "User:wide")


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


@pytest.mark.long
@pytest.mark.parametrize("host", ["", "10.0.77.7"])
@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.WRITE])
def test_a_search(image: AuthorizerImage, operation: AclOperation, host: str) -> None:
    after = (2, "orders", 3, "User:wide", host, 0, 0) if host else None
    assert most_calls(search(image.index, AclBindingFilter(operation=operation), after)) < MOST_CALLS


def test_what_a_principal_can(image: AuthorizerImage) -> None:
    assert most_calls(WhatCan(image, WhatQuestion("User:wide")).steps()) < MOST_CALLS


def test_who_can(image: AuthorizerImage) -> None:
    every = sum(1 << each for each in AclOperation)
    assert most_calls(WhoCan(image, WhoQuestion(ResourceType.TOPIC, "orders", every)).steps()) < MOST_CALLS
