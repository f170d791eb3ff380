"""What createAcls, deleteAcls and acls refuse, in Kafka's order and words (KIP-140, KIP-290, KIP-1276).

Kafka spreads these checks over four layers (wire, binding, AclApis, AclControlManager) and fails the whole request in
the first two. Klamm refuses the one entry with INVALID_REQUEST instead, in the same order and with the same text unless
Kafka's text quotes its wire format. The order: what can't be kept at all; filter words (ANY, MATCH) where a
concrete one is needed; resource name; UNKNOWN words; principal; host.
"""

import re
from datetime import datetime
from functools import cache, lru_cache

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import ApiException, InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_cidr

MAX_TEXT_BYTES = 32_767
"""The longest resource name, principal or host, in UTF-8 bytes: what Kafka's wire format can carry."""

MAX_OWNER, MAX_COMMENT = 200, 500
"""Characters."""

_CLUSTER = ResourceType.CLUSTER

# Line ends, terminal controls, and lone surrogates.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def validate_new_acl(binding: AclBinding) -> ApiException | None:
    refusal = _refusal_of_acl(binding)
    return None if refusal is None else InvalidRequestException(refusal)


def refusal_of_texts(resource_type: int, name: str, principal: str, host: str) -> str | None:
    """Why no stored ACL of this type has these texts: none was ever created or imported with them."""
    return (
        _unkeepable("resourceName", name)
        or _unkeepable("principal", principal)
        or _unkeepable("host", host)
        or _bad_name(resource_type, name)
        or _bad_principal(principal)
        or _bad_host(host)
    )


def validate_terms(acl: NewAcl) -> ApiException | None:
    """Why an ACL can't have these terms, or None. Only the store's clock says whether it has ended already."""
    refusal = _refusal_of_terms(acl)
    return None if refusal is None else InvalidRequestException(refusal)


def check_comment(comment: str | None) -> None:
    """Raises InvalidRequestException if this can't be kept in records."""
    if comment is not None:
        refusal = _bad_remark("comment", comment, MAX_COMMENT)
        if refusal is not None:
            raise InvalidRequestException(refusal)


def validate_filter(acl_filter: AclBindingFilter) -> ApiException | None:
    """Why this filter can't be used to list or delete, or None. A filter that matches nothing is fine."""
    refusal = _refusal_of_filter(acl_filter)
    return None if refusal is None else InvalidRequestException(refusal)


def _refusal_of_acl(binding: AclBinding) -> str | None:
    resource_type, name, pattern_type, principal, host, operation, permission_type = binding
    filter_word, unknown_word = _bad_words(resource_type, pattern_type, operation, permission_type)
    return (
        _unkeepable("resourceName", name)
        or _unkeepable("principal", principal)
        or _unkeepable("host", host)
        or filter_word
        or _bad_name(resource_type, name)
        or unknown_word
        or _bad_principal(principal)
        or _bad_host(host)
    )


def _refusal_of_filter(acl_filter: AclBindingFilter) -> str | None:
    refusal = (
        _unkeepable("resourceNameFilter", acl_filter.resource_name)
        or _unkeepable("principalFilter", acl_filter.principal)
        or _unkeepable("hostFilter", acl_filter.host)
    )
    if refusal is not None:
        return refusal
    if acl_filter.resource_type is ResourceType.UNKNOWN or acl_filter.pattern_type is PatternType.UNKNOWN:
        return "Unknown patternFilter."
    if acl_filter.operation is AclOperation.UNKNOWN or acl_filter.permission_type is AclPermissionType.UNKNOWN:
        return "Unknown entryFilter."
    return None


def _refusal_of_terms(acl: NewAcl) -> str | None:
    if isinstance(acl.expires_at, datetime) and acl.expires_at.microsecond:
        return "expires_at must be a whole second; send it without a fraction"
    return refusal_of_owner(acl.owner) if isinstance(acl.owner, str) else None


def refusal_of_owner(owner: str) -> str | None:
    return _bad_remark("owner", owner, MAX_OWNER)


def _bad_remark(field: str, text: str, longest: int) -> str | None:
    if not text.strip():
        return f"{field} must not be empty; leave it out, or send null"
    if len(text) > longest:
        return f"{field} has {len(text)} characters, but may have at most {longest}"
    found = _CONTROL.search(text)
    if found is not None:
        return f"{field} contains U+{ord(found[0]):04X}, which is not allowed; send plain text on a single line"
    return None


def _unkeepable(field: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return f"'{field}' field contains an unpaired surrogate, which can't be stored; remove it"
    if size > MAX_TEXT_BYTES:
        return f"'{field}' field is too long to be serialized"
    if "\0" in text:
        return f"'{field}' field contains U+0000, which can't be stored; remove it"
    return None


@cache  # bounded: Kafka has 2,560 such four
def _bad_words(
    resource_type: ResourceType, pattern_type: PatternType, operation: AclOperation, permission_type: AclPermissionType
) -> tuple[str | None, str | None]:
    """Why these words are refused: one that only filters have, and an unknown one."""
    filter_word = unknown_word = None
    if resource_type is ResourceType.ANY:
        filter_word = "resourceType must not be ANY"
    elif pattern_type is PatternType.ANY or pattern_type is PatternType.MATCH:
        filter_word = f"patternType must not be {pattern_type.name}"
    elif operation is AclOperation.ANY:
        filter_word = "operation must not be ANY"
    elif permission_type is AclPermissionType.ANY:
        filter_word = "permissionType must not be ANY"
    if resource_type is ResourceType.UNKNOWN:
        unknown_word = "Invalid resourceType UNKNOWN"
    elif pattern_type is PatternType.UNKNOWN:
        unknown_word = "Invalid patternType UNKNOWN"
    elif operation is AclOperation.UNKNOWN:
        unknown_word = "Invalid operation UNKNOWN"
    elif permission_type is AclPermissionType.UNKNOWN:
        unknown_word = "Invalid permissionType UNKNOWN"
    return filter_word, unknown_word


def _bad_name(resource_type: int, name: str) -> str | None:
    if name != CLUSTER_NAME and resource_type == _CLUSTER:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    return None if name else "Invalid empty resource name"


def _bad_principal(principal: str) -> str | None:
    if ":" in principal:
        return None
    return (
        f"Could not parse principal from `{principal}` "
        "(no colon is present separating the principal type from the principal name)"
    )


@lru_cache(maxsize=1_024)
def _bad_host(host: str) -> str | None:
    if not host:
        return "Host pattern cannot be null or empty"
    if "/" in host:
        try:
            parse_cidr(host)
        except InvalidRequestException as refusal:
            return refusal.message
    return None
