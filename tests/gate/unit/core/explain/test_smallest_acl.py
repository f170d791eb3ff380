"""The smallest ACL: it allows what was asked, createAcls takes it, and no other that does so allows less."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.authorize import Authorization
from app.core.explain.misses import Question
from app.core.explain.why import smallest_acl
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.hosts import ClientAddress, parse_address
from app.core.kafka.validation import MAX_TEXT_BYTES, validate_new_acl
from tests.images import image_of, numbered
from tests.strategies import ADDRESSES, ASKED_NAMES, HOSTS, PRINCIPALS, bindings

READ, ALL = AclOperation.READ, AclOperation.ALL
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
ADDRESS = parse_address("10.1.2.3")


def question(
    name: str = "orders",
    principal: str = "User:bob",
    address: str | ClientAddress = ADDRESS,
    operation: AclOperation = READ,
    resource_type: ResourceType = TOPIC,
) -> Question:
    at = parse_address(address) if isinstance(address, str) else address
    return Question(principal, at, operation, resource_type, name)


def allows(image: AuthorizerImage, asked: Question) -> bool:
    caller = Authorization(image, asked.principal, asked.address)
    return caller.decide(asked.operation, asked.resource_type, asked.resource_name).allowed


def test_it_names_the_resource_the_caller_the_address_and_the_operation() -> None:
    found = smallest_acl(question())
    assert found.binding == AclBinding(TOPIC, "orders", LITERAL, "User:bob", "10.1.2.3", READ, AclPermissionType.ALLOW)
    assert found.note is None


def test_an_ipv6_address_is_spelled_as_hosts_are_compared() -> None:
    binding = smallest_acl(question(address="2001:DB8::1%eth0")).binding
    assert binding is not None
    assert binding.host == "2001:db8:0:0:0:0:0:1%eth0"


def test_what_has_to_be_wider_says_why(subtests: pytest.Subtests) -> None:
    for asked, expected, note in [
        (question("*"), {"pattern_type": PREFIXED}, "the literal `*` covers all names"),
        (question(""), {"resource_name": "*"}, "it covers every TOPIC"),
        (question("a\0b"), {"resource_name": "a", "pattern_type": PREFIXED}, "begins with `a`"),
        (question("a\ud800"), {"resource_name": "a", "pattern_type": PREFIXED}, "begins with `a`"),
        (question("\0"), {"resource_name": "*"}, "it covers every TOPIC"),
        (question(principal="User:*"), {}, "no ACL can name the caller `User:*` alone"),
        (question(principal="bob"), {"principal": "User:*"}, "createAcls does not accept this caller's"),
        (question(operation=AclOperation.ANY), {"operation": ALL}, "no ACL can name ANY"),
        (question(operation=AclOperation.UNKNOWN), {"operation": ALL}, "no ACL can name UNKNOWN"),
        (
            question("kafka-cluster-2", resource_type=CLUSTER),
            {"resource_name": "kafka-cluster", "pattern_type": PREFIXED},
            "begins with `kafka-cluster`",
        ),
    ]:
        with subtests.test(asked=asked, expected=expected, note=note):
            found = smallest_acl(asked)
            exact = AclBinding(
                asked.resource_type,
                asked.resource_name,
                LITERAL,
                asked.principal,
                "10.1.2.3",
                asked.operation,
                AclPermissionType.ALLOW,
            )
            assert found.binding == exact._replace(**expected)  # type: ignore[arg-type]  # fields by name
            assert found.note is not None
            assert note in found.note
            assert found.note.endswith("think before you create it")


def test_a_name_that_is_too_long_is_covered_by_all_of_it_that_fits() -> None:
    binding = smallest_acl(question("é" * MAX_TEXT_BYTES)).binding
    assert binding is not None
    assert (binding.resource_name, binding.pattern_type) == ("é" * (MAX_TEXT_BYTES // 2), PREFIXED)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (question(resource_type=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (question("", resource_type=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (question(resource_type=ResourceType.ANY), "resourceType must not be ANY"),
        (question(resource_type=ResourceType.UNKNOWN), "Invalid resourceType UNKNOWN"),
    ],
)
def test_where_no_acl_can_help_none_is_named(asked: Question, reason: str) -> None:
    found = smallest_acl(asked)
    assert found.binding is None
    assert found.note == f"no ACL can allow this, because createAcls accepts none that would match: {reason}"


QUESTIONS = [
    question(name, principal, address, operation, resource_type)
    for principal, address, name, operation, resource_type in product(
        (*PRINCIPALS, "Robot:x"),
        ADDRESSES,
        ASKED_NAMES,
        (READ, AclOperation.DESCRIBE, AclOperation.ANY),
        (TOPIC, CLUSTER),
    )
]


@given(bindings, st.sampled_from(QUESTIONS), st.sampled_from((*HOSTS, None)))
def test_whatever_else_allows_it_allows_all_that_the_smallest_does(
    other: AclBinding, asked: Question, host: str | None
) -> None:
    """The other ACL is bent towards the question, so that it often allows it."""
    other = other._replace(
        permission_type=AclPermissionType.ALLOW,
        resource_type=asked.resource_type,
        host=asked.address.text if host is None else host,
        operation=ALL if asked.operation is AclOperation.ANY else other.operation,
        resource_name="kafka-cluster" if asked.resource_type is CLUSTER else other.resource_name,
    )
    smallest = smallest_acl(asked).binding
    wide = image_of(numbered([other]))
    if validate_new_acl(other) is not None or not allows(wide, asked):
        return
    assert smallest is not None
    assert validate_new_acl(smallest) is None
    narrow = image_of(numbered([smallest]))
    assert allows(narrow, asked)
    for each in QUESTIONS[:: 1 + len(QUESTIONS) // 200]:
        if allows(narrow, each):
            assert allows(wide, each), (smallest, other, each)
