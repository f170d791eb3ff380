"""Which ACL makes another superfluous, by comparing each with each: what Spark finds is held against it."""

from datetime import UTC, datetime
from ipaddress import IPv4Network, IPv6Network, ip_network

from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclPermissionType, PatternType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK


def makes(kind: str, by: StandardAcl, acl: StandardAcl) -> bool:
    """Whether the one ACL makes the other VOID or REDUNDANT, for all of its time.

    Of equal ones the one that ends last stays, and of those the one with the lowest id.
    """
    allow = AclPermissionType.ALLOW
    if kind == "VOID":
        fits = acl.binding.permission_type is allow and by.binding.permission_type is not allow
    else:
        fits = acl.binding.permission_type is by.binding.permission_type and acl.id != by.id
        if covers(acl.binding, by.binding):
            fits = fits and (_end(by) > _end(acl) or by.id < acl.id)
    return fits and _end(by) >= _end(acl) and covers(by.binding, acl.binding)


def _end(acl: StandardAcl) -> datetime:
    return acl.expires_at or datetime.max.replace(tzinfo=UTC)


def covers(wide: AclBinding, narrow: AclBinding) -> bool:
    """Whether the one applies to every request that the other applies to; their permissions are not compared."""
    masks = [
        (ALLOW_MASK if each.permission_type is AclPermissionType.ALLOW else DENY_MASK)[each.operation]
        for each in (wide, narrow)
    ]
    return (
        wide.resource_type is narrow.resource_type
        and masks[0] & masks[1] == masks[1]
        and wide.principal in ("User:*", narrow.principal)
        and _covers_name(wide, narrow)
        and _covers_host(wide.host, narrow.host)
    )


def _covers_name(wide: AclBinding, narrow: AclBinding) -> bool:
    if wide.pattern_type is PatternType.LITERAL:
        same = narrow.pattern_type is PatternType.LITERAL and wide.resource_name == narrow.resource_name
        return wide.resource_name == "*" or same
    everything = narrow.pattern_type is PatternType.LITERAL and narrow.resource_name == "*"
    return not everything and narrow.resource_name.startswith(wide.resource_name)


def _covers_host(wide: str, narrow: str) -> bool:
    if wide in ("*", narrow):
        return True
    if narrow == "*":
        return False
    wide_range, narrow_range = _clients(wide), _clients(narrow)
    if wide_range is None or narrow_range is None:
        # Hosts of nobody cover each other.
        return wide_range is narrow_range
    if isinstance(wide_range, IPv4Network):
        return isinstance(narrow_range, IPv4Network) and narrow_range.subnet_of(wide_range)
    # An exact IPv6 host leaves out what its /128 holds: the same address with a zone.
    return "/" in wide and isinstance(narrow_range, IPv6Network) and narrow_range.subnet_of(wide_range)


def _clients(host: str) -> IPv4Network | IPv6Network | None:
    """The range that a host other than `*` means, None if it is nobody's."""
    try:
        if "/" not in host:
            return ip_network(host) if parse_address(host).text == host else None
        address, _, length = host.partition("/")
        return ip_network(f"{address}/{int(length)}", strict=False)
    except (ValueError, InvalidRequestException):
        return None
