"""explain: authorize's own answer, all that brought it about, and advice that can be followed."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.authorize import Authorization
from app.core.explain.matching import MAX_LISTED
from app.core.explain.misses import Question
from app.core.explain.why import Explanation, near_misses_of
from app.core.image import AuthorizerImage
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.core.verdicts import Verdict
from tests.advice import broken_promises, explain
from tests.advice import explained as explained_in
from tests.images import image_of, numbered
from tests.reference import Reference, _allows, _covers, _denies
from tests.strategies import ASKED_NAMES, CONCRETE_OPERATIONS, binding_lists, callers, configs
from tests.updates import topic

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
TOPIC, PREFIXED = ResourceType.TOPIC, PatternType.PREFIXED
EVERYONE = AuthorizerConfig(allow_everyone_if_no_acl_found=True)
ROOT = AuthorizerConfig(super_users=frozenset({"User:root"}))
ALICE = Question("User:alice", parse_address("10.0.0.1"), READ, TOPIC, "orders")
ORDERS = topic("orders")


def deny(binding: AclBinding) -> AclBinding:
    return binding._replace(permission_type=DENY)


def explained(
    acls: Sequence[AclBinding],
    asked: Question = ALICE,
    config: AuthorizerConfig | None = None,
    *,
    unrestricted: bool = False,
) -> Explanation:
    return explained_in(image_of(numbered(acls), config), asked, unrestricted=unrestricted)


def smallest(asked: Question = ALICE) -> AclBinding:
    return AclBinding(
        asked.resource_type,
        asked.resource_name,
        PatternType.LITERAL,
        asked.principal,
        asked.address.text,
        asked.operation,
        ALLOW,
    )


def matching(found: Explanation) -> list[AclBinding]:
    return [acl.binding for acl in found.matching_acls]


def test_what_an_acl_allows_names_it_and_every_other_that_does() -> None:
    acls = [ORDERS, topic("o", pattern_type=PREFIXED), topic("*", "User:*"), topic("payments")]
    found = explained(acls)
    assert (found.verdict, found.acl) == (Verdict.ALLOWED_BY_ACL, numbered(acls)[0])
    assert matching(found) == acls[:3]
    assert found.matching_acl_count == 3
    assert (found.smallest_acl, found.denying_acls, found.acl_needed_besides, found.note) == (None, (), None, None)


def test_acls_of_another_operation_do_not_match_and_are_near_misses() -> None:
    write = ORDERS._replace(operation=WRITE)
    found = explained([write])
    assert (found.verdict, found.matching_acls) == (Verdict.DEFAULT_DENY, ())
    assert [(each.acl.binding, each.missed) for each in found.near_misses] == [(write, ("operation",))]
    assert found.smallest_acl == smallest()


def test_an_implied_operation_matches() -> None:
    found = explained([ORDERS], replace(ALICE, operation=DESCRIBE))
    assert (found.verdict, matching(found)) == (Verdict.ALLOWED_BY_ACL, [ORDERS])
    # A DENY implies nothing.
    found = explained([deny(ORDERS)], replace(ALICE, operation=DESCRIBE))
    assert (found.verdict, matching(found)) == (Verdict.DEFAULT_DENY, [])


def test_what_a_deny_forbids_an_allow_alone_does_not_mend() -> None:
    found = explained([deny(topic("*", "User:*")), deny(ORDERS)])
    assert found.verdict is Verdict.DENIED_BY_ACL
    assert found.smallest_acl is None
    assert [each.binding for each in found.denying_acls] == [deny(ORDERS), deny(topic("*", "User:*"))]
    assert found.acl_needed_besides == smallest()
    assert found.note == (
        "a DENY overrides every ALLOW: each of the denying ACLs must be removed; "
        "after that, the missing ALLOW is needed as well"
    )


def test_where_an_allow_stands_behind_the_deny_nothing_is_needed_besides() -> None:
    acls = [ORDERS, deny(ORDERS), ORDERS._replace(operation=WRITE)]
    found = explained(acls)
    assert (matching(found), found.matching_acl_count) == ([deny(ORDERS), ORDERS], 2)
    assert (found.denying_acl_count, found.acl_needed_besides, found.near_misses) == (1, None, ())
    assert found.note is not None
    assert found.note.endswith("a matching ALLOW already exists")


def test_where_the_denies_are_all_that_is_there_the_default_steps_in() -> None:
    found = explained([deny(ORDERS)], config=EVERYONE)
    assert (found.verdict, found.acl_needed_besides) == (Verdict.DENIED_BY_ACL, None)
    assert found.note is not None
    assert "`allow.everyone.if.no.acl.found` lets everybody in once they are removed" in found.note
    for other in (topic("orders", "User:carol"), topic("*", "User:carol"), topic("ord", "User:carol", PREFIXED)):
        assert explained([deny(ORDERS), other], config=EVERYONE).acl_needed_besides == smallest(), other
    assert explained([deny(ORDERS), topic("payments")], config=EVERYONE).acl_needed_besides is None
    assert explained([deny(ORDERS)]).acl_needed_besides == smallest()


def test_where_nothing_can_allow_it_that_is_said_besides_the_denies() -> None:
    """An older store may hold what createAcls refuses."""
    elsewhere = replace(ALICE, resource_type=ResourceType.CLUSTER, resource_name="other", operation=AclOperation.ALTER)
    older = topic("other")._replace(resource_type=ResourceType.CLUSTER, operation=AclOperation.ALTER)
    found = explained([deny(older)], elsewhere)
    assert (found.denying_acl_count, found.smallest_acl, found.acl_needed_besides) == (1, None, None)
    assert found.note == (
        "a DENY overrides every ALLOW: each of the denying ACLs must be removed; no ACL can allow this, because "
        "createAcls accepts none that would match: The only valid name for the CLUSTER resource is kafka-cluster"
    )


def test_the_default_steps_in_only_if_nothing_else_is_left_of_a_crowded_resource() -> None:
    crowd = [deny(topic("orders", "User:*"))] + [
        deny(topic("orders")._replace(host=f"10.0.{n}.0/{24 - n % 2}")) for n in range(80)
    ]
    only = [each for each in crowd if each.host in ("*", "10.0.0.0/24")]
    assert explained(only, config=EVERYONE).acl_needed_besides is None
    assert explained(crowd, config=EVERYONE).acl_needed_besides == smallest()


def test_who_is_allowed_by_default_hears_what_ends_that() -> None:
    found = explained([topic("payments")], config=EVERYONE)
    assert (found.verdict, found.smallest_acl, found.matching_acls) == (Verdict.DEFAULT_ALLOW, None, ())
    assert found.note is not None
    assert "the first ACL on it, whoever it is for, ends that for everybody" in found.note


def test_whom_the_default_does_not_allow_an_acl_does() -> None:
    found = explained([topic("orders", "User:carol")], config=EVERYONE)
    assert (found.verdict, found.smallest_acl, found.note) == (Verdict.DEFAULT_DENY, smallest(), None)


def test_a_super_user_passes_whatever_matches() -> None:
    root = replace(ALICE, principal="User:root")
    found = explained([deny(topic("orders", "User:*"))], root, ROOT)
    assert (found.verdict, found.acl, found.denying_acls) == (Verdict.SUPER_USER, None, ())
    assert matching(found) == [deny(topic("orders", "User:*"))]
    assert (found.smallest_acl, found.near_misses) == (None, ())
    assert found.note == "the principal is a super user: it is allowed everything before any ACL is checked"


def test_before_the_first_load_a_super_user_is_explained() -> None:
    root = replace(ALICE, principal="User:root")
    found = explained_in(AuthorizerImage.empty(ROOT), root)
    assert (found.verdict, found.matching_acl_count) == (Verdict.SUPER_USER, 0)


def test_without_an_authorizer_no_acl_is_shown() -> None:
    found = explained([deny(ORDERS), ORDERS], unrestricted=True)
    assert found == Explanation(Verdict.SUPER_USER, note=found.note)
    assert found.note is not None
    assert "`authorizer.enabled` is false" in found.note


def test_what_is_allowed_shows_the_denies_that_nearly_matched() -> None:
    near = deny(topic("orders-", pattern_type=PREFIXED))
    found = explained([ORDERS, near, ORDERS._replace(operation=WRITE)])
    assert [each.acl.binding for each in found.near_misses] == [near]


def test_a_verdict_that_has_turned_meanwhile_shows_no_near_misses_of_the_old_one() -> None:
    image = image_of(numbered([ORDERS._replace(operation=WRITE)]))
    authorization = Authorization(image, ALICE.principal, ALICE.address)
    search = near_misses_of(image, authorization, ALICE, of_others=True)
    assert search is not None
    for _ in search.steps():
        pass
    image.index.add(numbered([deny(topic("x")), ORDERS])[1].row)
    found = explain(image, authorization, ALICE, search.found())
    assert (found.verdict, found.near_misses) == (Verdict.ALLOWED_BY_ACL, ())


def test_a_near_miss_that_has_gone_meanwhile_is_not_shown() -> None:
    stored = numbered([ORDERS._replace(operation=WRITE), topic("orders", "User:carol")])
    image = image_of(stored)
    authorization = Authorization(image, ALICE.principal, ALICE.address)
    near = explained_in(image, ALICE).near_misses
    assert len(near) == 2
    image.index.remove(stored[0].binding)
    assert explain(image, authorization, ALICE, near).near_misses == near[1:]


@pytest.mark.parametrize(
    ("operation", "resource_type", "note"),
    [
        (WRITE, ResourceType.GROUP, "the operation WRITE does not apply to a GROUP"),
        (AclOperation.ANY, TOPIC, "the operation ANY does not apply to a TOPIC"),
        (READ, ResourceType.ANY, "no resource has the type ANY"),
    ],
)
def test_odd_questions_are_answered_and_called_odd(
    operation: AclOperation, resource_type: ResourceType, note: str
) -> None:
    found = explained([], replace(ALICE, operation=operation, resource_type=resource_type))
    assert found.verdict is Verdict.DEFAULT_DENY
    assert found.note is not None
    assert note in found.note.split("; ")
    assert explained([], replace(ALICE, operation=AclOperation.ALL)).note is None


def test_of_very_many_acls_some_are_listed_and_all_are_counted() -> None:
    prefixes = [topic("o" * n, pattern_type=PREFIXED) for n in range(1, MAX_LISTED + 20)]
    found = explained([*prefixes, *map(deny, prefixes)], replace(ALICE, resource_name="o" * 500))
    assert (len(found.matching_acls), found.matching_acl_count) == (MAX_LISTED, 2 * len(prefixes))
    assert (len(found.denying_acls), found.denying_acl_count) == (MAX_LISTED, len(prefixes))
    assert found.denying_acls[0] == found.acl
    assert found.denying_acls == found.matching_acls


def test_a_resource_called_star_is_matched_by_its_literal_once() -> None:
    found = explained([topic("*")], replace(ALICE, resource_name="*"))
    assert (matching(found), found.matching_acl_count) == ([topic("*")], 1)


@given(
    binding_lists,
    configs,
    callers,
    st.sampled_from(CONCRETE_OPERATIONS),
    st.sampled_from((TOPIC, ResourceType.CLUSTER)),
    st.sampled_from(ASKED_NAMES),
)
def test_explain_agrees_with_authorize_and_with_a_plain_scan(
    acls: list[AclBinding],
    config: AuthorizerConfig,
    caller: tuple[str, str],
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
) -> None:
    asked = Question(caller[0], parse_address(caller[1]), operation, resource_type, name)
    image = image_of(numbered(acls), config)
    found = explained_in(image, asked)
    decision = Authorization(image, asked.principal, asked.address).decision(operation, resource_type, name)
    assert (found.verdict, found.acl) == (decision.verdict, decision.acl)
    assert list(broken_promises(image, asked, found)) == []
    speaking = [
        acl
        for acl in acls
        if acl.resource_type is resource_type
        and _covers(acl, name)
        and Reference([])._speaks_of(acl, asked.principal, asked.address.text)
    ]
    denies = [acl for acl in speaking if _denies(acl, operation)]
    allows = [acl for acl in speaking if _allows(acl, operation)]
    assert sorted(matching(found)[: len(denies)], key=sort_key) == sorted(denies, key=sort_key)
    assert sorted(matching(found)[len(denies) :], key=sort_key) == sorted(allows, key=sort_key)
    if found.acl is not None:
        wanted = ALLOW if found.verdict.allowed else DENY
        assert found.acl == next(acl for acl in found.matching_acls if acl.binding.permission_type is wanted)
