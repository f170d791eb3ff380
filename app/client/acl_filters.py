"""Which ACLs a command is about, by flags: one resource at most, a pattern type and a principal."""

import argparse

from app.client.words import principal_named, utf_8
from app.core.kafka.bindings import NewAcl
from app.core.kafka.codes import CLUSTER_NAME, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.formats.command_errors import UsageError

_PATTERNS = ("ANY", "MATCH", "LITERAL", "PREFIXED")
_RESOURCES = {
    "topic": (ResourceType.TOPIC, "on this topic; * in the name is not a wildcard"),
    "group": (ResourceType.GROUP, "on this consumer group"),
    "transactional-id": (ResourceType.TRANSACTIONAL_ID, "on this transactional id"),
    "user-principal": (ResourceType.USER, "on this user, such as User:bob"),
}


def denies(acl: NewAcl) -> bool:
    return acl.binding.permission_type is AclPermissionType.DENY


def add_filter_arguments(parser: argparse.ArgumentParser) -> None:
    filters = parser.add_argument_group("which ACLs (all); one resource at most")
    filters.add_argument("--principal", metavar="PRINCIPAL", help="of this principal, such as User:alice")
    resource = filters.add_mutually_exclusive_group()
    for flag, (_, text) in _RESOURCES.items():
        resource.add_argument(f"--{flag}", metavar="NAME", help=text)
    resource.add_argument("--cluster", action="store_true", help="on the cluster")
    filters.add_argument(
        "--resource-pattern-type",
        metavar="TYPE",
        type=str.upper,
        choices=_PATTERNS,
        default="ANY",
        help="LITERAL or PREFIXED: ACLs of that pattern type only; MATCH: all that apply to the name, including "
        "prefixes and *; ANY: LITERAL and PREFIXED ACLs with exactly this name (%(default)s)",
    )


def filter_of(arguments: argparse.Namespace) -> AclBindingFilter:
    """Raises UsageError."""
    resource_type, name = ResourceType.ANY, None
    for flag, (kind, _) in _RESOURCES.items():
        given: str | None = getattr(arguments, flag.replace("-", "_"))
        if given is not None:
            resource_type, name = kind, utf_8(given)
    if arguments.cluster:
        resource_type, name = ResourceType.CLUSTER, CLUSTER_NAME
    pattern_type = PatternType[arguments.resource_pattern_type]
    if pattern_type is PatternType.MATCH and name is None:
        raise UsageError("--resource-pattern-type MATCH needs a name; give one with --topic, --group, ...")
    principal = None if arguments.principal is None else principal_named(arguments.principal)
    return AclBindingFilter(resource_type, name, pattern_type, principal)
