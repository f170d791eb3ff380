"""Callers with groups: one rule over the ACLs of all, whatever was merged before, and Kafka's answers without any."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.authorize import Authorization
from app.core.grouped import GroupedAuthorization
from app.core.groups import Groups, groups_of
from app.core.image import AuthorizerImage
from app.core.index import unions
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK, from_bit_field, supported_operations
from app.core.records import Record
from app.core.verdicts import Rule, Verdict
from tests.budgets import budget
from tests.images import image_of, numbered
from tests.reference import Reference
from tests.staged import Held, chained, in_steps
from tests.strategies import (
    ADDRESSES,
    ASKED_NAMES,
    CONCRETE_TYPES,
    PRINCIPALS,
    bindings,
    configs,
)

TOPIC, READ = ResourceType.TOPIC, AclOperation.READ
ADDRESS = parse_address("10.0.0.1")
NAMES = ("a", "b", "c", "d", "*", "alice")
GROUPS = tuple(f"Group:{name}" for name in NAMES)

QUICK = settings(max_examples=budget("law of several steps"))
_group_bindings = st.builds(
    lambda binding, principal: binding._replace(principal=principal), bindings, st.sampled_from(GROUPS)
)
_bindings = st.lists(bindings | _group_bindings | _group_bindings, max_size=30, unique=True)
_groups = st.frozensets(st.sampled_from((*NAMES, "unknown")), min_size=1, max_size=7)
_callers = st.tuples(st.sampled_from((*PRINCIPALS, "User:root", "Group:a")), st.sampled_from(ADDRESSES))


def questions() -> list[tuple[AclOperation, ResourceType, str]]:
    return list(product((READ, AclOperation.DESCRIBE, AclOperation.ALL), (TOPIC, ResourceType.CLUSTER), ASKED_NAMES))


def asked_of(image: AuthorizerImage, principal: str, *groups: str, at: str = "10.0.0.1") -> GroupedAuthorization:
    return GroupedAuthorization(image, principal, parse_address(at), Groups(groups))


def assert_equals_plain_scan(
    acls: Sequence[AclBinding], config: AuthorizerConfig, caller: tuple[str, str], groups: frozenset[str]
) -> None:
    image, address = image_of(numbered(acls), config), parse_address(caller[1])
    of_groups = Groups(groups)
    reference = Reference(
        acls, config.super_users, config.allow_everyone_if_no_acl_found, groups=frozenset(of_groups.principals)
    )
    # Each one finds the groups merged a little more.
    asked = [GroupedAuthorization(image, caller[0], address, of_groups) for _ in range(4)]
    for operation, resource_type, name in questions():
        allowed = reference.authorize(caller[0], address.text, operation, resource_type, name)
        found = {each.decide(operation, resource_type, name).allowed for each in asked}
        assert found == {allowed}, (operation, resource_type, name)
    for name in ASKED_NAMES:
        bits = {each.authorized_operations(TOPIC, name) for each in asked}
        supported = supported_operations(TOPIC)
        told = reference.authorized_operations(caller[0], address.text, (TOPIC, name), supported)
        assert [set(from_bit_field(each)) for each in bits] == [set(told)], name
    for operation, resource_type in product((READ, AclOperation.DESCRIBE, AclOperation.ALL), CONCRETE_TYPES):
        allowed = reference.authorize_by_resource_type(caller[0], address.text, operation, resource_type)
        assert asked[0].authorize_by_resource_type(operation, resource_type).allowed is allowed, (
            operation,
            resource_type,
        )


@QUICK
@given(_bindings, configs, _callers, _groups, st.sampled_from((6, unions._MOST_MERGED)))
def test_groups_are_decided_on_as_a_plain_scan_does(
    acls: list[AclBinding], config: AuthorizerConfig, caller: tuple[str, str], groups: frozenset[str], most_merged: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unions, "_AT_ONCE", 2)
        patch.setattr(unions, "_MOST_MERGED", most_merged)
        assert_equals_plain_scan(acls, config, caller, groups)


@QUICK
@given(_bindings, configs, _callers, _groups)
def test_a_decision_names_the_acl_that_speaks_most_closely(
    acls: list[AclBinding], config: AuthorizerConfig, caller: tuple[str, str], groups: frozenset[str]
) -> None:
    """The most specific pattern, then the caller's own, then its groups' by their names, then those of `User:*`."""
    image = image_of(numbered(acls), config)
    order = {each: at for at, each in enumerate(dict.fromkeys((caller[0], *Groups(groups).principals)))}
    order[WILDCARD_PRINCIPAL] = -1 if caller[0] == WILDCARD_PRINCIPAL else len(order)

    def place(acl: StandardAcl, name: str) -> tuple[int, int]:
        binding = acl.binding
        literal = binding.pattern_type is PatternType.LITERAL
        length = len(binding.resource_name) if not literal else 1 << 20 if binding.resource_name == name else -1
        return -length, order[binding.principal]

    asked_of(image, caller[0], *groups, at=caller[1]).decide(READ, TOPIC, "a")
    for _ in range(2):
        asked = asked_of(image, caller[0], *groups, at=caller[1])
        for operation, resource_type, name in questions():
            decision = asked.decision(operation, resource_type, name)
            if decision.verdict.rule is not Rule.MATCHING_ACL:
                assert decision.acl is None
                continue
            covers = ALLOW_MASK if decision.verdict.allowed else DENY_MASK
            permission = AclPermissionType.ALLOW if decision.verdict.allowed else AclPermissionType.DENY
            matching = [
                each
                for each in asked.matching_acls(resource_type, name)
                if each.binding.permission_type is permission and covers[each.binding.operation] >> operation & 1
            ]
            assert decision.acl is not None
            assert decision.acl in matching
            assert place(decision.acl, name) == min(place(each, name) for each in matching)


@QUICK
@given(_bindings, configs, _callers)
def test_without_groups_the_type_group_is_a_type_like_any_other(
    acls: list[AclBinding], config: AuthorizerConfig, caller: tuple[str, str]
) -> None:
    """No answer differs if all groups' ACLs are gone, unless the caller is the very principal."""
    assert groups_of(()) is None
    image = image_of(numbered(acls), replace(config, allow_everyone_if_no_acl_found=False))
    others = [each for each in acls if each.principal in (caller[0], WILDCARD_PRINCIPAL)]
    alone = image_of(numbered(others), image.config)
    address = parse_address(caller[1])
    for question in questions():
        assert Authorization(image, caller[0], address).decide(*question) is Authorization(
            alone, caller[0], address
        ).decide(*question)


def acl(principal: str, name: str = "orders", *, permission: str = "ALLOW", host: str = "*") -> AclBinding:
    return AclBinding(TOPIC, name, PatternType.LITERAL, principal, host, READ, AclPermissionType[permission])


def test_any_deny_forbids_whoever_is_allowed(subtests: pytest.Subtests) -> None:
    for denied in ["User:alice", "Group:c", "User:*"]:
        for allowed in ["User:alice", "Group:a", "User:*"]:
            with subtests.test(denied=denied, allowed=allowed):
                image = image_of(numbered([acl(allowed), acl(denied, permission="DENY")]))
                assert (
                    asked_of(image, "User:alice", "a", "b", "c").decide(READ, TOPIC, "orders") is Verdict.DENIED_BY_ACL
                )
                assert (
                    asked_of(image_of(numbered([acl(allowed)])), "User:alice", "a")
                    .decide(READ, TOPIC, "orders")
                    .allowed
                )


def test_groups_make_nobody_a_super_user() -> None:
    config = AuthorizerConfig(super_users=frozenset({"Group:a", "User:root"}))
    image = image_of([], config)
    assert not asked_of(image, "User:alice", "a", "root").is_super_user
    assert asked_of(image, "User:alice", "a").decide(READ, TOPIC, "orders") is Verdict.DEFAULT_DENY
    assert asked_of(image, "User:root", "b").decide(READ, TOPIC, "orders") is Verdict.SUPER_USER


@pytest.mark.parametrize("change", [lambda image, records: image.apply(records), in_steps], ids=["at once", "staged"])
def test_what_was_merged_does_not_outlast_a_change(
    change: Callable[[AuthorizerImage, Sequence[Record]], AuthorizerImage],
) -> None:
    held = Held([acl(f"Group:{at}", f"t{at}") for at in range(50)])
    image, groups = image_of(held.acls), [str(at) for at in range(60)]

    def verdict() -> Verdict:
        return asked_of(image, "User:alice", *groups).decide(READ, TOPIC, "t7")

    for toggled, expected in (
        ([], Verdict.ALLOWED_BY_ACL),
        ([acl("Group:7", "t7")], Verdict.DEFAULT_DENY),
        ([acl("Group:55", "t7")], Verdict.ALLOWED_BY_ACL),
        ([acl("Group:8", "t7", permission="DENY")], Verdict.DENIED_BY_ACL),
    ):
        image = change(image, chained(image, held.toggled(toggled)))
        assert {verdict() for _ in range(20)} == {expected}
        assert image.union(Groups(groups)).merged == len(held.acls)


def test_another_index_at_the_same_offset_has_nothing_of_the_first() -> None:
    first = image_of(numbered([acl(f"Group:{at}") for at in range(5)]))
    for _ in range(5):
        assert asked_of(first, "User:alice", "1", "2", "3").decide(READ, TOPIC, "orders").allowed
    other = replace(first, index=image_of([]).index)
    assert not asked_of(other, "User:alice", "1", "2", "3").decide(READ, TOPIC, "orders").allowed


def test_sets_that_differ_in_one_group_are_answered_apart() -> None:
    image = image_of(numbered([acl(f"Group:{at}", f"t{at}") for at in range(20)]))
    for _ in range(20):
        for left_out in range(5):
            groups = [str(at) for at in range(20) if at != left_out]
            asked = asked_of(image, "User:alice", *groups)
            assert [asked.decide(READ, TOPIC, f"t{at}").allowed for at in range(5)] == [
                at != left_out for at in range(5)
            ]


def test_hosts_of_many_groups_add_up() -> None:
    acls = [acl(f"Group:{at}", host=f"10.0.{at}.0/24") for at in range(5)]
    image = image_of(numbered([*acls, acl("Group:4", host="10.0.9.9")]))
    for _ in range(20):
        for host, allowed in (("10.0.0.1", True), ("10.0.4.1", True), ("10.0.9.9", True), ("10.0.5.1", False)):
            asked = asked_of(image, "User:alice", *"01234", at=host)
            assert asked.decide(READ, TOPIC, "orders").allowed is allowed


def test_what_is_kept_of_sets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unions, "_MOST_KEPT", 300)
    monkeypatch.setattr(unions, "_MOST_SETS", 10)
    image = image_of(numbered([acl(f"Group:{at}", f"t{name}") for at in range(40) for name in range(5)]))
    for first in range(30):
        groups = [str(at) for at in range(first, first + 10)]
        for _ in range(3):
            assert asked_of(image, "User:alice", *groups).decide(READ, TOPIC, "t3").allowed
    kept = image._unions._kept
    assert len(kept) <= 10
    assert sum(each.merged for each in kept.values()) <= 300 + 50


def test_each_question_merges_as_many_entries_as_it_may_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unions, "_AT_ONCE", 2)
    left = list(range(50))

    def counted(entries: Iterable[object], most: int) -> Iterable[object]:
        left.pop()
        return islice(entries, most)

    monkeypatch.setattr(unions, "islice", counted)
    image = image_of(numbered([acl(f"Group:{group}", f"t{name}") for group in range(3) for name in range(3)]))
    for asked in range(10):
        assert asked_of(image, "User:alice", *"012").decide(READ, TOPIC, "t1").allowed
        # The first two questions merge nothing: the set may not be asked for again.
        (kept,) = image._unions._kept.values()
        assert kept.merged == min(9, 2 * max(0, asked - 1)), asked
