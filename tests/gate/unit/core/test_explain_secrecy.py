"""What explain tells who may not see ACLs of others: what authorize answers, the ACLs that it may see, no more."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.authorize import Authorization
from app.core.explain import near_misses
from app.core.explain.misses import Question
from app.core.explain.why import Explaining, Explanation, near_misses_of
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.core.verdicts import Verdict
from tests.images import image_of
from tests.strategies import ASKED_NAMES, CONCRETE_OPERATIONS, binding_lists, callers, configs
from tests.updates import topic

DENY = AclPermissionType.DENY
TOPIC, PREFIXED = ResourceType.TOPIC, PatternType.PREFIXED
CLOSED, OPEN = AuthorizerConfig(), AuthorizerConfig(allow_everyone_if_no_acl_found=True)
ALICE = Question("User:alice", parse_address("10.0.0.1"), AclOperation.READ, TOPIC, "orders")


def told(acls: Iterable[AclBinding], config: AuthorizerConfig, asked: Question) -> Explanation:
    """What the caller itself hears, without a right to see others' ACLs. An ACL has the same id in every store."""
    image = image_of((StandardAcl(UUID(bytes=each.natural_key[:16]), each) for each in dict.fromkeys(acls)), config)
    caller = Authorization(image, asked.principal, asked.address)
    search = near_misses_of(image, caller, asked, of_others=False)
    assert search is not None
    for _ in search.steps():
        pass
    explaining = Explaining(image, caller, asked, search.found(), of_others=False)
    for _ in explaining.steps():
        pass
    return explaining.found()


def parted(acls: Iterable[AclBinding], asked: Question) -> tuple[list[AclBinding], list[AclBinding]]:
    """Those that the caller may see, and the others."""
    seen = (asked.principal, WILDCARD_PRINCIPAL)
    found: tuple[list[AclBinding], list[AclBinding]] = ([], [])
    for each in acls:
        found[each.principal not in seen].append(each)
    return found


questions = st.builds(
    lambda caller, operation, resource_type, name: Question(
        caller[0], parse_address(caller[1]), operation, resource_type, name
    ),
    callers.filter(lambda caller: caller[0] not in ("User:root", "User:bob")),
    st.sampled_from((AclOperation.READ, AclOperation.READ, *CONCRETE_OPERATIONS)),
    st.sampled_from((TOPIC, TOPIC, ResourceType.CLUSTER)),
    st.sampled_from(ASKED_NAMES),
)
stores = st.tuples(binding_lists, configs)


def assert_tells_no_more(
    asked: Question,
    seen: Sequence[AclBinding],
    one: tuple[list[AclBinding], AuthorizerConfig],
    other: tuple[list[AclBinding], AuthorizerConfig],
) -> None:
    """Of two stores that differ in others' ACLs and in the configuration, where authorize answers alike in both."""
    visible, _ = parted(seen, asked)
    first, second = (told([*visible, *parted(acls, asked)[1]], config, asked) for acls, config in (one, other))
    if first.verdict.allowed is second.verdict.allowed:
        assert first == second


@given(questions, binding_lists, stores, stores)
def test_two_stores_that_authorize_answers_alike_in_are_explained_alike(
    asked: Question,
    seen: list[AclBinding],
    one: tuple[list[AclBinding], AuthorizerConfig],
    other: tuple[list[AclBinding], AuthorizerConfig],
) -> None:
    assert_tells_no_more(asked, seen, one, other)


def test_behind_a_deny_it_is_not_told_whether_anybody_else_has_an_acl_there() -> None:
    deny = topic("orders")._replace(permission_type=DENY)
    alone = told([deny], OPEN, ALICE)
    assert alone == told([deny, topic("orders", "User:carol")], OPEN, ALICE) == told([deny], CLOSED, ALICE)
    assert alone.acl_needed_besides is not None
    assert alone.note is not None
    assert alone.note.endswith("unless no other ACL is on this resource and `allow.everyone.if.no.acl.found` is true")


def crowds() -> list[list[AclBinding]]:
    """Others' ACLs, so many that a search among all ACLs would look at others for them."""
    return [
        [],
        [topic(f"orders-{n:04}", "User:carol") for n in range(300)],
        [topic("orders" + "x" * n, "User:carol", PREFIXED) for n in range(600)],
        [topic("orders", f"User:alic{n:04}") for n in range(600)],
        [topic("orders", f"User:alic{n:04}") for n in range(250)],
        [topic("orders"[:length], f"User:b{n}", PREFIXED) for n in range(60) for length in range(1, 7)],
        [topic("orders", "User:carol")._replace(host=f"10.1.{n % 250}.{n // 250}") for n in range(600)],
    ]


@pytest.mark.parametrize("most", [20_000, 350, 100])
@pytest.mark.parametrize("name", ["orders", "orders" + "x" * 590])
def test_a_crowd_of_others_does_not_change_what_is_near(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    """Also not by being looked at in the place of one of the caller's own."""
    monkeypatch.setattr(near_misses, "_MOST_LOOKED_AT", most)
    own = [topic(f"orders{n:04}") for n in range(300)]
    own += [topic("orders" + "x" * n, pattern_type=PREFIXED) for n in range(10, 300)]
    own += [topic("ord", pattern_type=PREFIXED)]
    own += [topic("orders")._replace(host=f"10.2.{n % 250}.{n // 250}") for n in range(300)]
    own = [each._replace(operation=AclOperation.ALTER) if each.pattern_type is PREFIXED else each for each in own]
    found = [told([*own, *others], CLOSED, replace(ALICE, resource_name=name)) for others in crowds()]
    assert found[0].near_misses
    assert found[0].verdict is Verdict.DEFAULT_DENY
    assert found == [found[0]] * len(found)
