"""The semantics over many ACLs stand in tests/gate/differential; these are the rules one by one (KIP-290)."""

import pytest

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter

ORDERS = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
)
ORD = ORDERS._replace(resource_name="ord", pattern_type=PatternType.PREFIXED)
STAR = ORDERS._replace(resource_name="*")
PREFIXED_STAR = STAR._replace(pattern_type=PatternType.PREFIXED)


def test_a_filter_means(subtests: pytest.Subtests) -> None:
    for acl_filter, matching in [
        (AclBindingFilter(), [ORDERS, ORD, STAR, PREFIXED_STAR]),
        (AclBindingFilter(resource_name="orders"), [ORDERS]),
        (AclBindingFilter(resource_name="orders", pattern_type=PatternType.MATCH), [ORDERS, ORD, STAR]),
        (AclBindingFilter(resource_name="ord", pattern_type=PatternType.MATCH), [ORD, STAR]),
        (AclBindingFilter(resource_name="*a", pattern_type=PatternType.MATCH), [STAR, PREFIXED_STAR]),
        (AclBindingFilter(resource_name="", pattern_type=PatternType.MATCH), [STAR]),
        (AclBindingFilter(pattern_type=PatternType.MATCH), [ORDERS, ORD, STAR, PREFIXED_STAR]),
        (AclBindingFilter(resource_name="*", pattern_type=PatternType.LITERAL), [STAR]),
        (AclBindingFilter(resource_name="*"), [STAR, PREFIXED_STAR]),
        (AclBindingFilter(resource_name="orders", pattern_type=PatternType.PREFIXED), []),
        (AclBindingFilter(pattern_type=PatternType.PREFIXED), [ORD, PREFIXED_STAR]),
        (AclBindingFilter(resource_type=ResourceType.GROUP), []),
        (AclBindingFilter(principal="User:*"), []),
        (AclBindingFilter(principal="user:alice"), []),
        (AclBindingFilter(host="10.0.0.1"), []),
        (AclBindingFilter(operation=AclOperation.DESCRIBE), []),
        (AclBindingFilter(operation=AclOperation.ALL), []),
        (AclBindingFilter(permission_type=AclPermissionType.DENY), []),
        (AclBindingFilter(pattern_type=PatternType.UNKNOWN), []),
        (AclBindingFilter(operation=AclOperation.UNKNOWN), []),
    ]:
        with subtests.test(acl_filter=acl_filter, matching=matching):
            assert [acl for acl in (ORDERS, ORD, STAR, PREFIXED_STAR) if acl_filter.matches(acl)] == matching
