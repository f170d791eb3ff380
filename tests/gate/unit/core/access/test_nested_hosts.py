"""Who can and what can where ranges of hosts nest, down to both halves of one: what a plain scan decides, in pages too.

A store's clients are all asked about: one of each part of the addresses that no host of its ACLs divides further.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from ipaddress import ip_network
from random import Random
from typing import TypeVar

import pytest

from app.core.access import what
from app.core.access.host_keys import address_within, host_key
from app.core.access.regions import EVERYTHING, tree
from app.core.access.what import WhatCan, WhatQuestion
from app.core.access.who import WhoCan, WhoQuestion
from app.core.authorize import Authorization
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.hosts import ClientAddress, parse_address
from app.core.kafka.operations import from_bit_field, to_bit_field
from app.runtime.access import Search
from tests.budgets import seeds
from tests.gate.unit.core.access.test_what import allows, whole
from tests.gate.unit.core.access.test_who import answer, assert_each_row_is_so, rows_of
from tests.images import image_of, numbered
from tests.reference import Reference

P = TypeVar("P")
R = TypeVar("R")

ALL_ROWS = 10_000


def halved(host: str, times: int) -> Iterator[str]:
    """A range, its halves, and theirs."""
    ranges = [ip_network(host)]
    for _ in range(times + 1):
        yield from map(str, ranges)
        ranges = [half for each in ranges for half in each.subnets()]


RANGES = ("0.0.0.0/0", "10.0.0.0/8", "10.1.2.0/31", "::/0", "2001:db8::/127")
HOSTS = (
    *("*", "*", "*", "10.1.2.0", "10.1.2.1", "2001:db8:0:0:0:0:0:0", "2001:db8:0:0:0:0:0:0%eth0"),
    *(host for each in RANGES for host in halved(each, 2 if each.endswith(("/0", "/8")) else 1)),
)
PATTERNS = ((PatternType.LITERAL, "t"), (PatternType.PREFIXED, "t"), (PatternType.LITERAL, "*"))
NAMES = ("t", "tt", "u")
PRINCIPALS = ("User:a", "User:b", "User:*", "User:*")
ASKED_PRINCIPALS = ("User:a", "User:b", "User:somebody-else")
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL)
ASKED_OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER)
ASKED = to_bit_field(ASKED_OPERATIONS)


@pytest.fixture(autouse=True)
def short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three DENYs take two rows of what a principal can do."""
    monkeypatch.setattr(what, "MAX_LISTED", 2)


def test_a_range_of_everybody_whose_halves_have_acls_too(subtests: pytest.Subtests) -> None:
    for words, expected in [
        (
            ["ALLOW DESCRIBE User:a *", *(f"ALLOW READ User:* {each}" for each in halved("0.0.0.0/0", 1))],
            {AclOperation.READ, AclOperation.DESCRIBE},
        ),
        (["ALLOW WRITE User:a *", *(f"DENY ALL User:* {each}" for each in halved("10.0.0.0/8", 1))], set()),
    ]:
        with subtests.test(words=words, expected=expected):
            image = image_of(numbered(map(acl_of, words)))
            client = Authorization(image, "User:a", parse_address("10.1.2.3"))
            rows, _ = rows_of(image, WhoQuestion(ResourceType.TOPIC, "t", ASKED))
            assert {
                each for each in ASKED_OPERATIONS if client.decide(each, ResourceType.TOPIC, "t").allowed
            } == expected
            assert set(from_bit_field(answer(rows, "User:a", "10.1.2.3"))) == expected
            assert_each_row_is_so(image, rows, ResourceType.TOPIC, "t")


def test_the_rows_say_what_a_plain_scan_decides(subtests: pytest.Subtests) -> None:
    for seed in seeds("nested hosts"):
        with subtests.test(seed=seed):
            assert clients_asked(seed) >= len(ASKED_PRINCIPALS)


def clients_asked(seed: int) -> int:
    """How many clients of a random store were asked about, and answered as a plain scan decides."""
    drawn, count = Random(seed), 0
    acls = nested_store(drawn)
    image, scan, clients = image_of(numbered(acls)), Reference(acls), clients_of(acls)
    limit, name = drawn.choice((1, 2, 3, 7)), drawn.choice(NAMES)
    who = rows_in_pages(partial(WhoCan, image, WhoQuestion(ResourceType.TOPIC, name, ASKED)), limit)
    assert (who, False) == rows_of(image, WhoQuestion(ResourceType.TOPIC, name, ASKED))
    assert_each_row_is_so(image, who, ResourceType.TOPIC, name)
    for principal in ASKED_PRINCIPALS:
        search = partial(WhatCan, image, WhatQuestion(principal))
        can = rows_in_pages(search, limit)
        assert can == rows_in_pages(search, ALL_ROWS)
        for client in clients:
            who_here, _ = rows_of(image, WhoQuestion(ResourceType.TOPIC, name, ASKED, client))
            can_here = rows_in_pages(partial(WhatCan, image, WhatQuestion(principal, client)), limit)
            for operation in ASKED_OPERATIONS:
                expected = scan.authorize(principal, client.text, operation, ResourceType.TOPIC, name)
                case = (acls, name, principal, client.text, operation)
                for rows in (who, who_here):
                    assert answer(rows, principal, client.text) >> operation & 1 == expected, case
                for some in (can, can_here):
                    assert allows(whole(some), ResourceType.TOPIC, name, operation, client.text) is expected, case
            count += 1
    return count


def acl_of(words: str) -> AclBinding:
    permission, operation, principal, host = words.split()
    return AclBinding.from_words(["TOPIC", "t", "LITERAL", principal, host, operation, permission])


def nested_store(drawn: Random) -> list[AclBinding]:
    """ACLs on a few of the hosts; mostly a range and both of its halves are among them."""
    hosts = drawn.choices(HOSTS, k=drawn.choice((1, 3, 5)))
    if drawn.random() < 0.8:
        hosts += ("*", *halved(drawn.choice(RANGES), 1))
    drawn_acls = {
        AclBinding(
            ResourceType.TOPIC,
            name,
            pattern_type,
            drawn.choice(PRINCIPALS),
            drawn.choice(hosts),
            drawn.choice(OPERATIONS),
            drawn.choice((AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)),
        )
        for pattern_type, name in drawn.choices(PATTERNS, k=drawn.choice((4, 8, 16)))
    }
    return sorted(drawn_acls, key=repr)


def clients_of(acls: Iterable[AclBinding]) -> list[ClientAddress]:
    keys = {EVERYTHING, *(host_key(acl.host) for acl in acls)}
    addresses = (address_within(node.region) for node in tree(keys))
    return [each for each in addresses if each is not None]


def rows_in_pages(begin: Callable[[P | None], Search[R, P]], limit: int) -> list[R]:
    """All rows, each page begun where the one before it ended."""
    rows, after = list[R](), None
    while True:
        search = begin(after)
        for _ in search.steps():
            if len(search.rows) > limit:
                break
        rows += search.rows[:limit]
        if len(search.rows) <= limit:
            return rows
        after = search.place_of(rows[-1])
