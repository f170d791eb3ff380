"""Kafka's enum words as they stand in JSON, and the codes they mean."""

from typing import Annotated

from pydantic import WithJsonSchema

from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType

ENUM_DESCRIPTIONS = {
    ResourceType: "Kafka's resource types. ANY is for filters; UNKNOWN stands for a type from the future.",
    PatternType: "Kafka's pattern types (KIP-290). ANY and MATCH are for filters.",
    AclOperation: "Kafka's ACL operations. ANY is for filters; ALL stands for every operation in an ACL.",
    AclPermissionType: "Whether an ACL allows or denies. ANY is for filters.",
}


def _schema(enum: type[AclOperation | AclPermissionType | PatternType | ResourceType]) -> WithJsonSchema:
    # The document names these once, as components (`app.rest.openapi`); the body keeps any text, so that a word from
    # the future can be refused where it stands and not with the whole request.
    return WithJsonSchema({"type": "string", "title": enum.__name__, "enum": list(enum.__members__)})


ResourceTypeWord = Annotated[str, _schema(ResourceType)]
PatternTypeWord = Annotated[str, _schema(PatternType)]
AclOperationWord = Annotated[str, _schema(AclOperation)]
AclPermissionTypeWord = Annotated[str, _schema(AclPermissionType)]

OPERATION_CODES = {word: int(member) for word, member in AclOperation.__members__.items()}
RESOURCE_TYPE_CODES = {word: int(member) for word, member in ResourceType.__members__.items()}
LITERAL = PatternType.LITERAL.name


def unknown_word(word: str, codes: dict[str, int]) -> str:
    """What is wrong with a word that Kafka doesn't know, and which it does."""
    return f"`{word[:100]}` is none of Kafka's words; send one of {', '.join(codes)}"
