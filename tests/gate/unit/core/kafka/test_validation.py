from collections.abc import Iterable
from typing import Any

import pytest

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.validation import MAX_TEXT_BYTES, validate_filter, validate_new_acl

GOOD = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
)

NO_COLON = "no colon is present separating the principal type from the principal name"


def why_not(**changes: Any) -> str | None:  # noqa: ANN401 (any field of a binding)
    refusal = validate_new_acl(GOOD._replace(**changes))
    return None if refusal is None else refusal.message


def why_not_filter(**fields: Any) -> str | None:  # noqa: ANN401 (any field of a filter)
    refusal = validate_filter(AclBindingFilter(**fields))
    return None if refusal is None else refusal.message


# Each row has the faults of all rows below it too: the first check that fails gives the text.
FAULTS_IN_ORDER: list[tuple[dict[str, object], str]] = [
    ({"resource_name": "x" * 32_768}, "'resourceName' field is too long to be serialized"),
    ({"resource_name": "a\0"}, "'resourceName' field contains U+0000, which can't be stored; remove it"),
    ({"principal": "x" * 32_768}, "'principal' field is too long to be serialized"),
    ({"host": "x/" * 20_000}, "'host' field is too long to be serialized"),
    ({"resource_type": ResourceType.ANY}, "resourceType must not be ANY"),
    ({"pattern_type": PatternType.MATCH}, "patternType must not be MATCH"),
    ({"operation": AclOperation.ANY}, "operation must not be ANY"),
    ({"permission_type": AclPermissionType.ANY}, "permissionType must not be ANY"),
    (
        {"resource_type": ResourceType.CLUSTER, "resource_name": ""},
        "The only valid name for the CLUSTER resource is kafka-cluster",
    ),
    ({"resource_name": ""}, "Invalid empty resource name"),
    ({"resource_type": ResourceType.UNKNOWN}, "Invalid resourceType UNKNOWN"),
    ({"pattern_type": PatternType.UNKNOWN}, "Invalid patternType UNKNOWN"),
    ({"operation": AclOperation.UNKNOWN}, "Invalid operation UNKNOWN"),
    ({"permission_type": AclPermissionType.UNKNOWN}, "Invalid permissionType UNKNOWN"),
    (
        {"principal": "alice"},
        f"Could not parse principal from `alice` ({NO_COLON})",
    ),
    ({"host": "10.0.0.0/33"}, "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]"),
]


def test_the_first_fault_in_kafkas_order_gives_the_text(subtests: pytest.Subtests) -> None:
    for first in range(len(FAULTS_IN_ORDER)):
        with subtests.test(first=first):
            changes: dict[str, object] = {}
            for fault, _ in reversed(FAULTS_IN_ORDER[first:]):
                changes |= fault
            assert why_not(**changes) == FAULTS_IN_ORDER[first][1]
            assert why_not(**FAULTS_IN_ORDER[first][0]) == FAULTS_IN_ORDER[first][1]


@pytest.mark.parametrize("field", ["resource_name", "principal", "host"])
def test_a_text_may_be_as_long_as_kafkas_wire_can_carry_in_bytes(field: str) -> None:
    exact = "é:" + "x" * (MAX_TEXT_BYTES - 3)
    assert len(exact.encode()) == MAX_TEXT_BYTES
    assert why_not(**{field: exact}) is None
    assert "too long" in str(why_not(**{field: exact + "x"}))


def test_what_the_store_cannot_keep_is_refused(subtests: pytest.Subtests) -> None:
    for field in ["resource_name", "principal", "host"]:
        for text in ["User:a\0", "User:\ud800", "\udfff:"]:
            with subtests.test(field=field, text=text):
                assert "can't be stored" in str(why_not(**{field: text}))
                assert "can't be stored" in str(why_not_filter(**{field: text}))


def test_an_empty_host_is_refused() -> None:
    assert why_not(host="") == "Host pattern cannot be null or empty"


def test_kafka_checks_no_more_than_this(subtests: pytest.Subtests) -> None:
    cases: Iterable[dict[str, object]] = [
        {},
        {"principal": " User:alice "},
        {"principal": ":"},
        {"host": "no address at all"},
        {"host": "999.1.1.1"},
        {"host": "fe80::1%eth0/64"},
        {"resource_name": " "},
        {"resource_name": "*", "pattern_type": PatternType.PREFIXED},
        {"resource_type": ResourceType.GROUP, "operation": AclOperation.WRITE},
        {"resource_type": ResourceType.CLUSTER, "resource_name": "kafka-cluster", "pattern_type": PatternType.PREFIXED},
    ]
    for changes in cases:
        with subtests.test(changes=changes):
            assert why_not(**changes) is None


def test_filters_are_refused_for_unknown_words_only(subtests: pytest.Subtests) -> None:
    cases: Iterable[tuple[dict[str, object], str | None]] = [
        ({"resource_name": "x" * 32_768}, "'resourceNameFilter' field is too long to be serialized"),
        ({"principal": "x" * 32_768}, "'principalFilter' field is too long to be serialized"),
        ({"host": "x" * 32_768}, "'hostFilter' field is too long to be serialized"),
        ({"resource_type": ResourceType.UNKNOWN, "operation": AclOperation.UNKNOWN}, "Unknown patternFilter."),
        ({"pattern_type": PatternType.UNKNOWN}, "Unknown patternFilter."),
        ({"operation": AclOperation.UNKNOWN}, "Unknown entryFilter."),
        ({"permission_type": AclPermissionType.UNKNOWN}, "Unknown entryFilter."),
        ({}, None),
        ({"resource_name": "", "principal": "", "host": "10.0.0.0/99"}, None),
        ({"resource_type": ResourceType.CLUSTER, "resource_name": "nope"}, None),
    ]
    for fields, why in cases:
        with subtests.test(fields=fields, why=why):
            assert why_not_filter(**fields) == why
