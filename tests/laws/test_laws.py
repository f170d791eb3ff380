"""Laws of the KIPs over random ACL sets: what core compiles equals a plain scan, whatever came and went before."""

from collections.abc import Iterator, Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.index.search import search
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK, from_bit_field, supported_operations
from app.core.verdicts import Rule
from tests.dumps import dump
from tests.images import image_of, index_of, numbered
from tests.reference import Reference
from tests.strategies import (
    ADDRESSES,
    ASKED_NAMES,
    CONCRETE_TYPES,
    PRINCIPALS,
    binding_lists,
    bindings,
    callers,
    configs,
    filters,
)

Caller = tuple[str, str]


def authorization(image: AuthorizerImage, caller: Caller) -> Authorization:
    return Authorization(image, caller[0], parse_address(caller[1]))


def every_question() -> Iterator[tuple[AclOperation, ResourceType, str]]:
    return product(AclOperation, (ResourceType.TOPIC, ResourceType.CLUSTER), ASKED_NAMES)


def assert_equals_plain_scan(acls: Sequence[AclBinding], config: AuthorizerConfig, caller: Caller) -> None:
    asked = authorization(image_of(numbered(acls), config), caller)
    reference = Reference(acls, config.super_users, config.allow_everyone_if_no_acl_found)
    principal, host = caller[0], parse_address(caller[1]).text
    for operation, resource_type, name in every_question():
        allowed = reference.authorize(principal, host, operation, resource_type, name)
        assert asked.decide(operation, resource_type, name).allowed is allowed, (operation, resource_type, name)
    for operation, resource_type in product(tuple(AclOperation)[2:], CONCRETE_TYPES):
        allowed = reference.authorize_by_resource_type(principal, host, operation, resource_type)
        assert asked.authorize_by_resource_type(operation, resource_type).allowed is allowed, (operation, resource_type)


@given(binding_lists, configs, callers)
def test_masks_equal_a_plain_scan(acls: list[AclBinding], config: AuthorizerConfig, caller: Caller) -> None:
    assert_equals_plain_scan(acls, config, caller)


@given(st.data(), binding_lists)
def test_insertion_order_does_not_matter(data: st.DataObject, acls: list[AclBinding]) -> None:
    stored = numbered(acls)
    shuffled = data.draw(st.permutations(stored))
    assert dump(index_of(shuffled)) == dump(index_of(stored))


@given(binding_lists, bindings)
def test_adding_then_deleting_any_acl_leaves_the_index_as_before(acls: list[AclBinding], extra: AclBinding) -> None:
    *stored, added = numbered([*(acl for acl in acls if acl != extra), extra])
    index = index_of(stored)
    before = dump(index)
    index.add(added.row)
    assert index.find(extra) == added
    index.remove(extra)
    assert dump(index) == before
    assert index.find(extra) is None
    assert index.get(added.id.bytes) is None


def assert_what_is_left_equals_what_was_never_more(
    stored: Sequence[StandardAcl], going: Sequence[StandardAcl], caller: Caller
) -> None:
    image = image_of(stored)
    for acl in going:
        image.index.remove(acl.binding)
    left = [acl for acl in stored if acl not in going]
    assert dump(image.index) == dump(index_of(left))
    reference = Reference([acl.binding for acl in left])
    asked, host = authorization(image, caller), parse_address(caller[1]).text
    for operation, resource_type, name in every_question():
        allowed = reference.authorize(caller[0], host, operation, resource_type, name)
        assert asked.decide(operation, resource_type, name).allowed is allowed


@given(st.data(), binding_lists, callers)
def test_after_deletes_the_index_equals_one_built_of_the_rest(
    data: st.DataObject, acls: list[AclBinding], caller: Caller
) -> None:
    stored = numbered(acls)
    going = data.draw(st.lists(st.sampled_from(stored), unique=True)) if stored else []
    assert_what_is_left_equals_what_was_never_more(stored, going, caller)


@given(binding_lists, configs, callers)
def test_authorized_operations_list_groups_and_authorize_never_disagree(
    acls: list[AclBinding], config: AuthorizerConfig, caller: Caller
) -> None:
    asked = authorization(image_of(numbered(acls), config), caller)
    for resource_type, name in product(CONCRETE_TYPES, ASKED_NAMES):
        supported = supported_operations(resource_type)
        field = asked.authorized_operations(resource_type, name)
        one_by_one = tuple(each for each in supported if asked.decide(each, resource_type, name).allowed)
        assert from_bit_field(field) == one_by_one
    # listGroups (KIP-231) shows a group if and only if DESCRIBE on it is allowed.
    shown = [name for name in ASKED_NAMES if asked.decide(AclOperation.DESCRIBE, ResourceType.GROUP, name).allowed]
    described = [
        name
        for name in ASKED_NAMES
        if AclOperation.DESCRIBE in from_bit_field(asked.authorized_operations(ResourceType.GROUP, name))
    ]
    assert shown == described


@given(binding_lists, configs, callers)
def test_what_authorize_allows_on_a_concrete_name_is_known_by_resource_type_unless_denied(
    acls: list[AclBinding], config: AuthorizerConfig, caller: Caller
) -> None:
    """Where no DENY and no implication is about, a right on one resource is a right on the type."""
    plain = [
        acl
        for acl in acls
        if acl.permission_type is AclPermissionType.ALLOW and acl.operation in (AclOperation.WRITE, AclOperation.ALL)
    ]
    config = AuthorizerConfig(super_users=config.super_users)
    asked = authorization(image_of(numbered(plain), config), caller)
    for name in ASKED_NAMES:
        if asked.decide(AclOperation.WRITE, ResourceType.TOPIC, name).allowed:
            assert asked.authorize_by_resource_type(AclOperation.WRITE, ResourceType.TOPIC).allowed


@given(binding_lists, callers)
def test_a_decision_names_an_acl_that_says_so(acls: list[AclBinding], caller: Caller) -> None:
    asked = authorization(image_of(numbered(acls)), caller)
    for operation, resource_type, name in every_question():
        decision = asked.decision(operation, resource_type, name)
        assert decision.verdict is asked.decide(operation, resource_type, name)
        assert (decision.acl is not None) is (decision.verdict.rule is Rule.MATCHING_ACL)
        speaking = [
            acl.binding
            for acl in asked.matching_acls(resource_type, name)
            if (ALLOW_MASK if acl.binding.permission_type is AclPermissionType.ALLOW else DENY_MASK)[
                acl.binding.operation
            ]
            >> operation
            & 1
        ]
        if decision.acl is None:
            assert not speaking
        else:
            assert decision.acl.binding in speaking
            wanted = AclPermissionType.ALLOW if decision.verdict.allowed else AclPermissionType.DENY
            assert decision.acl.binding.permission_type is wanted
            assert decision.acl.binding == next(acl for acl in speaking if acl.permission_type is wanted)


@given(binding_lists, callers)
def test_matching_acls_are_those_that_a_plain_scan_finds(acls: list[AclBinding], caller: Caller) -> None:
    asked = authorization(image_of(numbered(acls)), caller)
    host = parse_address(caller[1]).text
    for resource_type, name in product((ResourceType.TOPIC, ResourceType.CLUSTER), ASKED_NAMES):
        meant = AclBindingFilter(resource_type, name, PatternType.MATCH)
        expected = [
            acl
            for acl in acls
            if meant.matches(acl)
            and acl.principal in (caller[0], WILDCARD_PRINCIPAL)
            and Reference([])._matches_host(acl.host, host)
        ]
        found = [acl.binding for acl in asked.matching_acls(resource_type, name)]
        assert sorted(found, key=sort_key) == sorted(expected, key=sort_key)


@given(binding_lists, filters, st.integers(min_value=1, max_value=4))
def test_search_equals_a_scan_in_order_and_across_pages(
    acls: list[AclBinding], acl_filter: AclBindingFilter, page: int
) -> None:
    stored = numbered(acls)
    index = index_of(stored)
    expected = sorted((acl for acl in stored if acl_filter.matches(acl.binding)), key=lambda acl: sort_key(acl.binding))
    assert [acl for step in search(index, acl_filter) for acl in step] == expected
    paged: list[StandardAcl] = []
    while True:
        after = sort_key(paged[-1].binding) if paged else None
        found = [acl for step in search(index, acl_filter, after) for acl in step][:page]
        if not found:
            break
        paged += found
    assert paged == expected


@given(binding_lists, filters)
def test_delete_takes_what_describe_shows_and_nothing_else(
    acls: list[AclBinding], acl_filter: AclBindingFilter
) -> None:
    index = index_of(numbered(acls))
    described = [acl.binding for step in search(index, acl_filter) for acl in step]
    for binding in described:
        index.remove(binding)
    assert [step for step in search(index, acl_filter) if step] == []
    left = {acl.binding for step in search(index, AclBindingFilter()) for acl in step}
    assert left == set(acls) - set(described)


@given(binding_lists)
def test_super_users_are_asked_nothing_and_nobody_else_is_one(acls: list[AclBinding]) -> None:
    image = image_of(numbered(acls), AuthorizerConfig(super_users=frozenset({"User:root"})))
    for principal, address in product((*PRINCIPALS, "User:root", "user:root", "User:root "), ADDRESSES[:1]):
        asked = authorization(image, (principal, address))
        assert asked.is_super_user is (principal == "User:root")
        if asked.is_super_user:
            assert all(asked.decide(*question).allowed for question in every_question())
