"""Kafka's words as operators type them: `READ`, `Read`, `describe-configs`, `topic:orders`. All raise UsageError."""

import argparse
import re
from typing import TypeVar

from app.core.kafka.codes import CLUSTER_NAME, AclOperation, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import parse_address
from app.core.kafka.validation import MAX_COMMENT, check_comment
from app.core.readable import backticked
from app.core.spelling import did_you_mean
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError

_Word = TypeVar("_Word", ResourceType, AclOperation)

_MAX_SHOWN = 100
_NEVER_MEANT = ("UNKNOWN", "ANY")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def counted(acls: int, kind: str = "ACL") -> str:
    return f"{acls} {kind}" if acls == 1 else f"{acls} {kind}s"


def harmless(text: str) -> str:
    r"""For terminals: characters that can't be printed are escaped, such as `\x1b`."""
    return one_line(text, len(text))


def utf_8(text: str) -> str:
    """The text. Raises UsageError if it came from the command line in another encoding."""
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        raise UsageError(f"`{text[:_MAX_SHOWN]}` is not UTF-8; type it in a terminal with a UTF-8 locale")
    return text


def operation_named(text: str) -> AclOperation:
    return _named(AclOperation, "operation", text)


def find_operation(text: str) -> AclOperation | None:
    """None if it is none. It raises nothing."""
    return _member(AclOperation, text)


def resource_named(text: str) -> tuple[ResourceType, str]:
    """Type and name of `topic:orders`, `user:User:bob` or `topic:*`; `cluster` needs no name. Raises UsageError."""
    word, colon, name = text.partition(":")
    if not colon and word.lower() == "cluster":
        return ResourceType.CLUSTER, CLUSTER_NAME
    if not colon or not name:
        raise UsageError(
            f"{backticked(text, _MAX_SHOWN)} is not a resource; write its type and name, such as topic:orders"
        )
    return _named(ResourceType, "resource type", word), utf_8(name)


def principal_named(text: str) -> str:
    """Raises UsageError if it has no type before a colon."""
    if ":" not in text:
        raise UsageError(f"{backticked(text, _MAX_SHOWN)} is not a principal; write type and name, such as User:alice")
    return utf_8(text)


def host_named(text: str) -> str:
    """The address of --host as Kafka compares it. Raises UsageError."""
    try:
        return parse_address(text).text
    except InvalidRequestException:
        raise UsageError(
            f"--host: {backticked(text, _MAX_SHOWN)} is not an IP address; use one such as 10.1.2.3 or 2001:db8::1"
        ) from None


def comment_of(text: str) -> str:
    """The text of --comment, for the records of a change. Raises UsageError."""
    try:
        return _comment(text)
    except argparse.ArgumentTypeError as refusal:
        raise UsageError(f"--comment: {refusal}") from None


def _comment(text: str) -> str:
    try:
        check_comment(utf_8(text))
    except InvalidRequestException as refusal:
        raise argparse.ArgumentTypeError(refusal.message.replace("comment ", "it ", 1)) from None
    except UsageError as refusal:
        raise argparse.ArgumentTypeError(str(refusal)) from None
    return text


def add_comment_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--comment",
        metavar="TEXT",
        type=_comment,
        help=f"the reason, such as a ticket; up to {MAX_COMMENT} characters, kept with each change",
    )


def _named(words: type[_Word], what: str, text: str) -> _Word:
    member = _member(words, text)
    if member is None:
        known = [each.name for each in words if each.name not in _NEVER_MEANT]
        raise UsageError(
            f"{backticked(text, _MAX_SHOWN)} is not a Kafka {what}; use one of "
            f"{', '.join(known)}{did_you_mean(text[:_MAX_SHOWN], known)}"
        )
    return member


def _member(words: type[_Word], text: str) -> _Word | None:
    # No word is longer, whatever its case.
    text = text.strip()[:_MAX_SHOWN]
    member = words.__members__.get(_HUMP.sub("_", text).replace("-", "_").upper())
    return None if member is None or member.name in _NEVER_MEANT else member
