"""Keys of names and hosts as trees, and a witness of every region."""

from itertools import product
from random import Random

import pytest

from app.core.access.host_keys import address_within, client_key, host_key, host_of
from app.core.access.regions import EVERYTHING, Nested, Region, coalesced, name_key, name_within, pattern_of, tree
from app.core.index.masks import host_matches
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from tests.strategies import NAMES

PATTERNS = list(product((PatternType.LITERAL, PatternType.PREFIXED), NAMES))


def covers(pattern: tuple[PatternType, str], name: str) -> bool:
    some = AclOperation.READ, AclPermissionType.ALLOW
    acl = AclBinding(ResourceType.TOPIC, pattern[1], pattern[0], "User:a", "*", *some)
    return AclBindingFilter(ResourceType.TOPIC, name, PatternType.MATCH).matches(acl)


def test_a_key_begins_anothers_exactly_if_its_pattern_covers_all_of_the_others() -> None:
    for one, other in product(PATTERNS, PATTERNS):
        inside = [name_within(Region(name_key(*other)))]
        if other[0] is PatternType.PREFIXED or other == (PatternType.LITERAL, "*"):
            inside += [f"{inside[0]}{letter}" for letter in "ax*"]
        assert name_key(*other).startswith(name_key(*one)) == all(covers(one, name) for name in inside), (one, other)
        assert pattern_of(name_key(*one)) == one


def test_every_region_of_names_has_a_witness() -> None:
    drawn = Random(1)
    for _ in range(300):
        patterns = drawn.sample(PATTERNS, drawn.randint(1, 12))
        for node in tree({EVERYTHING, *(name_key(*each) for each in patterns)}):
            name = name_within(node.region)
            assert covers(pattern_of(node.key), name)
            assert not any(covers(pattern_of(hole), name) for hole in node.below)


def test_a_prefix_whose_next_letters_are_all_taken_still_has_a_witness() -> None:
    taken = [name_key(PatternType.PREFIXED, f"p{chr(code)}") for code in range(1, 3_000)]
    name = name_within(Region("p", (*taken, name_key(PatternType.LITERAL, "p"))))
    assert name.startswith("p")
    assert len(name) == 2
    assert ord(name[1]) >= 3_000


def test_a_region_of_hosts_has_a_witness_or_nobody_is_in_it(subtests: pytest.Subtests) -> None:
    for host, holes, witness in [
        ("*", [], "0.0.0.0"),  # noqa: S104 - an address in a question, nothing is bound
        ("*", ["0.0.0.0/0"], "0:0:0:0:0:0:0:0"),
        ("*", ["0.0.0.0/0", "::/0"], None),
        ("*", ["0.0.0.0/1", "128.0.0.0/1", "::/0"], None),
        ("10.0.0.0/31", ["10.0.0.0"], "10.0.0.1"),
        ("10.0.0.0/31", ["10.0.0.0", "10.0.0.1/32"], None),
        ("10.0.0.0/8", ["10.0.0.0/9", "10.128.0.0/16"], "10.129.0.0"),
        ("0.0.0.0/0", ["0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/2"], None),
        ("10.0.0.7", [], "10.0.0.7"),
        ("::/1", [], "0:0:0:0:0:0:0:0"),
        # All that is left of these are addresses that stand for IPv4 clients.
        ("::fffe:0:0/95", ["::fffe:0:0/96"], None),
        ("::1/128", ["0:0:0:0:0:0:0:1"], "0:0:0:0:0:0:0:1%zone0"),
        ("::1/128", ["0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1%zone0"], "0:0:0:0:0:0:0:1%zone1"),
        ("::/127", ["::/128", "0:0:0:0:0:0:0:1"], "0:0:0:0:0:0:0:1%zone0"),
        ("::/127", ["::/128", "::1/128"], None),
        ("0:0:0:0:0:0:0:1%eth0", [], "0:0:0:0:0:0:0:1%eth0"),
    ]:
        with subtests.test(host=host, holes=holes, witness=witness):
            found = address_within(Region(host_key(host), tuple(map(host_key, holes))))
            assert (None if found is None else found.text) == witness
            if found is not None:
                assert host_matches(host, found)
                assert not any(host_matches(hole, found) for hole in holes)


def test_a_key_is_told_as_a_host_that_means_the_same(subtests: pytest.Subtests) -> None:
    for host, told in [
        ("*", "*"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.1.2.3/32", "10.1.2.3"),
        ("10.1.2.3", "10.1.2.3"),
        ("2001:DB8::/32", "2001:db8::/32"),
        ("::1/128", "::1/128"),
        ("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("0.0.0.0/0", "0.0.0.0/0"),
    ]:
        with subtests.test(host=host, told=told):
            assert host_of(host_key(host)) == told
            assert host_key(told) == host_key(host)


def test_regions_of_one_value_are_told_as_one() -> None:
    values = {"": 0, "a": 1, "ab": 1, "abc": 0, "ac": 1, "b": 0, "c": 2}
    assert coalesced(values) == [
        (Region("", ("a", "c")), 0),
        (Region("a", ("abc",)), 1),
        (Region("abc"), 0),
        (Region("c"), 2),
    ]


def test_overlaps_are_found_from_above_and_from_below() -> None:
    drawn = Random(2)
    for _ in range(200):
        some = drawn.sample(PATTERNS, 3)
        overlaps = Nested(name_key(*each) for each in some)
        for pattern in PATTERNS:
            key = name_key(*pattern)
            others = [name_key(*each) for each in some]
            assert overlaps.meets(key) == any(key.startswith(each) or each.startswith(key) for each in others)


def test_the_key_of_a_client_is_its_own_region() -> None:
    address = parse_address("10.0.0.1")
    assert host_of(client_key(address)) == "10.0.0.1"
