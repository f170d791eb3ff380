"""Hypothesis strategies over small pools, so that names, principals and hosts collide, nest and contradict often."""

from hypothesis import strategies as st

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.filters import AclBindingFilter

NAMES = ("a", "ab", "abc", "abcd", "b", "*", "**", "*a", "h", "hardcode", "é", "!a", "😀", "a:b,c|d\n", "kafka-cluster")
"""Names of resources in ACLs: prefixes of one another, literal stars, names below `*` in sort order, separators."""

ASKED_NAMES = (*NAMES, "", "abce", "ba", "A", "zz")
"""Names that are asked about: those of the ACLs, and some that stand on nothing or on prefixes alone."""

PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:*", "User:Alice", "User:")
HOSTS = (
    "*",
    "10.0.0.1",
    "10.0.0.2",
    "0:0:0:0:0:0:0:1",
    "::1",
    "10.0.0.0/31",
    "10.0.0.5/8",
    "0.0.0.0/0",
    "::/0",
    "2001:db8::/32",
    "10.0.0/8",
    "10.0.0.1/33",
)
"""Hosts of ACLs, two of them no valid CIDR, as an older store may hold them."""

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.255.0.1", "0.0.0.0", "::1", "2001:db8::7", "::ffff:10.0.0.1")  # noqa: S104 (asked about, nothing is bound)

CONCRETE_TYPES = tuple(ResourceType)[2:]
CONCRETE_OPERATIONS = tuple(AclOperation)[2:]

_types = st.sampled_from((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.TOPIC, *CONCRETE_TYPES))
_names = st.sampled_from(("a", "a", "ab", "ab", "abc", "*", *NAMES))
_patterns = st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED))
_principals = st.sampled_from(PRINCIPALS)
_hosts = st.sampled_from(("*", "*", "*", *HOSTS))
_operations = st.sampled_from(
    (AclOperation.READ, AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALL, *CONCRETE_OPERATIONS)
)
_permissions = st.sampled_from((AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY))

bindings = st.builds(AclBinding, _types, _names, _patterns, _principals, _hosts, _operations, _permissions)
binding_lists = st.lists(bindings, max_size=4, unique=True) | st.lists(bindings, min_size=8, max_size=25, unique=True)

configs = st.builds(
    AuthorizerConfig,
    super_users=st.sampled_from((frozenset[str](), frozenset({"User:root", "User:bob"}))),
    allow_everyone_if_no_acl_found=st.booleans(),
)

callers = st.tuples(st.sampled_from((*PRINCIPALS, "User:root", "Robot:x")), st.sampled_from(ADDRESSES))

filters = st.builds(
    AclBindingFilter,
    resource_type=st.sampled_from((ResourceType.ANY, ResourceType.ANY, ResourceType.TOPIC, *ResourceType)),
    resource_name=st.sampled_from((None, None, *ASKED_NAMES)),
    pattern_type=st.sampled_from((PatternType.ANY, PatternType.MATCH, *PatternType)),
    principal=st.sampled_from((None, None, None, *PRINCIPALS, "User:nobody")),
    host=st.sampled_from((None, None, None, *HOSTS)),
    operation=st.sampled_from((AclOperation.ANY, AclOperation.ANY, AclOperation.ANY, *AclOperation)),
    permission_type=st.sampled_from((AclPermissionType.ANY, AclPermissionType.ANY, *AclPermissionType)),
)
