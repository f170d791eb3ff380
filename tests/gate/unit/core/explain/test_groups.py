"""explain of a caller with groups: what decides, what nearly matched, and nothing of groups that it is not in."""

from collections.abc import Iterable
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.explain.misses import Question
from app.core.explain.why import Explaining, Explanation, near_misses_of
from app.core.grouped import GroupedAuthorization
from app.core.groups import Groups
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.core.verdicts import Verdict
from tests.budgets import budget
from tests.images import image_of
from tests.strategies import ADDRESSES, ASKED_NAMES, PRINCIPALS, bindings, configs
from tests.updates import topic

GROUPS = Groups(("a", "b"))
ASKED = Question(
    "User:alice", parse_address("10.0.0.1"), AclOperation.READ, ResourceType.TOPIC, "orders", Groups(("a", "b"))
)
CLOSED, OPEN = AuthorizerConfig(), AuthorizerConfig(allow_everyone_if_no_acl_found=True)
DENY = AclPermissionType.DENY


def told(acls: Iterable[AclBinding], asked: Question, config: AuthorizerConfig, *, of_others: bool) -> Explanation:
    """An ACL has the same id in every store."""
    image = image_of((StandardAcl(UUID(bytes=each.natural_key[:16]), each) for each in dict.fromkeys(acls)), config)
    assert asked.groups is not None
    caller = GroupedAuthorization(image, asked.principal, asked.address, asked.groups)
    search = near_misses_of(image, caller, asked, of_others=of_others)
    assert search is not None
    for _ in search.steps():
        pass
    explaining = Explaining(image, caller, asked, search.found(), of_others=of_others)
    for _ in explaining.steps():
        pass
    return explaining.found()


def explained(*acls: AclBinding) -> Explanation:
    return told(acls, ASKED, AuthorizerConfig(), of_others=True)


def test_the_acl_of_a_group_is_named_as_what_decided() -> None:
    allow, deny = topic("orders", "Group:a"), topic("orders", "Group:b")._replace(permission_type=DENY)
    found = explained(allow)
    assert found.verdict is Verdict.ALLOWED_BY_ACL
    assert found.acl is not None
    assert found.acl.binding == allow
    found = explained(allow, deny)
    assert found.verdict is Verdict.DENIED_BY_ACL
    assert [each.binding for each in found.denying_acls] == [deny]
    assert [each.binding for each in found.matching_acls] == [deny, allow]
    assert found.acl_needed_besides is None


def test_acls_of_its_groups_do_not_miss_in_the_principal() -> None:
    elsewhere, others = topic("order", "Group:a"), topic("orders", "Group:c")
    missed = {each.acl.binding: each.missed for each in explained(elsewhere, others).near_misses}
    assert missed == {elsewhere: ("resource",), others: ("principal",)}


_principals = st.sampled_from((*PRINCIPALS, *(f"Group:{each}" for each in "aabbcd")))
_acls = st.lists(
    st.builds(lambda binding, principal: binding._replace(principal=principal), bindings, _principals), max_size=20
)
_questions = st.builds(
    lambda principal, address, operation, name: Question(
        principal, parse_address(address), operation, ResourceType.TOPIC, name, GROUPS
    ),
    st.sampled_from(("User:alice", "User:x", "Group:c")),
    st.sampled_from(ADDRESSES),
    st.sampled_from((AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALL)),
    st.sampled_from(ASKED_NAMES),
)


@settings(max_examples=budget("law of several steps"))
@given(_questions, _acls, configs, st.booleans())
def test_the_explanation_agrees_with_the_decision(
    asked: Question,
    acls: list[AclBinding],
    config: AuthorizerConfig,
    of_others: bool,  # noqa: FBT001 - drawn
) -> None:
    found = told(acls, asked, config, of_others=of_others)
    image = image_of((StandardAcl(UUID(bytes=each.natural_key[:16]), each) for each in dict.fromkeys(acls)), config)
    caller = GroupedAuthorization(image, asked.principal, asked.address, GROUPS)
    decision = caller.decision(asked.operation, asked.resource_type, asked.resource_name)
    assert (found.verdict, found.acl) == (decision.verdict, decision.acl)
    if found.smallest_acl is not None:
        mended = told([*acls, found.smallest_acl], asked, config, of_others=of_others)
        assert mended.verdict is Verdict.ALLOWED_BY_ACL


@given(_questions, _acls, _acls, _acls, st.sampled_from((CLOSED, OPEN)))
def test_who_sees_no_acls_of_others_hears_nothing_of_groups_that_it_is_not_in(
    asked: Question, seen: list[AclBinding], one: list[AclBinding], other: list[AclBinding], config: AuthorizerConfig
) -> None:
    visible = [each for each in seen if each.principal in asked.speaking]
    first, second = (
        told(
            [*visible, *(each for each in others if each.principal not in asked.speaking)],
            asked,
            config,
            of_others=False,
        )
        for others in (one, other)
    )
    if first.verdict.allowed is second.verdict.allowed:
        assert first == second
