"""The yardstick in process: a plain scan written after `StandardAuthorizerData` of Kafka 4.4.0.

A search for the place of the name in the sorted ACLs, then a walk over every ACL of every prefix of the name, with a
new search wherever the walk meets a name that is none; the same for `*`. No metrics, no audit text, and principals are
compared as texts, where Kafka parses each of them again: the scan is given what it can be given.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from app.core.kafka.bindings import AclRow
from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType, PatternType

_LITERAL, _ALLOW, _ALL = int(PatternType.LITERAL), int(AclPermissionType.ALLOW), int(AclOperation.ALL)
_DESCRIBE, _DESCRIBE_CONFIGS = int(AclOperation.DESCRIBE), int(AclOperation.DESCRIBE_CONFIGS)
_IMPLYING = {
    _DESCRIBE: frozenset(map(int, (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER))),
    _DESCRIBE_CONFIGS: frozenset({int(AclOperation.ALTER_CONFIGS)}),
}
_NONE: frozenset[int] = frozenset()


class Asked(NamedTuple):
    """One action of one caller; `host` is Java's form of the client address."""

    principals: frozenset[str]
    host: str
    operation: int
    name: str


class KafkaScan:
    """An authorizer without super users and with allow.everyone.if.no.acl.found off, as Kafka would look it up."""

    def __init__(self, rows: Iterable[AclRow]) -> None:
        by_type: dict[int, list[AclRow]] = {}
        for row in rows:
            by_type.setdefault(row[1], []).append(row)
        # Kafka's order is that of falling names: its walk forward is ours backward.
        self._rows = {code: sorted(some, key=lambda row: row[5]) for code, some in by_type.items()}
        self._names = {code: [row[5] for row in some] for code, some in self._rows.items()}

    def authorize(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether it is allowed."""
        rows = self._rows.get(resource_type)
        if rows is None:
            return False
        names = self._names[resource_type]
        asked = Asked(frozenset((principal, "User:*")), host, operation, name)
        on_name = _walk(rows, names, asked)
        if on_name is False:
            return False
        on_wildcard = _wildcard(rows, names, asked)
        return on_name is True if on_wildcard is None else on_wildcard


def _walk(rows: list[AclRow], names: list[str], asked: Asked) -> bool | None:
    """What the ACLs of the name and of its prefixes say: False at the first DENY, None if none matches."""
    name, found = asked.name, None
    at = bisect_right(names, name) - 1
    while at >= 0:
        row = rows[at]
        if not name.startswith(row[5]):
            # The nearest name that may still be a prefix is what the two have in common.
            at = bisect_right(names, name[: _matches_up_to(name, row[5])], 0, at) - 1
            continue
        if row[2] != _LITERAL or row[5] == name:
            allowed = _speaks(row, asked)
            if allowed is False:
                return False
            found = found or allowed
        at -= 1
    return found


def _wildcard(rows: list[AclRow], names: list[str], asked: Asked) -> bool | None:
    found = None
    for row in rows[bisect_left(names, WILDCARD) : bisect_right(names, WILDCARD)]:
        if row[2] == _LITERAL:
            allowed = _speaks(row, asked)
            if allowed is False:
                return False
            found = found or allowed
    return found


def _matches_up_to(name: str, pattern: str) -> int:
    length = 0
    for mine, other in zip(name, pattern, strict=False):
        if mine != other:
            break
        length += 1
    return length


def _speaks(row: AclRow, asked: Asked) -> bool | None:
    """What this ACL says of the action; None if it speaks of another caller, host or operation."""
    _, _, _, operation, permission_type, _, principal, host = row
    if principal not in asked.principals or not (host in ("*", asked.host) or _in_range(host, asked.host)):
        return None
    allows = permission_type == _ALLOW
    if operation in (asked.operation, _ALL) or (allows and operation in _IMPLYING.get(asked.operation, _NONE)):
        return allows
    return None


def _in_range(acl_host: str, host: str) -> bool:
    if "/" not in acl_host:
        return False
    try:
        return ip_address(host) in ip_network(acl_host, strict=False)
    except ValueError:
        return False
