"""A question as one types it: `User:bob WRITE topic:orders from 10.1.2.3`."""

import re
from itertools import pairwise

from app.client.why import Asked
from app.client.words import operation_named, principal_named, resource_named
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import parse_address
from app.formats.command_errors import UsageError

DEFAULT_HOST = "127.0.0.1"
_FROM = re.compile(r"\sfrom\s+(\S+)\s*\Z", re.IGNORECASE)
_TYPES = {each.name.lower().replace("_", "-") for each in ResourceType if each > ResourceType.ANY}
_WORDS = re.compile(r"\S+")
_SHOWN = 100


def asked(line: str) -> tuple[Asked, bool]:
    """The question, and whether it names an address; else it is asked as from loopback. Raises UsageError."""
    host, named = _FROM.search(line), line
    if host is not None:
        named = line[: host.start()]
    principal, operation, resource = _parts(named.strip())
    if ":" not in principal:
        raise _untyped(principal)
    resource_type, name = resource_named(resource)
    address = DEFAULT_HOST if host is None else host[1]
    try:
        parse_address(address)
    except InvalidRequestException as refusal:
        raise UsageError(f"after `from`: {refusal.message}") from None
    question = Asked(principal_named(principal), operation_named(operation), resource_type, name, address)
    return question, host is not None


def line_of(question: Asked) -> str:
    resource = f"{question.resource_type.name.lower().replace('_', '-')}:{question.resource_name}"
    return f"{question.principal} {question.operation.name} {resource} from {question.host}"


def _parts(text: str) -> tuple[str, str, str]:
    """Principal, operation and resource. A principal and a name may have blanks in them, so the first operation with a
    resource behind it tells where they end.
    """
    words = list(_WORDS.finditer(text))
    for before, after in pairwise(words[1:]):
        if _is_operation(before[0]) and _is_resource(after[0]):
            return text[: before.start()].strip(), before[0], text[after.start() :]
    if len(words) > 2 and not _is_operation(words[1][0]):  # noqa: PLR2004 - who, what, on what
        operation_named(words[1][0])
    if len(words) > 2:  # noqa: PLR2004 - the same
        resource_named(words[2][0])
    if words and ":" not in words[0][0]:
        raise _untyped(words[0][0])
    raise UsageError("say who, what, on which resource and from where: User:bob WRITE topic:orders from 10.1.2.3")


def _untyped(principal: str) -> UsageError:
    name = principal[:_SHOWN]
    return UsageError(f"`{name}` is no principal; write type and name, such as User:{name}")


def _is_operation(word: str) -> bool:
    try:
        return operation_named(word) is not AclOperation.ALL
    except UsageError:
        return False


def _is_resource(word: str) -> bool:
    return word.partition(":")[0].lower().replace("_", "-") in _TYPES
