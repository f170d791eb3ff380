"""ACLs, their terms and filters as the fields that REST's bodies have for them."""

from enum import Enum

from app.core.kafka.bindings import KEEP, AclBinding, AclTerms, NewAcl, rfc3339
from app.core.kafka.filters import AclBindingFilter


def binding_body(binding: AclBinding) -> dict[str, str]:
    return dict(zip(AclBinding._fields, binding.words, strict=True))


def terms_body(terms: AclTerms) -> dict[str, str | None]:
    return {"expires_at": None if terms.expires_at is None else rfc3339(terms.expires_at), "owner": terms.owner}


def acl_body(acl: NewAcl) -> dict[str, str | None]:
    """The binding, and the terms that are said."""
    return {**binding_body(acl.binding), **terms_of(acl)}


def filter_body(acl_filter: AclBindingFilter) -> dict[str, str | None]:
    fields = ((name, getattr(acl_filter, name)) for name in AclBindingFilter.__dataclass_fields__)
    return {name: each.name if isinstance(each, Enum) else each for name, each in fields}


def terms_of(acl: NewAcl) -> dict[str, str | None]:
    """Those that are said, as JSON has them."""
    terms: dict[str, str | None] = {}
    if acl.expires_at is not KEEP:
        terms["expires_at"] = None if acl.expires_at is None else rfc3339(acl.expires_at)
    if acl.owner is not KEEP:
        terms["owner"] = acl.owner
    return terms
