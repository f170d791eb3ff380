"""ACLs and principals that are probably mistakes: they match no client, or other clients than the author thinks.

Kafka accepts them all, and so does Klamm. The author is warned, and nothing else changes.
"""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

from app.core.access.host_keys import NOBODY, host_key, ip_address_of
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import WILDCARD, WILDCARD_PRINCIPAL, AclOperation, PatternType, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import parse_address, parse_cidr
from app.core.kafka.operations import supported_operations
from app.core.readable import backticked, visible

_USER = "User"
_ANONYMOUS = "ANONYMOUS"
_NO_TOPIC = re.compile(r"[^a-zA-Z0-9._-]")
_MAX_TOPIC = 249
_NEXT_PRINCIPAL = re.compile(r"[,;]\s{0,9}User:", re.IGNORECASE)
_SHOWN = 100
_NOBODY_HAS = ("0.0.0.0", "0:0:0:0:0:0:0:0")  # noqa: S104 - nothing is bound to them


def doubts_of_acl(acl: AclBinding) -> Iterator[str]:
    """One line for each doubt, with the field and the way out; none for an ACL that makes sense as it is."""
    name, prefixed = acl.resource_name, acl.pattern_type is PatternType.PREFIXED
    if prefixed or name != WILDCARD:
        yield from _doubts_of_name(acl.resource_type, name, prefixed=prefixed)
    yield from doubts_of_principal(acl.principal, may_be_wildcard=True)
    yield from _doubts_of_host(acl.host)
    if acl.operation is not AclOperation.ALL and acl.operation not in supported_operations(acl.resource_type):
        yield f"Kafka never asks for {acl.operation.name} on a {acl.resource_type.name}, so this ACL has no effect"


def doubts_of_principal(principal: str, *, may_be_wildcard: bool = False) -> Iterator[str]:
    """The same for a principal outside an ACL, such as a super user."""
    shown = _shown(principal)
    kind, _, name = principal.partition(":")
    if _NEXT_PRINCIPAL.search(principal) is not None:
        yield f"{shown} is a single principal whose name contains the others; write each principal separately"
    elif kind != _USER and kind.strip().lower() == _USER.lower():
        meant = _shown(f"{_USER}:{name}")
        yield f"{shown} is not {meant}: principals are compared exactly, and clients have the type `{_USER}`"
    elif not name:
        yield f"{shown} has no name after the colon, so it matches no client"
    elif WILDCARD in name and not (may_be_wildcard and principal == WILDCARD_PRINCIPAL):
        everybody = f" (only `{WILDCARD_PRINCIPAL}` means everybody)" if may_be_wildcard else ""
        yield (
            f"{shown}: principals are compared exactly, so `{WILDCARD}` is part of this name, not a wildcard{everybody}"
        )
    elif kind == _USER and name != _ANONYMOUS and name.upper() == _ANONYMOUS:
        yield f"{shown}: unauthenticated clients are `{_USER}:{_ANONYMOUS}`, in upper case"
    yield from _odd_letters("principal", name)


def _doubts_of_name(resource_type: ResourceType, name: str, *, prefixed: bool) -> Iterator[str]:
    shown, kind = _shown(name), resource_type.name.lower().replace("_", " ")
    if WILDCARD in name:
        rest = name.rstrip(WILDCARD)
        if prefixed:
            said = (
                f"a prefix is compared exactly, so {shown} covers only names that begin with it, `{WILDCARD}` included"
            )
        else:
            said = f"{shown} with the pattern type LITERAL matches only this exact name, `{WILDCARD}` included"
        if not rest:
            yield f"{said}; for every {kind}, use `{WILDCARD}` with LITERAL"
        elif WILDCARD in rest:
            yield f"{said}; Kafka has no wildcards within names"
        else:
            yield f"{said}; for all names that begin this way, use {_shown(rest)} with PREFIXED"
    elif resource_type is ResourceType.TOPIC:
        yield from _no_topic(name, prefixed=prefixed)
    elif resource_type is ResourceType.USER and not prefixed:
        yield from (
            doubts_of_principal(name)
            if ":" in name
            else (f"{shown} is not a principal; write {_shown(f'{_USER}:{name}')}",)
        )
    if resource_type not in (ResourceType.TOPIC, ResourceType.USER):
        yield from _odd_letters("resource name", name)


def _no_topic(name: str, *, prefixed: bool) -> Iterator[str]:
    what = "no topic name begins with" if prefixed else "no topic is named"
    wrong = _NO_TOPIC.search(name)
    if wrong is not None:
        yield f"{what} {_shown(name)}: `{visible(wrong[0])}` is not allowed in topic names (only a-z A-Z 0-9 . _ -)"
    elif len(name) > _MAX_TOPIC or (name in (".", "..") and not prefixed):
        yield f"{what} {_shown(name)}: Kafka does not allow this name"


def _doubts_of_host(host: str) -> Iterator[str]:
    if host in _NOBODY_HAS:
        yield f"no client connects from {_shown(host)}; for every host, use `{WILDCARD}`"
    elif host_key(host) == NOBODY:
        yield f"host {_shown(host)} matches no client: {_way_out(host)}"
    elif "/" in host:
        cidr = parse_cidr(host)
        first = ip_address_of(cidr.version, cidr.network)
        literal = host.partition("/")[0]
        if _same_address(literal) not in (None, str(first)):
            meant = f"`{first}/{cidr.prefix_length}`"
            yield f"host {_shown(host)} means the whole range {meant}; for a single address, leave out the `/`"


def _way_out(host: str) -> str:
    try:
        return f"Kafka compares it as text, and spells this address `{parse_address(host.strip()).text}`; write that"
    except InvalidRequestException:
        return "host names are not resolved; write an IP address, or a range such as 10.0.0.0/8"


def _same_address(literal: str) -> str | None:
    """The address as ipaddress spells it; None for spellings that only Java reads."""
    try:
        return str(IPv6Address(literal) if ":" in literal else IPv4Address(literal))
    except ValueError:
        return None


def _odd_letters(field: str, text: str) -> Iterator[str]:
    if text != text.strip():
        yield f"{field} {_shown(text)} begins or ends with white space, which is significant"
    elif visible(text) != text:
        yield f"{field} {_shown(text)} contains invisible characters, which are significant"


def _shown(text: str) -> str:
    return backticked(text, _SHOWN)
