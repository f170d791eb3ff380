"""Prefixes of many lengths: what they amount to equals a plain scan, whatever came and went, at once or in steps."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import app.core.index.prefixes
import tests.dumps
from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.index.table import SortKey, sort_key
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK
from app.core.verdicts import Decision, Rule
from tests.budgets import budget
from tests.chains import transaction
from tests.dumps import dump
from tests.images import image_of, numbered
from tests.reference import Reference
from tests.staged import Held, in_steps, overlays_in, whole
from tests.strategies import ADDRESSES, HOSTS
from tests.updates import topic

TOPIC = ResourceType.TOPIC
OPERATIONS = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.WRITE)
CALLERS = tuple(product(("User:alice", "User:*"), ADDRESSES[:3]))

chained = st.sampled_from(["a" * length for length in range(1, 8)])
"""Few names, so that one prefix has several ACLs."""

names = chained | st.text("ab", max_size=14) | st.sampled_from(("a" * 9, "a" * 13 + "b", "*", "ab" * 6))
prefixes = st.builds(
    AclBinding,
    st.just(TOPIC),
    names.filter(bool),
    st.sampled_from((PatternType.PREFIXED, PatternType.PREFIXED, PatternType.PREFIXED, PatternType.LITERAL)),
    st.sampled_from(("User:alice", "User:*")),
    st.sampled_from(("*", "*", *HOSTS)),
    st.sampled_from((*OPERATIONS, AclOperation.ALL)),
    st.sampled_from((AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)),
)
stores = st.lists(prefixes, max_size=40, unique=True)
configs = st.sampled_from([AuthorizerConfig(allow_everyone_if_no_acl_found=each) for each in (False, True)])
asked_names = st.lists(names, min_size=1, max_size=6)
rooms = st.sampled_from((0, 2, 5))


@pytest.fixture(autouse=True)
def _short_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of a dozen characters go through several nodes."""
    for module in (app.core.index.prefixes, tests.dumps):
        monkeypatch.setattr(module, "SPAN", 3)


def answers(image: AuthorizerImage, asked: Sequence[str]) -> list[Any]:
    said: list[Any] = []
    for caller in CALLERS:
        authorization = Authorization(image, caller[0], parse_address(caller[1]))
        for name, operation in product(asked, OPERATIONS):
            said.append(authorization.decision(operation, TOPIC, name))
            said.append(authorization.authorized_operations(TOPIC, name))
            said.append(image.index.covers(TOPIC, name))
            said.append(list(authorization.matching_acls(TOPIC, name)))
        said += [authorization.authorize_by_resource_type(operation, TOPIC) for operation in OPERATIONS]
    return said


def assert_as_the_reference(image: AuthorizerImage, acls: Sequence[AclBinding], asked: Sequence[str]) -> None:
    reference = Reference(acls, allow_everyone=image.config.allow_everyone_if_no_acl_found)
    for caller in CALLERS:
        address = parse_address(caller[1])
        authorization = Authorization(image, caller[0], address)
        for name, operation in product(asked, OPERATIONS):
            decision = authorization.decision(operation, TOPIC, name)
            allowed = reference.authorize(caller[0], address.text, operation, TOPIC, name)
            assert decision.verdict.allowed is allowed
            deciding = None if decision.acl is None else decision.acl.binding
            assert deciding == first_that_decides(acls, caller, decision, operation, name)
        for operation in OPERATIONS:
            allowed = reference.authorize_by_resource_type(caller[0], address.text, operation, TOPIC)
            assert authorization.authorize_by_resource_type(operation, TOPIC).allowed is allowed


def first_that_decides(
    acls: Sequence[AclBinding], caller: tuple[str, str], decision: Decision, operation: AclOperation, name: str
) -> AclBinding | None:
    """The ACL that `Decision` promises, by a plain scan."""
    if decision.verdict.rule is not Rule.MATCHING_ACL:
        return None
    wanted, covers = (
        (AclPermissionType.ALLOW, ALLOW_MASK) if decision.verdict.allowed else (AclPermissionType.DENY, DENY_MASK)
    )
    meant, host = AclBindingFilter(TOPIC, name, PatternType.MATCH), parse_address(caller[1]).text
    deciding = [
        acl
        for acl in acls
        if meant.matches(acl)
        and acl.principal in (caller[0], WILDCARD_PRINCIPAL)
        and Reference([])._matches_host(acl.host, host)
        and acl.permission_type is wanted
        and covers[acl.operation] >> operation & 1
    ]

    def place(acl: AclBinding) -> tuple[int, int, bool, SortKey]:
        literal = acl.pattern_type is PatternType.LITERAL
        kind = 1 if not literal else 0 if acl.resource_name == name else 2
        return kind, -len(acl.resource_name), acl.principal != caller[0], sort_key(acl)

    return min(deciding, key=place)


def assert_equal_with_any_room(
    acls: Sequence[AclBinding], asked: Sequence[str], room: int, config: AuthorizerConfig
) -> None:
    stored = numbered(acls)
    plain = image_of(stored, config)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(app.core.index.prefixes, "ROOM", room)
        image = image_of(stored, config)
    dump(image.index)
    assert answers(image, asked) == answers(plain, asked)
    assert_as_the_reference(image, acls, asked)


@given(stores, asked_names, rooms, configs)
def test_any_room_for_lengths_gives_the_same_answers(
    acls: list[AclBinding], asked: list[str], room: int, config: AuthorizerConfig
) -> None:
    assert_equal_with_any_room(acls, asked, room, config)


def assert_changes_are_seen_at_once(base: Sequence[AclBinding], toggled: Sequence[AclBinding], room: int) -> None:
    """Masks that are kept from one question to the next never outlive the ACLs that they stand for."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(app.core.index.prefixes, "ROOM", room)
        held = Held(base)
        image = image_of(held.acls)
        asked = ["a" * 9, "a" * 13 + "b", "ab" * 6, "b"]
        for each in toggled:
            answers(image, asked)
            image = image.apply(transaction(image.offset, image.hash, held.toggled([each])))
            left = [acl.binding for acl in held.acls]
            assert_as_the_reference(image, left, [*asked, each.resource_name, each.resource_name[:-1]])
        dump(image.index)


@given(stores, st.lists(prefixes, max_size=20), rooms)
@settings(max_examples=budget("law of whole stores"))
def test_a_change_is_seen_in_the_next_answer(base: list[AclBinding], toggled: list[AclBinding], room: int) -> None:
    assert_changes_are_seen_at_once(base, [*toggled, *base[:10], *toggled[::2]], room)


def assert_staged_as_at_once(base: Sequence[AclBinding], toggled: Sequence[AclBinding], room: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(app.core.index.prefixes, "ROOM", room)
        held = Held(base)
        at_once, steps = image_of(held.acls), image_of(held.acls)
        asked = ["a" * 9, "a" * 13 + "b", "ab" * 6, "b", *(each.resource_name for each in toggled)]
        for some in (toggled, [*toggled[::2], *base[::2]], base):
            if not some:
                continue
            before = answers(steps, asked)
            assert before == answers(at_once, asked)
            records = transaction(steps.offset, steps.hash, held.toggled(some))
            at_once, after = at_once.apply(records), in_steps(steps, records)
            assert whole(after) == whole(at_once)
            steps = after
            assert_as_the_reference(steps, [acl.binding for acl in held.acls], asked)
        assert answers(steps, asked) == answers(at_once, asked)
        assert not overlays_in(steps)


@given(stores, st.lists(prefixes, max_size=30, unique=True), rooms)
@settings(max_examples=budget("law of whole stores"))
def test_a_staged_transaction_is_the_same_as_one_at_once(
    base: list[AclBinding], toggled: list[AclBinding], room: int
) -> None:
    assert_staged_as_at_once(base, toggled, room)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("host", ["*", "10.0.0.0/8"])
@pytest.mark.parametrize("depth", range(1, 12))
def test_another_acl_on_a_prefix_that_stays_is_seen_at_once(
    monkeypatch: pytest.MonkeyPatch, depth: int, host: str, *, staged: bool
) -> None:
    monkeypatch.setattr(app.core.index.prefixes, "ROOM", 0)
    chain = [topic("a" * each, pattern_type=PatternType.PREFIXED)._replace(host="10.0.0.1") for each in range(1, 13)]
    denial = chain[depth - 1]._replace(permission_type=AclPermissionType.DENY, host=host)
    held = Held(chain)
    image = image_of(held.acls)
    for allowed in (True, False, True, False):
        authorization = Authorization(image, "User:alice", parse_address("10.0.0.1"))
        for _ in range(2):
            decision = authorization.decision(AclOperation.READ, TOPIC, "a" * 12 + "b")
            assert decision.verdict.allowed is allowed
            assert decision.acl is not None
            assert (decision.acl.binding == denial) is not allowed
        records = transaction(image.offset, image.hash, held.toggled([denial]))
        image = in_steps(image, records) if staged else image.apply(records)
