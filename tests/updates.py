"""Short words for the updates that tests of the store say often."""

from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import AlterConfigs, CreateAcls, CreateAclsOutcome, CreatedAcl, DeleteAcls, DeleteAclsOutcome
from app.core.records import Record

ACTOR = "User:admin"


def topic(name: str, principal: str = "User:alice", pattern_type: PatternType = PatternType.LITERAL) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, pattern_type, principal, "*", AclOperation.READ, AclPermissionType.ALLOW
    )


def create(*bindings: AclBinding) -> CreateAcls:
    return CreateAcls(bindings, ACTOR)


def delete(*filters: AclBindingFilter) -> DeleteAcls:
    return DeleteAcls(filters, ACTOR)


def alter(*changes: tuple[str, str | None]) -> AlterConfigs:
    return AlterConfigs(changes, ACTOR)


def created(outcome: object) -> list[CreatedAcl]:
    assert isinstance(outcome, CreateAclsOutcome), outcome
    return list(outcome.results)


def matches(outcome: object) -> list[list[StandardAcl]]:
    assert isinstance(outcome, DeleteAclsOutcome), outcome
    return [list(found) for found in outcome.matches]


def said(record: Record) -> tuple[str, object]:
    """The kind of a record and what it is about."""
    about = record.name if hasattr(record, "name") else record.acl.binding
    return type(record).__name__, about
