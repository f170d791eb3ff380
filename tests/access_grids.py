"""Random changes of ACLs, and what the access diff says about each point of a grid of requests."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from random import Random

from app.core.access.diff import AccessChange, AccessDiff
from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.index.masks import host_matches
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from tests.images import image_of, numbered
from tests.reference import Reference

_NAMES = ("a", "ab", "abc", "abcd", "b", "*", "**", "*a", "h", "é", "!a", "😀", "kafka-cluster", "a:b,c|d\n")
ASKED_NAMES = (*_NAMES, "", "abce", "ba", "A", "zz", "abx", "*b", "x", "kafka")
_PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:*", "User:root", "User:")
ASKED_PRINCIPALS = (*_PRINCIPALS, "Robot:x", "User:somebody-else")
_HOSTS = (
    *("*", "*", "*", "*"),
    *("10.0.0.1", "10.0.0.2", "10.0.0.3/32", "10.0.0.0/31", "10.0.0.5/8", "0.0.0.0/1", "128.0.0.0/1", "0.0.0.0/0"),
    *("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1%eth0", "::1/128", "::1/127", "::/0", "2001:db8::/32", "::/80"),
    *("10.0.0/8", "10.0.0.1/33", "::1", "localhost"),
)
ASKED_ADDRESSES = (
    *("10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.255.0.1", "9.9.9.9", "200.1.1.1", "255.255.255.255"),
    *("::", "::1", "::1%eth0", "::1%other", "2001:db8::7", "fe80::1", "::ffff:10.0.0.1"),
)
_OPERATIONS = (
    *(AclOperation.READ, AclOperation.READ, AclOperation.WRITE, AclOperation.ALL, AclOperation.DESCRIBE),
    *(AclOperation.ALTER_CONFIGS, AclOperation.CLUSTER_ACTION),
)
ASKED_OPERATIONS = (
    *(AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS),
    *(AclOperation.DESCRIBE_CONFIGS, AclOperation.CLUSTER_ACTION, AclOperation.TWO_PHASE_COMMIT),
)
_TYPES = (ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)
_PERMISSIONS = (AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)

NOW = 1_700_000_000.0
"""Some ACLs of a random store end before this time, some after it."""

Flip = bool | None
"""True: gained, False: lost, None: neither."""


@dataclass(frozen=True)
class Point:
    """One request."""

    principal: str
    address: str
    operation: AclOperation
    resource_type: ResourceType
    name: str


@dataclass(frozen=True)
class Change:
    """Two ACL sets, one configuration."""

    before: frozenset[AclBinding]
    after: frozenset[AclBinding]
    config: AuthorizerConfig


def random_acl(drawn: Random) -> AclBinding:
    return AclBinding(
        drawn.choice(_TYPES),
        drawn.choice(_NAMES),
        drawn.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        drawn.choice(_PRINCIPALS),
        drawn.choice(_HOSTS),
        drawn.choice(_OPERATIONS),
        drawn.choice(_PERMISSIONS),
    )


def random_store(drawn: Random, config: AuthorizerConfig) -> tuple[AuthorizerImage, Reference]:
    """Some ACLs as of `NOW`, compiled and for a plain scan."""
    bindings = (random_acl(drawn) for _ in range(drawn.choice((0, 3, 10, 40))))
    ends = {second: datetime.fromtimestamp(NOW + second, UTC) for second in (-1, 0, 1)}
    acls = [replace(each, expires_at=ends.get(drawn.randrange(-1, 9))) for each in numbered(bindings)]
    ended = [each.binding for each in acls if _has_ended(each)]
    alive = [each.binding for each in acls if not _has_ended(each)]
    scan = Reference(alive, config.super_users, config.allow_everyone_if_no_acl_found, ended=ended)
    return image_of(acls, config).as_of(NOW), scan


def _has_ended(acl: StandardAcl) -> bool:
    is_allow = acl.binding.permission_type is AclPermissionType.ALLOW
    return is_allow and acl.expires_at is not None and acl.expires_at.timestamp() <= NOW


def random_change(seed: int) -> Change:
    """Small sets and large ones, nothing changed and everything."""
    drawn = Random(seed)
    before = frozenset(random_acl(drawn) for _ in range(drawn.choice((0, 1, 3, 8, 20))))
    kept = drawn.choice((0.0, 0.5, 0.9, 1.0))
    new = (random_acl(drawn) for _ in range(drawn.choice((0, 1, 1, 3, 8))))
    after = frozenset(acl for acl in sorted(before, key=repr) if drawn.random() < kept).union(new)
    super_users = frozenset[str]() if drawn.random() < 0.5 else frozenset({"User:root"})
    return Change(before, after, AuthorizerConfig(super_users, drawn.random() < 0.4))


def says(change: AccessChange, point: Point) -> bool:
    """Whether this row is about this request, read as a reader reads it: nothing of core's regions is in here."""
    names, hosts, principals = change.names, change.hosts, change.principals
    address = parse_address(point.address)
    return (
        point.resource_type is change.resource_type
        and point.operation in change.operations
        and (
            point.principal not in principals.besides
            if principals.name == "User:*"
            else point.principal == principals.name
        )
        and _covers(names.pattern_type, names.name, point.name)
        and not any(_covers(*each, point.name) for each in names.besides)
        and host_matches(hosts.host, address)
        and not any(host_matches(each, address) for each in hosts.besides)
    )


def assert_exact(change: Change, diff: AccessDiff) -> int:
    """Every point of the grid flips exactly if exactly one row says so, in that row's direction. The points' number."""
    assert not diff.unresolved
    for row in diff.changes:
        for operation in row.operations:
            witness = row.witness
            point = Point(
                witness.principal, witness.client_address, operation, row.resource_type, witness.resource_name
            )
            assert says(row, point), (row, point)
    count = 0
    for point, flip in _flips(change, diff):
        said = [row.gained for row in diff.changes if says(row, point)]
        assert said == ([] if flip is None else [flip]), (point, flip, said, change)
        count += 1
    return count


def _flips(change: Change, diff: AccessDiff) -> Iterator[tuple[Point, Flip]]:
    """Core's answers before and after, over the grid and the diff's own witnesses."""
    images = [image_of(numbered(acls), change.config) for acls in (change.before, change.after)]
    witnesses = [row.witness for row in diff.changes]
    principals = {*ASKED_PRINCIPALS, *(each.principal for each in witnesses)}
    addresses = {*ASKED_ADDRESSES, *(each.client_address for each in witnesses)}
    names = {*ASKED_NAMES, *(each.resource_name for each in witnesses)}
    for principal, address in product(principals, addresses):
        old, new = (Authorization(image, principal, parse_address(address)) for image in images)
        for resource_type, operation, name in product(set(_TYPES), ASKED_OPERATIONS, names):
            was = old.decide(operation, resource_type, name).allowed
            is_ = new.decide(operation, resource_type, name).allowed
            yield Point(principal, address, operation, resource_type, name), None if was is is_ else is_


def _covers(pattern_type: PatternType, pattern: str, name: str) -> bool:
    return name.startswith(pattern) if pattern_type is PatternType.PREFIXED else pattern in ("*", name)
