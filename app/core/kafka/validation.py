"""What createAcls, deleteAcls and acls refuse, in Kafka's order and words (KIP-140, KIP-290, KIP-1276).

Kafka spreads these checks over four layers (wire, binding, AclApis, AclControlManager) and fails the whole request in
the first two. Klamm refuses the one entry with INVALID_REQUEST instead, in the same order and with the same text where
Kafka's text does not quote its wire format. The order: what can't be kept at all; filter words (ANY, MATCH) where a
concrete one is needed; resource name; UNKNOWN words; principal; host.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import ApiException, InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_cidr

MAX_TEXT_BYTES = 32_767
"""The longest resource name, principal or host, in UTF-8 bytes: what Kafka's wire format can carry."""

MAX_OWNER, MAX_COMMENT = 200, 500
"""Characters."""

# What ends a line, what steers a terminal, and halves of surrogate pairs.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def validate_new_acl(binding: AclBinding) -> ApiException | None:
    refusal = next(_refusals_of_acl(binding), None)
    return None if refusal is None else InvalidRequestException(refusal)


def validate_terms(acl: NewAcl) -> ApiException | None:
    """Why an ACL can't have these terms, or None. Whether it has ended already is for the store's clock to say."""
    refusal = next(_refusals_of_terms(acl), None)
    return None if refusal is None else InvalidRequestException(refusal)


def check_comment(comment: str | None) -> None:
    """Raises InvalidRequestException if this can't be kept in records."""
    if comment is not None:
        refusal = next(_bad_remark("comment", comment, MAX_COMMENT), None)
        if refusal is not None:
            raise InvalidRequestException(refusal)


def validate_filter(acl_filter: AclBindingFilter) -> ApiException | None:
    """Why this filter can't be asked or deleted by, or None. A filter that matches nothing is fine."""
    refusal = next(_refusals_of_filter(acl_filter), None)
    return None if refusal is None else InvalidRequestException(refusal)


def _refusals_of_acl(binding: AclBinding) -> Iterator[str]:
    yield from _unkeepable("resourceName", binding.resource_name)
    yield from _unkeepable("principal", binding.principal)
    yield from _unkeepable("host", binding.host)
    yield from _filter_words(binding)
    yield from _bad_name(binding)
    yield from _unknown_words(binding)
    if ":" not in binding.principal:
        yield (
            f"Could not parse principal from `{binding.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    yield from _bad_host(binding.host)


def _refusals_of_filter(acl_filter: AclBindingFilter) -> Iterator[str]:
    yield from _unkeepable("resourceNameFilter", acl_filter.resource_name)
    yield from _unkeepable("principalFilter", acl_filter.principal)
    yield from _unkeepable("hostFilter", acl_filter.host)
    if acl_filter.resource_type is ResourceType.UNKNOWN or acl_filter.pattern_type is PatternType.UNKNOWN:
        yield "Unknown patternFilter."
    if acl_filter.operation is AclOperation.UNKNOWN or acl_filter.permission_type is AclPermissionType.UNKNOWN:
        yield "Unknown entryFilter."


def _refusals_of_terms(acl: NewAcl) -> Iterator[str]:
    if isinstance(acl.expires_at, datetime) and acl.expires_at.microsecond:
        yield "expires_at must be a whole second; send it without a fraction"
    if isinstance(acl.owner, str):
        yield from refusals_of_owner(acl.owner)


def refusals_of_owner(owner: str) -> Iterator[str]:
    yield from _bad_remark("owner", owner, MAX_OWNER)


def _bad_remark(field: str, text: str, longest: int) -> Iterator[str]:
    if not text.strip():
        yield f"{field} must not be empty; leave it out, or say null"
    if len(text) > longest:
        yield f"{field} has {len(text)} characters, and may have {longest}"
    found = _CONTROL.search(text)
    if found is not None:
        yield f"{field} contains U+{ord(found[0]):04X}, which is no text; send it without, in one line"


def _unkeepable(field: str, text: str | None) -> Iterator[str]:
    if text is None:
        return
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        yield f"'{field}' field contains half of a surrogate pair, which can't be stored; send it without"
    else:
        if size > MAX_TEXT_BYTES:
            yield f"'{field}' field is too long to be serialized"
        if "\0" in text:
            yield f"'{field}' field contains U+0000, which can't be stored; send it without"


def _filter_words(binding: AclBinding) -> Iterator[str]:
    if binding.resource_type is ResourceType.ANY:
        yield "resourceType must not be ANY"
    if binding.pattern_type in (PatternType.ANY, PatternType.MATCH):
        yield f"patternType must not be {binding.pattern_type.name}"
    if binding.operation is AclOperation.ANY:
        yield "operation must not be ANY"
    if binding.permission_type is AclPermissionType.ANY:
        yield "permissionType must not be ANY"


def _bad_name(binding: AclBinding) -> Iterator[str]:
    if binding.resource_type is ResourceType.CLUSTER and binding.resource_name != CLUSTER_NAME:
        yield f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not binding.resource_name:
        yield "Invalid empty resource name"


def _unknown_words(binding: AclBinding) -> Iterator[str]:
    if binding.resource_type is ResourceType.UNKNOWN:
        yield "Invalid resourceType UNKNOWN"
    if binding.pattern_type is PatternType.UNKNOWN:
        yield "Invalid patternType UNKNOWN"
    if binding.operation is AclOperation.UNKNOWN:
        yield "Invalid operation UNKNOWN"
    if binding.permission_type is AclPermissionType.UNKNOWN:
        yield "Invalid permissionType UNKNOWN"


def _bad_host(host: str) -> Iterator[str]:
    if not host:
        yield "Host pattern cannot be null or empty"
    if "/" in host:
        try:
            parse_cidr(host)
        except InvalidRequestException as refusal:
            yield refusal.message
