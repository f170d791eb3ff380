"""The ACLs that match: counted to the last, listed up to a bound, in steps that stay short."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.core.authorize import Authorization
from app.core.explain.matching import MAX_LISTED, MAX_LISTED_TEXT, Matching
from app.core.explain.misses import Question
from app.core.explain.why import Explaining, Explanation
from app.core.index.table import AclTable, sort_key
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from tests.advice import broken_promises, explained
from tests.images import image_of, numbered
from tests.updates import topic

DENY, PREFIXED = AclPermissionType.DENY, PatternType.PREFIXED
ALICE = Question("User:alice", parse_address("10.0.0.1"), AclOperation.READ, ResourceType.TOPIC, "orders")
ORDERS = topic("orders")
OPEN = AuthorizerConfig(allow_everyone_if_no_acl_found=True)
MANY = 2_000
A_STEP = 300
"""So many rows at most between two steps; what is taken at once, and what is left of before."""


def spelled(acl: AclBinding, count: int = MANY) -> list[AclBinding]:
    """The ACL for 10.0.0.0/8, written in so many ways."""
    return [acl._replace(host=f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}/8") for n in range(count)]


def deny(acls: Sequence[AclBinding]) -> list[AclBinding]:
    return [each._replace(permission_type=DENY) for each in acls]


def chain(length: int, principal: str = "User:alice") -> list[AclBinding]:
    return [topic("x" * n, principal, PREFIXED) for n in range(1, length + 1)]


@pytest.mark.parametrize(
    ("acls", "asked", "expected"),
    [
        (spelled(ORDERS), ALICE, MANY),
        (deny(spelled(ORDERS)), ALICE, MANY),
        ([*spelled(ORDERS), *deny(spelled(ORDERS))], ALICE, 2 * MANY),
        (spelled(topic("*", "User:*")), ALICE, MANY),
        (spelled(ORDERS._replace(operation=AclOperation.WRITE)), ALICE, 0),
        (
            [ORDERS._replace(host=f"2001:db8::{n:x}/32") for n in range(MANY)],
            replace(ALICE, address=parse_address("2001:db8::1")),
            MANY,
        ),
        (chain(MANY), replace(ALICE, resource_name="x" * MANY), MANY),
        (deny(chain(MANY)), replace(ALICE, resource_name="x" * MANY), MANY),
        ([each for acl in chain(249) for each in spelled(acl, 8)], replace(ALICE, resource_name="x" * 249), 249 * 8),
    ],
    ids=["range", "denies", "both", "everybody's", "other operation", "IPv6", "prefixes", "denied", "prefixes, ranges"],
)
def test_thousands_are_looked_at_in_short_steps(
    monkeypatch: pytest.MonkeyPatch, acls: list[AclBinding], asked: Question, expected: int
) -> None:
    image = image_of(numbered(acls), OPEN)
    caller = Authorization(image, asked.principal, asked.address)
    taken: list[int] = []
    take, keys, key = Matching._take, [0], AclTable.key

    def counted(self: Matching, rows: list[int]) -> None:
        taken[-1] += len(rows)
        take(self, rows)

    def counted_key(self: AclTable, at: int) -> tuple[int, str, int, str, str, int, int]:
        keys[-1] += 1
        return key(self, at)

    monkeypatch.setattr(Matching, "_take", counted)
    monkeypatch.setattr(AclTable, "key", counted_key)
    explaining = Explaining(image, caller, asked)
    taken.append(0)
    for _ in explaining.steps():
        taken.append(0)
        keys.append(0)
    assert sum(taken) >= expected
    assert max(taken) <= A_STEP
    assert max(keys) <= 2 * A_STEP
    assert len(taken) >= len(acls) // A_STEP
    found = explaining.found()
    assert found.matching_acl_count == expected
    assert len(found.matching_acls) == min(expected, MAX_LISTED)


def test_also_whether_the_denies_are_all_there_is_is_found_in_short_steps() -> None:
    def steps(config: AuthorizerConfig) -> int:
        image = image_of(numbered(deny(spelled(ORDERS))), config)
        return sum(1 for _ in Explaining(image, Authorization(image, ALICE.principal, ALICE.address), ALICE).steps())

    assert steps(OPEN) >= steps(AuthorizerConfig()) + MANY // A_STEP


def test_those_that_are_listed_are_the_first_in_order_of_all_that_there_are() -> None:
    acls = [*spelled(ORDERS), *spelled(topic("orders", "User:*"), 50), topic("*")]
    found = explained(image_of(numbered(reversed(acls))), ALICE)
    assert [each.binding for each in found.matching_acls] == sorted(spelled(ORDERS), key=sort_key)[:MAX_LISTED]
    few = [*spelled(ORDERS, 3), *spelled(topic("orders", "User:*"), 40), topic("*")]
    found = explained(image_of(numbered(reversed(few))), ALICE)
    own, everybody = sorted(few[:3], key=sort_key), sorted(few[3:-1], key=sort_key)
    assert [each.binding for each in found.matching_acls] == [*own, *everybody, few[-1]]


def test_the_default_steps_in_where_the_denies_are_all_there_is(subtests: pytest.Subtests) -> None:
    for crowd in [1, 40, 700]:
        for other in [
            None,
            topic("orders", "User:carol"),
            topic("orders", "User:*"),
            ORDERS._replace(operation=AclOperation.WRITE),
            ORDERS._replace(host="10.9.9.9", permission_type=DENY),
            topic("ord", "User:carol", PREFIXED),
            topic("*", "User:carol"),
            topic("payments", "User:carol"),
        ]:
            with subtests.test(crowd=crowd, other=other):
                image = image_of(numbered([*deny(spelled(ORDERS, crowd)), *([] if other is None else [other])]), OPEN)
                found = explained(image, ALICE)
                matches = other == topic("orders", "User:*")
                alone = other is None or other.resource_name == "payments" or matches
                assert (found.acl_needed_besides is None) is alone
                assert found.denying_acl_count == crowd
                if crowd <= MAX_LISTED:
                    assert list(broken_promises(image, ALICE, found)) == []


def listed_of(count: int, length: int, permission_type: AclPermissionType) -> Explanation:
    name = "x" * length
    acls = [
        topic(name[: length - n], pattern_type=PREFIXED)._replace(permission_type=permission_type) for n in range(count)
    ]
    return explained(image_of(numbered([*acls, topic("*")])), replace(ALICE, resource_name=name))


def test_of_acls_with_very_long_names_fewer_are_listed_and_all_are_counted() -> None:
    found = listed_of(50, 30_000, AclPermissionType.ALLOW)
    assert 1 <= len(found.matching_acls) < MAX_LISTED_TEXT // 29_000 + 1
    assert found.matching_acl_count == 51
    found = listed_of(50, 30_000, DENY)
    # An ALLOW behind DENYs that are left out would look as if those were not there.
    assert found.matching_acls == found.denying_acls
    assert (found.matching_acl_count, found.denying_acl_count) == (51, 50)
    assert found.acl_needed_besides is None
    (only,) = listed_of(1, 300_000, DENY).denying_acls
    assert len(only.binding.resource_name) > MAX_LISTED_TEXT
