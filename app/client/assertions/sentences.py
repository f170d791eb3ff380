"""Assertions as people write them: `nobody but User:a, User:b may READ topic:pii.* from 10.0.0.0/8`.

Commas separate the entries of a list; one within a word belongs to it, as in `User:CN=a,OU=b`. Text in double quotes is
taken as it is. An unquoted `*` at the end of a name stands for all names with that prefix. Faults are UsageErrors.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from app.client.groups import groups_named
from app.client.words import operation_named, principal_named, resource_named
from app.core.access.assertions import Assertion
from app.core.access.host_keys import NOBODY, address_within, host_key
from app.core.access.regions import Region
from app.core.kafka.codes import CLUSTER_NAME, WILDCARD, WILDCARD_PRINCIPAL, AclOperation, PatternType, ResourceType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import supported_operations
from app.core.kafka.validation import MAX_TEXT_BYTES
from app.core.readable import backticked
from app.core.spelling import did_you_mean
from app.formats.command_errors import UsageError

NOBODY_BUT, EVERYBODY_BUT = "nobody", "everybody"
SHAPE = "SUBJECT [with groups NAME] may [not] OPERATION TYPE:NAME [from HOST]"
MOST_TOGETHER = 10_000
"""Principals, resources and hosts of one sentence, multiplied."""

_MAX_SHOWN = 200
_WORD = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^\s"])+')
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|([^"]+)')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TWO_IN_ONE = re.compile(r",[A-Za-z][A-Za-z_-]*:")
_KEYWORDS = ("may", "not", "from", "but", "with", "groups")
_NO_WORDS = ("and", "or", "on", "in", "to")


@dataclass(frozen=True, slots=True)
class Word:
    """`text` is without its quotes; `is_bare` if there were none, `ends_bare` if none were at its end."""

    text: str
    is_bare: bool = True
    ends_bare: bool = True
    goes_on: bool = False
    """Whether a comma followed it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A sentence before it is multiplied out. Without principals and others it is about nobody: a fault."""

    principals: Sequence[Word]
    others: bool
    allowed: bool
    operations: Sequence[Word]
    resources: Sequence[Word]
    hosts: Sequence[Word] = ()
    groups: Sequence[Word] = ()


def parse_sentence(text: str) -> tuple[Assertion, ...]:
    """Raises UsageError."""
    return assertions_of(_Reader(words_of(text)).parts())


def words_of(text: str) -> list[Word]:
    """Raises UsageError for a quote that is not closed."""
    words, at = [], 0
    for found in _WORD.finditer(text):
        if text[at : found.start()].strip():
            break
        at = found.end()
        words.append(word_of(found[0].removesuffix(","), goes_on=found[0].endswith(",")))
    if text[at:].strip():
        raise UsageError(f"`{text[at:].strip()[:_MAX_SHOWN]}`: unclosed quote")
    return words


def word_of(raw: str, *, goes_on: bool = False) -> Word:
    """All of it as one word. Raises UsageError."""
    pieces = list(_PIECE.finditer(raw))
    if not pieces or "".join(each[0] for each in pieces) != raw:
        raise UsageError(f"{_said(raw)}: unclosed quote" if raw else "there is nothing before a comma")
    text = "".join(each[2] if each[1] is None else _ESCAPED.sub(r"\1", each[1]) for each in pieces)
    bare = [each[1] is None for each in pieces]
    word = Word(text, all(bare), bare[-1], goes_on)
    if word.is_bare and _TWO_IN_ONE.search(text) is not None:
        raise UsageError(
            f"{_said(text)}: put a space after the comma if these are two names, or quotes around it if it is one"
        )
    return word


class _Reader:
    def __init__(self, words: Sequence[Word]) -> None:
        self._words = words
        self._at = 0

    def parts(self) -> Parts:
        others, allowed, principals = self._subject()
        groups = self._groups() if self._take("with") else []
        self._expect("may")
        if self._take("not"):
            if others:
                other = NOBODY_BUT if allowed else EVERYBODY_BUT
                raise UsageError(f"this is ambiguous; write `{other} may ...`")
            allowed = False
        operations = self._list("an operation", split=True)
        resources = self._list("a resource, such as topic:orders")
        hosts = self._list("a host, such as 10.1.2.3 or 10.0.0.0/8", split=True) if self._take("from") else []
        if self._at < len(self._words):
            raise self._strange("the sentence should end before it")
        return Parts(principals, others, allowed, operations, resources, hosts, groups)

    def _groups(self) -> list[Word]:
        self._expect("groups")
        return self._list("a group, such as eng-data")

    def _subject(self) -> tuple[bool, bool, list[Word]]:
        if not self._words:
            raise UsageError(f"the sentence is empty; write {SHAPE}")
        for word, allowed in ((NOBODY_BUT, False), (EVERYBODY_BUT, True)):
            if self._take(word):
                return True, allowed, self._list("a principal, such as User:alice") if self._take("but") else []
        first = self._words[0]
        if ":" not in first.text:
            meant = did_you_mean(first.text[:_MAX_SHOWN], (NOBODY_BUT, EVERYBODY_BUT))
            raise UsageError(
                f"{_said(first.text)} is not a principal; begin with a principal such as User:alice, with "
                f"nobody or with everybody{meant}"
            )
        return False, True, self._list("a principal, such as User:alice")

    def _list(self, what: str, *, split: bool = False) -> list[Word]:
        """With `split` no entry can contain a comma, so commas need no blank after them."""
        found: list[Word] = []
        while self._at < len(self._words):
            word = self._words[self._at]
            if word.is_bare and word.text in _KEYWORDS:
                break
            if word.is_bare and word.text in _NO_WORDS:
                raise self._strange("")
            self._at += 1
            parts = word.text.split(",") if split and word.is_bare else [word.text]
            found += [Word(each, word.is_bare, word.ends_bare) for each in parts]
            if not word.goes_on:
                return found
        before = f"after `{self._words[self._at - 1].text[:_MAX_SHOWN]}`" if self._at else "at the beginning"
        raise UsageError(f"{before} {what} is missing; write {SHAPE}")

    def _take(self, keyword: str) -> bool:
        is_next = self._at < len(self._words) and self._words[self._at] == Word(keyword)
        self._at += is_next
        return is_next

    def _expect(self, keyword: str) -> None:
        if not self._take(keyword):
            raise self._strange(f"expected `{keyword}` here")

    def _strange(self, why: str) -> UsageError:
        if self._at >= len(self._words):
            return UsageError(f"the sentence ends too early: {why}; write {SHAPE}")
        word = self._words[self._at].text
        if word in ("and", "or"):
            return UsageError(f"`{word}` is ambiguous; use commas, or write a separate sentence")
        if word in _NO_WORDS:
            return UsageError(f"unexpected word `{word}`; write {SHAPE}")
        return UsageError(f"{_said(word)}: {why}; write {SHAPE}{did_you_mean(word[:_MAX_SHOWN], _KEYWORDS)}")


def assertions_of(parts: Parts) -> tuple[Assertion, ...]:
    """One assertion for each resource and host. Raises UsageError."""
    principals = tuple(dict.fromkeys(_principal(each) for each in parts.principals))
    resources = list(dict.fromkeys(_resource(each) for each in parts.resources))
    hosts = list(dict.fromkeys(_host(each.text) for each in parts.hosts)) or [WILDCARD]
    if len(principals or "1") * len(resources) * len(hosts) > MOST_TOGETHER:
        raise UsageError(
            f"more than {MOST_TOGETHER} combinations of principals, resources and hosts; split it into several "
            "sentences"
        )
    operations = [operation_named(each.text) for each in parts.operations]
    groups = groups_named((each.text for each in parts.groups), "with groups")
    if groups and parts.others:
        raise UsageError("groups need named principals; for a whole group write Group:NAME")
    return tuple(
        Assertion(
            allowed=parts.allowed,
            principals=principals,
            others=parts.others,
            operations=_asked(operations, resource_type),
            resource_type=resource_type,
            pattern_type=pattern_type,
            resource_name=name,
            host=host,
            groups=groups,
        )
        for (resource_type, pattern_type, name), host in product(resources, hosts)
    )


def _check_length(text: str) -> None:
    """Refuses what no ACL and no request can have."""
    size = len(text.encode(errors="replace"))
    if size > MAX_TEXT_BYTES:
        raise UsageError(f"{_said(text)}: a name of {size:,} bytes; Kafka's have {MAX_TEXT_BYTES:,} at most")


def _principal(word: Word) -> str:
    _check_length(word.text)
    principal = principal_named(word.text)
    if not _has_type(principal):
        raise UsageError(f"{_said(word.text)} is a principal without a type; write one such as User:alice")
    if principal == WILDCARD_PRINCIPAL:
        raise UsageError(f"`{WILDCARD_PRINCIPAL}` stands for all principals in ACLs; write everybody, or nobody")
    return principal


def _resource(word: Word) -> tuple[ResourceType, PatternType, str]:
    resource_type, name = resource_named(word.text)
    _check_length(name)
    _check_askable(resource_type, name, word.text)
    if not word.ends_bare:
        if name == WILDCARD:
            raise UsageError(
                "`*` in quotes: no ACL can be on the single name *, as Kafka reads it as all names; leave out the "
                "quotes"
            )
        return resource_type, PatternType.LITERAL, name
    if "*" in name[:-1]:
        raise UsageError(
            f"{_said(word.text)}: * is only allowed at the end, for all names with that prefix; put a name "
            'that contains * in quotes, such as topic:"a*b"'
        )
    if name != WILDCARD and name.endswith("*"):
        return resource_type, PatternType.PREFIXED, name[:-1]
    return resource_type, PatternType.LITERAL, name


def _check_askable(resource_type: ResourceType, name: str, text: str) -> None:
    """Refuses what no request can be about: nothing would be allowed on it whatever the ACLs say."""
    if resource_type is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise UsageError(f"{_said(text)}: the cluster is always called {CLUSTER_NAME}; write cluster")
    if resource_type is ResourceType.USER and name != WILDCARD and not _has_type(name):
        raise UsageError(
            f"{_said(text)}: {_said(name)} is a principal without a type; write one such as "
            "user:User:alice, or user:* for all"
        )


def _said(text: str) -> str:
    return backticked(text, _MAX_SHOWN)


def _has_type(principal: str) -> bool:
    return principal.find(":") > 0


def _host(text: str) -> str:
    host = text
    if text != WILDCARD and "/" not in text:
        try:
            host = parse_address(text).text
        except InvalidRequestException:
            raise _no_host(text) from None
    key = host_key(host)
    if key == NOBODY or address_within(Region(key)) is None:
        raise _no_host(text)
    return host


def _no_host(text: str) -> UsageError:
    return UsageError(
        f"{_said(text)} is not a client address; write one such as 10.1.2.3, or a range such as 10.0.0.0/8"
    )


def _asked(operations: Iterable[AclOperation], resource_type: ResourceType) -> tuple[AclOperation, ...]:
    known = supported_operations(resource_type)
    found: dict[AclOperation, None] = {}
    for each in operations:
        if each is not AclOperation.ALL and each not in known:
            raise UsageError(
                f"{each.name} is not an operation of {resource_type.name}; it has "
                f"{', '.join(one.name for one in known)}"
            )
        found.update(dict.fromkeys(known if each is AclOperation.ALL else (each,)))
    return tuple(found)
