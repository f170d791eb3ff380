"""ACLs and resources as people read them, and the command that adds or removes an ACL."""

from collections.abc import Sequence
from datetime import datetime

from app.core.kafka.acl_command import beyond_kafka_acls, kafka_acls_flags
from app.core.kafka.bindings import AclBinding, AclTerms, NewAcl, StandardAcl, rfc3339
from app.core.kafka.codes import WILDCARD, AclPermissionType, PatternType, ResourceType
from app.core.readable import quoted_name, readable
from app.formats.quoting import shell_line


def acl_text(binding: AclBinding) -> str:
    """`ALLOW READ to User:bob from any host on topic:orders`."""
    to = "to" if binding.permission_type is AclPermissionType.ALLOW else "for"
    resource = resource_text(binding.resource_type, binding.resource_name, binding.pattern_type)
    what = f"{binding.permission_type.name} {binding.operation.name}"
    return f"{what} {to} {readable(binding.principal)} {from_host(binding.host)} on {resource}"


def from_host(host: str) -> str:
    return "from any host" if host == WILDCARD else f"from {readable(host)}"


def stored_acl_text(acl: StandardAcl) -> str:
    """As `acl_text`, with the end and the owner, if there are any."""
    return f"{acl_text(acl.binding)}{terms_note(acl)}"


def terms_note(acl: NewAcl | StandardAcl) -> str:
    """What follows an ACL that has an end or an owner: ` until 2026-12-01T18:00:00Z, owner "orders team"`."""
    until = [until_text(acl.expires_at)] if isinstance(acl.expires_at, datetime) else []
    owner = [f"owner {owner_text(acl.owner)}"] if isinstance(acl.owner, str) else []
    note = ", ".join([*until, *owner])
    return f" {note}" if note else ""


def terms_text(terms: AclTerms) -> str:
    return f"{until_text(terms.expires_at)}, owner {owner_text(terms.owner)}"


def until_text(end: datetime | None) -> str:
    return "for ever" if end is None else f"until {rfc3339(end)}"


def owner_text(name: str | None) -> str:
    return "nobody" if name is None else quoted_name(name)


def resource_text(resource_type: ResourceType, name: str, pattern_type: PatternType | None = None) -> str:
    """`topic:orders`; with a pattern type it also says whether more than that name is covered."""
    text = f"{resource_type.name.lower().replace('_', '-')}:{readable(name)}"
    if pattern_type is PatternType.PREFIXED:
        return f"{text} (PREFIXED: all names with this prefix)"
    return f"{text} (all names)" if pattern_type is PatternType.LITERAL and name == WILDCARD else text


def command_for(action: str, binding: AclBinding, access: Sequence[str] = (), expires: str | None = None) -> str | None:
    """`klamm acls --add ...` (or `--remove`) for a POSIX shell; `access` are flags for the service.

    None if kafka-acls' flags can't say it (`beyond_kafka_acls`), or if it would have unprintable characters.
    """
    if beyond_kafka_acls(binding) is not None:
        return None
    ends = () if expires is None else ("--expires", expires)
    flags = kafka_acls_flags(binding, with_defaults=False)
    return shell_line(["klamm", "acls", *access, f"--{action}", *flags, *ends])
