"""What a plan holds, how much it may delete, and that nobody is harmed half-way through it."""

from random import Random

import pytest

from app.client.plan.planning import Limits, Plan, Prune, make_plan
from app.core.authorize import Authorization
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.hosts import parse_address
from tests.access_grids import Change, random_change
from tests.images import image_of, numbered
from tests.updates import termless, unending, wanted

ALL = Prune(wanted=True)
ADDRESSES = tuple(map(parse_address, ("10.0.0.1", "10.0.0.2", "9.9.9.9", "::1")))


def acl(
    name: str, principal: str = "User:alice", permission: AclPermissionType = AclPermissionType.ALLOW
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*", AclOperation.READ, permission)


def acls(*names: str) -> frozenset[AclBinding]:
    return frozenset(map(acl, names))


def plan_of(desired: frozenset[AclBinding], there: frozenset[AclBinding], prune: Prune = ALL) -> Plan:
    return make_plan(wanted(desired), termless(there), "token", prune)


def test_a_plan_makes_the_desired_acls_of_those_that_are_there() -> None:
    plan = plan_of(acls("a", "b", "c"), acls("b", "d", "e"))
    assert plan.create == unending(map(acl, "ac"))
    assert plan.delete == unending(map(acl, "de"))
    assert (plan.unchanged, plan.left_alone, plan.prunable) == (1, 0, 3)
    assert plan.after(termless(acls("b", "d", "e"))) == acls("a", "b", "c")


def test_nothing_goes_unless_pruning_is_wanted() -> None:
    plan = plan_of(acls("a"), acls("b", "c"), Prune())
    assert (plan.create, plan.delete, plan.left_alone) == (unending([acl("a")]), (), 2)
    assert Limits(0, 0).refusal(plan) is None


@pytest.mark.parametrize(
    ("prune", "gone"),
    [
        (Prune(wanted=True, principals=frozenset({"User:bob"})), ["b-orders", "b-pay"]),
        (Prune(wanted=True, prefixes=("b-o", "a-")), ["a-orders", "b-orders"]),
        (Prune(wanted=True, principals=frozenset({"User:bob", "User:zoe"}), prefixes=("b-p",)), ["b-pay"]),
    ],
)
def test_pruning_keeps_to_its_scope(prune: Prune, gone: list[str]) -> None:
    there = frozenset({acl("a-orders"), acl("b-orders", "User:bob"), acl("b-pay", "User:bob")})
    plan = plan_of(frozenset(), there, prune)
    assert [each.binding.resource_name for each in plan.delete] == gone
    assert plan.prunable == len(gone)
    assert plan.left_alone == 3 - len(gone)


def test_more_deletes_than_the_bound_are_refused_with_the_way_out() -> None:
    there = acls(*map(str, range(300)))
    kept = acls(*map(str, range(199)))
    assert Limits().refusal(plan_of(kept, there)) == (
        "101 ACLs would be deleted, more than --max-deletes 100; if that is intended, add --max-deletes 101"
    )
    assert Limits().refusal(plan_of(kept | acls("199"), there)) is None
    assert Limits(max_deletes=101).refusal(plan_of(kept, there)) is None
    assert str(Limits(max_deletes=0).refusal(plan_of(frozenset(), acls("a")))).startswith("1 ACL would be deleted")


def test_a_greater_part_than_the_bound_is_refused_with_the_way_out() -> None:
    three = acls("a", "b", "c")
    assert Limits().refusal(plan_of(acls("a"), three)) == (
        "2 of 3 ACLs would be deleted (67 %), more than --max-delete-percent 50; if that is intended, add "
        "--max-delete-percent 67"
    )
    assert Limits(max_delete_percent=67).refusal(plan_of(acls("a"), three)) is None
    assert Limits().refusal(plan_of(acls("a"), acls("a", "b"))) is None
    assert Limits().refusal(plan_of(frozenset(), acls("a"))) is not None
    assert Limits(max_delete_percent=100).refusal(plan_of(frozenset(), acls("a"))) is None


def test_the_part_is_that_of_what_pruning_looks_at() -> None:
    there = acls(*map(str, range(50))) | {acl("x", "User:bob"), acl("y", "User:bob")}
    prune = Prune(wanted=True, principals=frozenset({"User:bob"}))
    assert Limits().refusal(plan_of(frozenset(), there, prune)) is not None


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_half_way_nobody_is_allowed_what_neither_state_allows_nor_denied_what_both_allow(first: int) -> None:
    """ACL by ACL in the plan's order, which is finer than any chunks are."""
    for seed in range(first, first + 20):
        change = random_change(seed)
        config = type(change.config)(change.config.super_users)
        assert_harmless(Change(change.before, change.after, config), Random(seed))


def assert_harmless(change: Change, drawn: Random) -> None:
    plan = plan_of(change.after, change.before)
    state = set(change.before)
    states = []
    for new in plan.creates_in_order:
        state.add(new.binding)
        states.append(frozenset(state))
    for gone in plan.deletes_in_order:
        state.remove(gone.binding)
        states.append(frozenset(state))
    assert state == change.after
    for middle in drawn.sample(states, min(4, len(states))):
        assert_between(change, middle)


def assert_between(change: Change, middle: frozenset[AclBinding]) -> None:
    images = [image_of(numbered(some), change.config) for some in (change.before, middle, change.after)]
    for principal in ("User:alice", "User:bob", "Robot:x"):
        for address in ADDRESSES:
            before, now, after = (Authorization(image, principal, address) for image in images)
            for name in ("a", "ab", "abc", "b", "zz"):
                for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE):
                    asked = (operation, ResourceType.TOPIC, name)
                    ends = {before.decide(*asked).allowed, after.decide(*asked).allowed}
                    assert now.decide(*asked).allowed in ends, (principal, address, asked, change, middle)
