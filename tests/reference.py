"""The documented rules of Kafka's authorizer, written down as a plain scan over a list of ACLs.

Slow and short on purpose, and sharing nothing with core but its values: what core compiles is held against this, and
this is held against Kafka's own answers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address, ip_network

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType

_IMPLIES = {
    (AclOperation.READ, AclOperation.DESCRIBE),
    (AclOperation.WRITE, AclOperation.DESCRIBE),
    (AclOperation.DELETE, AclOperation.DESCRIBE),
    (AclOperation.ALTER, AclOperation.DESCRIBE),
    (AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS),
}
_FIRST_PROBE = "hardcode"


@dataclass(frozen=True)
class Reference:
    """One authorizer: its ACLs and its configuration.

    `ended` are ALLOWs that have ended and are still there: they stand on their resources, and allow nothing.
    `groups` are principals of groups that each caller is in: their ACLs speak of it too.
    `zero_is_nowhere` brings back Kafka 4.4.0's slip that no CIDR range holds 0.0.0.0 (authorize_quirks, quirk 4).
    """

    acls: Sequence[AclBinding]
    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False
    zero_is_nowhere: bool = False
    ended: Sequence[AclBinding] = ()
    groups: frozenset[str] = frozenset()

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether it is allowed; `host` is Java's form of the client address."""
        if principal in self.super_users:
            return True
        on_resource = [acl for acl in self.acls if is_on(acl, resource_type, name)]
        of_caller = [acl for acl in on_resource if self._speaks_of(acl, principal, host)]
        if any(_denies(acl, operation) for acl in of_caller):
            return False
        if any(_allows(acl, operation) for acl in of_caller):
            return True
        stands_on_it = on_resource or any(is_on(acl, resource_type, name) for acl in self.ended)
        return self.allow_everyone and not stands_on_it

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """KIP-504's default method, as Kafka ships it."""
        if self.authorize(principal, host, operation, resource_type, _FIRST_PROBE):
            return True
        speaking = [
            acl
            for acl in self.acls
            if acl.resource_type is resource_type
            and self._speaks_of(acl, principal, host)
            and acl.operation in (operation, AclOperation.ALL)
        ]
        allowed = _patterns(speaking, AclPermissionType.ALLOW)
        denied = _patterns(speaking, AclPermissionType.DENY)
        if (PatternType.LITERAL, "*") in denied:
            return False
        if (PatternType.LITERAL, "*") in allowed:
            return True
        return any(not _dominated(pattern_type, name, denied) for pattern_type, name in allowed)

    def authorized_operations(
        self,
        principal: str,
        host: str,
        resource: tuple[ResourceType, str],
        supported: Iterable[AclOperation],
    ) -> list[AclOperation]:
        """The supported operations that are allowed, one question each."""
        return [operation for operation in supported if self.authorize(principal, host, operation, *resource)]

    def _speaks_of(self, acl: AclBinding, principal: str, host: str) -> bool:
        return acl.principal in (principal, "User:*", *self.groups) and self._matches_host(acl.host, host)

    def _matches_host(self, acl_host: str, host: str) -> bool:
        if "/" not in acl_host:
            return acl_host in ("*", host)
        if self.zero_is_nowhere and host == "0.0.0.0":  # noqa: S104 (an address in a question, nothing is bound)
            return False
        return _is_in_range(acl_host, host)


@lru_cache(maxsize=10_000)
def _is_in_range(acl_host: str, host: str) -> bool:
    try:
        return ip_address(host) in ip_network(acl_host, strict=False)
    except ValueError:
        return False


def is_on(acl: AclBinding, resource_type: ResourceType, name: str) -> bool:
    """Whether the ACL stands on this resource."""
    return acl.resource_type is resource_type and _covers(acl, name)


def _covers(acl: AclBinding, name: str) -> bool:
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in ("*", name)


def _denies(acl: AclBinding, operation: AclOperation) -> bool:
    return acl.permission_type is AclPermissionType.DENY and acl.operation in (operation, AclOperation.ALL)


def _allows(acl: AclBinding, operation: AclOperation) -> bool:
    return acl.permission_type is AclPermissionType.ALLOW and (
        acl.operation in (operation, AclOperation.ALL) or (acl.operation, operation) in _IMPLIES
    )


def _patterns(acls: Iterable[AclBinding], permission_type: AclPermissionType) -> set[tuple[PatternType, str]]:
    return {(acl.pattern_type, acl.resource_name) for acl in acls if acl.permission_type is permission_type}


def _dominated(pattern_type: PatternType, name: str, denied: set[tuple[PatternType, str]]) -> bool:
    if (PatternType.PREFIXED, name) in denied or (pattern_type, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name)))
