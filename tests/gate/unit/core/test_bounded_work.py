"""No question costs more than its own name, whatever ACLs there are: work is counted, no clock is read."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from tests.budgets import budget
from tests.images import image_of, numbered
from tests.updates import topic

TOPIC, WRITE = ResourceType.TOPIC, AclOperation.WRITE
LONGEST = 1_000
CONFIG = AuthorizerConfig(allow_everyone_if_no_acl_found=True)

PER_CHARACTER = 12
AT_MOST = 8_000
"""Characters that are cut, compared or hashed: a dozen times the name, and what the few plain lengths take."""

CALLS_PER_CHARACTER = 0.3
CALLS_AT_MOST = 1_500
"""A question is asked of two principals; at the last node of each are up to 64 prefixes, perhaps with hosts."""


class CountedText(str):
    """A name that knows how many of its characters were cut, compared or hashed."""

    __slots__ = ("looked_at",)
    looked_at: int

    def __new__(cls, text: str) -> Self:
        self = super().__new__(cls, text)
        self.looked_at = 0
        return self

    def __hash__(self) -> int:
        self.looked_at += len(self)
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        self.looked_at += len(self)
        return super().__eq__(other)

    def __getitem__(self, at: Any) -> str:  # noqa: ANN401 (as str has it)
        piece = super().__getitem__(at)
        # Whoever cuts a piece hashes it, too.
        self.looked_at += 1 + len(piece)
        return piece

    def startswith(self, *arguments: Any) -> bool:  # noqa: ANN401 (as str has it)
        self.looked_at += 1 + len(arguments[0])
        return super().startswith(*arguments)


class Calls:
    """How many functions were called, Python's own among them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _frame: FrameType, event: str, _of: object) -> None:
        self.count += event in ("call", "c_call")


@contextmanager
def counted_calls() -> Iterator[Calls]:
    calls, before = Calls(), sys.getprofile()
    sys.setprofile(calls)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def acl(name: str, principal: str = "User:*", host: str = "*", permission: str = "ALLOW") -> AclBinding:
    binding = topic(name, principal, PatternType.PREFIXED)
    return binding._replace(operation=AclOperation.READ, host=host, permission_type=AclPermissionType[permission])


def chain_of(length: int) -> list[str]:
    return ["n" * each for each in range(1, length + 1)]


def comb_of(length: int) -> list[str]:
    return ["n" * each + "a" for each in range(length)]


def caterpillar_of(length: int) -> list[str]:
    return [*chain_of(length), *("n" * each + "z" for each in range(length))]


def sparse_of(length: int) -> list[str]:
    return ["n" * each for each in range(3, length, 7)]


SHAPES: tuple[Callable[[int], list[str]], ...] = (chain_of, comb_of, caterpillar_of, sparse_of)
spoken_of = st.sampled_from(("User:*", "User:alice"))
hosts = st.sampled_from(("*", "*", "10.0.0.1", "10.0.0.0/8"))
permissions = st.sampled_from(("ALLOW", "DENY"))
hostile = st.lists(
    st.tuples(st.sampled_from(SHAPES), st.integers(50, LONGEST), spoken_of, hosts, permissions), min_size=1, max_size=2
)
asked = st.builds(
    lambda same, rest: "n" * same + rest, st.integers(0, LONGEST), st.sampled_from(("", "a", "b", "z" * 90, "nb" * 40))
)


def store_of(drawn: list[tuple[Callable[[int], list[str]], int, str, str, str]]) -> AuthorizerImage:
    acls = [
        acl(name, principal, host, permission)
        for shape, length, principal, host, permission in drawn
        for name in shape(length)
    ]
    return image_of(numbered(acls), CONFIG)


def questions(image: AuthorizerImage) -> list[Callable[[str], object]]:
    """All that a decision call asks of one resource."""
    authorization = Authorization(image, "User:alice", parse_address("10.0.0.1"))

    def deciding(operation: AclOperation) -> Callable[[str], object]:
        return lambda name: authorization.deciding_row(
            authorization.decide(operation, TOPIC, str(name)), operation, TOPIC, name
        )

    return [
        lambda name: authorization.decide(WRITE, TOPIC, name),
        lambda name: authorization.decide(AclOperation.READ, TOPIC, name),
        lambda name: authorization.authorized_operations(TOPIC, name),
        lambda name: image.index.covers(TOPIC, name),
        deciding(AclOperation.READ),
    ]


def assert_bounded(image: AuthorizerImage, name: str) -> None:
    for ask in questions(image):
        # What is kept from one question to the next is there after the first one.
        expected = ask(name)
        counted = CountedText(name)
        assert ask(counted) == expected
        assert counted.looked_at <= AT_MOST + PER_CHARACTER * len(name)
        with counted_calls() as calls:
            ask(name)
        assert calls.count <= CALLS_AT_MOST + CALLS_PER_CHARACTER * len(name)


@given(hostile, st.lists(asked, min_size=1, max_size=3))
@settings(max_examples=budget("law of whole stores"))
def test_what_a_question_costs_depends_on_its_name_alone(
    drawn: list[tuple[Callable[[int], list[str]], int, str, str, str]], names: list[str]
) -> None:
    image = store_of(drawn)
    for name in names:
        assert_bounded(image, name)


def test_thousand_lengths_cost_no_more_than_the_name(subtests: pytest.Subtests) -> None:
    for shape in SHAPES:
        for host in ["*", "10.0.0.0/8"]:
            with subtests.test(shape=shape, host=host):
                image = image_of(numbered(acl(name, host=host) for name in shape(LONGEST)), CONFIG)
                for name in ("n" * LONGEST, "n" * 500 + "b" * 500, "b" * LONGEST):
                    assert_bounded(image, name)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_prefix_that_comes_or_goes_concerns_no_other(shape: Callable[[int], list[str]]) -> None:
    image = image_of(numbered(acl(name) for name in shape(LONGEST)))
    for at in (1, 10, 500, 999):
        for new in ("n" * at, "n" * at + "q"):
            binding = acl(new, "User:*", permission="DENY")
            stored = numbered([binding])[0]
            with counted_calls() as calls:
                image.index.add(stored.row)
                image.index.remove(binding)
            assert calls.count <= 2 * (CALLS_AT_MOST + CALLS_PER_CHARACTER * len(new))


def test_by_resource_type_looks_at_some_hundred_patterns_a_step() -> None:
    literals = [acl(f"t{n}")._replace(pattern_type=PatternType.LITERAL) for n in range(3_000)]
    denied = [each._replace(operation=WRITE) for each in literals[:1_000]]
    denials = [each._replace(permission_type=AclPermissionType.DENY) for each in denied]
    image = image_of(numbered([*literals, *denied, *denials]))
    steps = Authorization(image, "User:alice", parse_address("10.0.0.1")).by_resource_type(WRITE, TOPIC)
    taken = 0
    while True:
        with counted_calls() as calls:
            ended = next(steps, steps) is steps
        assert calls.count < 1_500
        if ended:
            break
        taken += 1
    assert taken > 30
