"""ACL sets and questions after facts measured on Kafka's own authorizer: realistic, nested, onetopic, cidr.

Seeded, so every run and every machine asks the same.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.core.kafka.bindings import AclRow
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType

_Key = tuple[int, int, int, int, str, str, str]

_TOPIC, _GROUP = int(ResourceType.TOPIC), int(ResourceType.GROUP)
_LITERAL, _PREFIXED = int(PatternType.LITERAL), int(PatternType.PREFIXED)
_ALLOW, _DENY = int(AclPermissionType.ALLOW), int(AclPermissionType.DENY)
_OPERATIONS = (int(AclOperation.READ), int(AclOperation.WRITE), int(AclOperation.DESCRIBE))
_STEMS = 1_261
_NESTED_NAMES = 200
_OWN, _UNKNOWN = 0.7, 0.25


@dataclass(frozen=True, slots=True)
class Question:
    """One action of one caller."""

    principal: str
    address: str
    operation: int
    resource_name: str


@dataclass(frozen=True, slots=True)
class Workload:
    """An ACL set in list order, and a way to draw questions about it."""

    name: str
    rows: list[AclRow]
    ask: Callable[[random.Random], Question]

    def questions(self, count: int, seed: int = 7) -> list[Question]:
        """So many questions, whose texts are objects of their own, as they are when they come from a socket."""
        draw = random.Random(seed)
        return [_fresh(self.ask(draw)) for _ in range(count)]


def realistic(size: int) -> Workload:
    """78 % literal topic ALLOW, 2 % literal topic DENY, 10 % groups, 10 % prefixes; about 100 ACLs a principal."""
    draw = random.Random(1)
    principals = [f"User:svc-{at:05d}" for at in range(max(10, size // 100))]
    topics = [_topic(at, size) for at in range(max(20, size // 5))]
    groups = [f"group-{at:06d}" for at in range(max(10, size // 10))]
    keys: set[_Key] = set()
    while len(keys) < size:
        keys.add(_realistic_key(draw, principals, topics, groups))
    rows = _in_list_order(keys)
    on_topics = [row for row in rows[:: max(1, size // 20_000)] if row[1] == _TOPIC]

    def ask(draw: random.Random) -> Question:
        row = draw.choice(on_topics)
        return _about(draw, row, row[6] if draw.random() < _OWN else draw.choice(principals))

    return Workload(f"realistic {size:,}", rows, ask)


MEMBER, ALONE = "User:member", "User:alone"
GROUPS = tuple(f"group-{at:03d}" for at in range(200))


def grouped(size: int) -> Workload:
    """`realistic`, and the ACLs of 200 of its principals once more: for as many groups, and all of them for `ALONE`."""
    rows = realistic(size).rows
    copied = {f"User:svc-{at:05d}": f"Group:{name}" for at, name in enumerate(GROUPS)}
    keys: set[_Key] = {row[1:] for row in rows}
    own = [row for row in rows if row[6] in copied]
    for row in own:
        keys |= {(*row[1:6], principal, row[7]) for principal in (copied[row[6]], ALONE)}
    on_topics = [row for row in own if row[1] == _TOPIC]

    def ask(draw: random.Random) -> Question:
        return _about(draw, draw.choice(on_topics), MEMBER)

    return Workload(f"200 groups among {size:,}", _in_list_order(keys), ask)


def batches(workload: Workload, count: int, size: int) -> list[list[Question]]:
    """As a broker asks for a Metadata request: each batch is one caller's, half of it on what the caller may see."""
    draw = random.Random(11)
    callers = {row[6]: list[AclRow]() for row in draw.sample(workload.rows, count)}
    for row in workload.rows:
        if row[1] == _TOPIC and row[6] in callers:
            callers[row[6]].append(row)
    anybodys = draw.sample([row for row in workload.rows if row[1] == _TOPIC], min(2_000, len(workload.rows) // 2))
    sorted_callers, asked = sorted(callers.items()), []
    for at in range(count):
        caller, own = sorted_callers[at % len(sorted_callers)]
        rows = [draw.choice(own if own and draw.random() < _OWN else anybodys) for _ in range(size)]
        asked.append([_fresh(_about(draw, row, caller)) for row in rows])
    return asked


def nested(size: int) -> Workload:
    """Prefixes of one name, each held by many users: every one of a caller's prefixes matches."""
    users = max(1, size // _NESTED_NAMES)
    name = "n" * _NESTED_NAMES
    keys: set[_Key] = {
        (_TOPIC, _PREFIXED, _OPERATIONS[0], _ALLOW, name[:length], f"User:u{user}", "*")
        for user in range(users)
        for length in range(1, _NESTED_NAMES + 1)
    }

    def ask(draw: random.Random) -> Question:
        return Question(f"User:u{draw.randrange(users)}", "10.1.2.3", draw.choice(_OPERATIONS), name)

    return Workload(f"nested {size:,}", _in_list_order(keys), ask)


def onetopic(size: int) -> Workload:
    """Every user's ACL stands on one topic."""
    keys: set[_Key] = {(_TOPIC, _LITERAL, _OPERATIONS[0], _ALLOW, "orders", f"User:u{at}", "*") for at in range(size)}

    def ask(draw: random.Random) -> Question:
        return Question(f"User:u{draw.randrange(size)}", "10.1.2.3", draw.choice(_OPERATIONS), "orders")

    return Workload(f"onetopic {size:,}", _in_list_order(keys), ask)


def cidr(size: int) -> Workload:
    """Each ACL on one topic has a user and a range of its own."""
    keys: set[_Key] = {
        (_TOPIC, _LITERAL, _OPERATIONS[0], _ALLOW, "orders", f"User:u{at}", f"10.{at >> 8 & 255}.{at & 255}.0/24")
        for at in range(size)
    }

    def ask(draw: random.Random) -> Question:
        at = draw.randrange(size)
        address = f"10.{at >> 8 & 255}.{at & 255}.{draw.randrange(250)}"
        return Question(f"User:u{at}", address, draw.choice(_OPERATIONS), "orders")

    return Workload(f"cidr {size:,}", _in_list_order(keys), ask)


def _about(draw: random.Random, row: AclRow, principal: str) -> Question:
    """A question that this ACL answers, or, one time in four, one about a topic that nobody knows."""
    name = row[5] if row[2] == _LITERAL else f"{row[5]}topic-{draw.randrange(1_000):06d}"
    if draw.random() < _UNKNOWN:
        name = f"unknown-{draw.randrange(10**9)}"
    return Question(principal, f"10.1.{draw.randrange(8)}.{draw.randrange(250)}", row[3], name)


def _topic(at: int, size: int) -> str:
    return f"team{at * 7919 % max(1, size // 500 + 1):04d}.app{at % 97:02d}.topic-{at:06d}"


def _realistic_key(draw: random.Random, principals: list[str], topics: list[str], groups: list[str]) -> _Key:
    kind, principal = draw.random(), draw.choice(principals)
    operation = draw.choice(_OPERATIONS)
    if kind < 0.78:
        return (_TOPIC, _LITERAL, operation, _ALLOW, draw.choice(topics), principal, "*")
    if kind < 0.80:
        return (_TOPIC, _LITERAL, operation, _DENY, draw.choice(topics), principal, "*")
    if kind < 0.90:
        return (_GROUP, _LITERAL, _OPERATIONS[0], _ALLOW, draw.choice(groups), principal, "*")
    if kind < 0.95:
        return (_TOPIC, _PREFIXED, operation, _ALLOW, f"team{draw.randrange(_STEMS):04d}.", principal, "*")
    return (_TOPIC, _PREFIXED, operation, _ALLOW, f"own.{principal[5:]}.{draw.randrange(5)}.", principal, "*")


def _in_list_order(keys: set[_Key]) -> list[AclRow]:
    ids = random.Random(2)
    ordered = sorted(keys, key=lambda key: (key[0], key[4], key[1], key[5], key[6], key[2], key[3]))
    return [(ids.randbytes(16), *key) for key in ordered]


def _fresh(question: Question) -> Question:
    texts = (question.principal, question.address, question.resource_name)
    principal, address, name = (text.encode().decode() for text in texts)
    return Question(principal, address, question.operation, name)


def rows_in_slices(rows: list[AclRow], size: int = 500) -> Iterator[list[AclRow]]:
    """The rows as a snapshot hands them over."""
    for at in range(0, len(rows), size):
        yield rows[at : at + size]
