"""One entry of a file of ACLs, as every format yields it, and how words and texts become a binding."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.validation import validate_new_acl
from app.core.spelling import printable

Entry: TypeAlias = tuple[int, AclBinding | Sequence[str]]
"""The number of the line where it begins, and the binding, or else all that is wrong, each naming its field."""

MAX_SHOWN = 200


class FormatLimitError(Exception):
    """A format can't express an ACL; the message names the ACL and the limit. Nothing was written."""

    def __init__(self, binding: AclBinding, limit: str) -> None:
        super().__init__(f"{limit}: {shown(binding)}")
        self.binding = binding


_Word = TypeVar("_Word", ResourceType, PatternType, AclOperation, AclPermissionType)


def binding_of(  # noqa: PLR0913 - a binding has seven fields
    *,
    resource_type: str,
    resource_name: str,
    pattern_type: str,
    principal: str,
    host: str,
    operation: str,
    permission_type: str,
) -> AclBinding | list[str]:
    """The binding, or why createAcls would refuse it (`core.kafka.validation`)."""
    problems: list[str] = []
    binding = AclBinding(
        _word(ResourceType, "resource_type", resource_type, problems),
        resource_name,
        _word(PatternType, "pattern_type", pattern_type, problems),
        principal,
        host,
        _word(AclOperation, "operation", operation, problems),
        _word(AclPermissionType, "permission_type", permission_type, problems),
    )
    if problems:
        return problems
    refusal = validate_new_acl(binding)
    return binding if refusal is None else [refusal.message]


def binding_from(fields: Mapping[str, str], **called: str) -> AclBinding | list[str]:
    """The same for a file with other names for some of the seven fields: `permission_type="permission"`."""
    return binding_of(**{name: fields[called.get(name, name)] for name in AclBinding.__dataclass_fields__})


def shown(binding: AclBinding) -> str:
    """The binding on one line, for errors; harmless to a terminal."""
    b = binding
    text = (
        f"{b.permission_type.name} {b.principal} from {b.host} {b.operation.name} on {b.resource_type.name} "
        f"{b.pattern_type.name} {b.resource_name}"
    )
    return printable(text, 2 * MAX_SHOWN)


def _word(words: type[_Word], field: str, word: str, problems: list[str]) -> _Word:
    member = words.__members__.get(word)
    if member is None:
        known = ", ".join(each.name for each in words if each.name not in ("UNKNOWN", "ANY", "MATCH"))
        problems.append(f"`{field}`: `{word[:MAX_SHOWN]}` is none of Kafka's words; write one of {known}")
        return words(0)
    return member
