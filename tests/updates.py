"""Short words for the updates that tests of the store say often."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.core.kafka.bindings import NO_TERMS, AclBinding, AclTerms, NewAcl, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import ApiException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import AlterConfigs, CreateAcls, CreateAclsOutcome, CreatedAcl, DeleteAcls, DeleteAclsOutcome
from app.core.records import Record

ACTOR = "User:admin"


def topic(name: str, principal: str = "User:alice", pattern_type: PatternType = PatternType.LITERAL) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, pattern_type, principal, "*", AclOperation.READ, AclPermissionType.ALLOW
    )


def binding(said: Mapping[str, Any]) -> AclBinding:
    """The ACL that `acl` of tests/klamm.py tells as a request's body does."""
    return AclBinding(
        ResourceType[said["resource_type"]],
        said["resource_name"],
        PatternType[said.get("pattern_type", "LITERAL")],
        said["principal"],
        said.get("host", "*"),
        AclOperation[said["operation"]],
        AclPermissionType[said["permission_type"]],
    )


def new(entries: Iterable[AclBinding | ApiException]) -> list[Any]:
    """As createAcls takes them: refusals as they are, bindings without a word about their terms."""
    return [NewAcl(entry) if isinstance(entry, AclBinding) else entry for entry in entries]


def unending(bindings: Iterable[AclBinding]) -> tuple[NewAcl, ...]:
    """ACLs that say that they have no end and no owner."""
    return tuple(NewAcl(each, None, None) for each in bindings)


def wanted(bindings: Iterable[AclBinding]) -> dict[AclBinding, NewAcl]:
    """As files want them that say nothing of terms."""
    return {each: NewAcl(each) for each in bindings}


def termless(bindings: Iterable[AclBinding]) -> dict[AclBinding, AclTerms]:
    """As a service has them."""
    return dict.fromkeys(bindings, NO_TERMS)


def create(*bindings: AclBinding) -> CreateAcls:
    return CreateAcls(new(bindings), ACTOR)


def delete(*filters: AclBindingFilter) -> DeleteAcls:
    return DeleteAcls(filters, ACTOR)


def alter(*changes: tuple[str, str | None]) -> AlterConfigs:
    return AlterConfigs(changes, ACTOR)


def created(outcome: object) -> list[CreatedAcl]:
    assert isinstance(outcome, CreateAclsOutcome), outcome
    return [each for each in outcome.results if isinstance(each, CreatedAcl)]


def matches(outcome: object) -> list[list[StandardAcl]]:
    assert isinstance(outcome, DeleteAclsOutcome), outcome
    return [list(found) for found in outcome.matches if not isinstance(found, ApiException)]


def said(record: Record) -> tuple[str, object]:
    """The kind of a record and what it is about."""
    about = record.name if hasattr(record, "name") else record.acl.binding
    return type(record).__name__, about
