"""A question as a visitor types it: `User:bob (groups eng, pii) WRITE topic:orders from 10.1.2.3`."""

import re
from itertools import pairwise

from app.client.explanations import Asked
from app.client.groups import groups_named
from app.client.words import find_operation, operation_named, principal_named, resource_named
from app.console.shown import type_word
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import parse_address
from app.core.readable import backticked, readable
from app.formats.command_errors import UsageError

DEFAULT_HOST = "127.0.0.1"
MAX_QUESTION = 4_000
"""Characters."""
MAX_WORDS = 250
"""A principal may be in 200 groups, and names may contain blanks."""
_FROM = re.compile(r"\sfrom\s+(\S+)\s*\Z", re.IGNORECASE)
_TYPES = {type_word(each.name) for each in ResourceType if each > ResourceType.ANY}
_WORDS = re.compile(r"\S+")
_GROUPS = re.compile(r"\s\(groups?\s", re.IGNORECASE)
_SHOWN = 100


def asked(line: str) -> tuple[Asked, bool]:
    """The question, and whether it names an address; if not, it is asked from loopback. Raises UsageError."""
    if len(line) > MAX_QUESTION:
        raise UsageError(
            f"the question has {len(line):,} characters, and {MAX_QUESTION:,} are the most; use `klamm why`"
        )
    host, named = _FROM.search(line), line
    if host is not None:
        named = line[: host.start()]
    who, operation, resource = _parts(named.strip())
    principal, groups = _in_groups(who)
    if ":" not in principal:
        raise _untyped(principal)
    resource_type, name = resource_named(resource)
    address = DEFAULT_HOST if host is None else host[1]
    try:
        parse_address(address)
    except InvalidRequestException as refusal:
        raise UsageError(f"after `from`: {refusal.message}") from None
    question = Asked(principal_named(principal), operation_named(operation), resource_type, name, address, groups)
    return question, host is not None


def resource_of(question: Asked) -> str:
    return f"{type_word(question.resource_type.name)}:{question.resource_name}"


def line_of(question: Asked) -> str:
    groups = f" (groups {', '.join(question.groups)})" if question.groups else ""
    return f"{question.principal}{groups} {question.operation.name} {resource_of(question)} from {question.host}"


def _in_groups(who: str) -> tuple[str, tuple[str, ...]]:
    """The principal, and the groups behind it. Raises UsageError."""
    begins = _GROUPS.search(who)
    if begins is None:
        return who, ()
    if not who.endswith(")"):
        raise _open_bracket()
    groups = groups_in(who[begins.end() : -1], "after `(groups`")
    if not groups:
        raise UsageError("after `(groups`: name at least one group: User:bob (groups eng, pii)")
    return who[: begins.start()].strip(), groups


def groups_in(text: str, place: str) -> tuple[str, ...]:
    """`eng, pii`; `place` is where it was written. Raises UsageError."""
    return groups_named([name for each in text.split(",") if (name := each.strip())], place)


def _open_bracket() -> UsageError:
    return UsageError("`(groups` needs a closing bracket: User:bob (groups eng, pii) WRITE topic:orders")


def _parts(text: str) -> tuple[str, str, str]:
    """Principal, operation and resource. Principals and names may contain blanks, so the first operation followed by a
    resource tells where they end.
    """
    words, groups = list(_WORDS.finditer(text)), _GROUPS.search(text)
    if len(words) > MAX_WORDS:
        raise UsageError(f"the question has {len(words):,} words, and {MAX_WORDS} are the most; use `klamm why`")
    for last, (before, after) in zip(words, pairwise(words[1:]), strict=False):
        # A group's name may look like an operation with a resource, so a bracket must have been closed.
        is_open = groups is not None and groups.start() < last.start() and not last[0].endswith(")")
        if _is_operation(before[0]) and _is_resource(after[0]) and not is_open:
            return text[: before.start()].strip(), before[0], text[after.start() :]
    if groups is not None:
        _, closes, rest = text[groups.end() :].partition(")")
        if not closes:
            raise _open_bracket()
        words = list(_WORDS.finditer(text[: groups.start()] + rest))
    if words[2:] and not _is_operation(words[1][0]):
        operation_named(words[1][0])
    if words[2:]:
        resource_named(words[2][0])
    if words and ":" not in words[0][0]:
        raise _untyped(words[0][0])
    raise UsageError("say who, what, on which resource and from where: User:bob WRITE topic:orders from 10.1.2.3")


def _untyped(principal: str) -> UsageError:
    name = principal[:_SHOWN]
    return UsageError(f"{backticked(name)} is not a principal; write type and name, such as {readable(f'User:{name}')}")


def _is_operation(word: str) -> bool:
    return find_operation(word) not in (None, AclOperation.ALL)


def _is_resource(word: str) -> bool:
    return type_word(word.partition(":")[0]) in _TYPES
