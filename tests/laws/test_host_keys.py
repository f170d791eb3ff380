from itertools import product
from random import Random

import pytest

from app.core.access.host_keys import END, NOBODY, address_within, addresses_in, client_key, host_key
from app.core.access.regions import tree
from app.core.index.masks import host_matches
from app.core.kafka.hosts import parse_address
from tests.budgets import seeds
from tests.strategies import ADDRESSES, HOSTS

ZONED = "fe80:0:0:0:0:0:0:1%eth0"
MORE_HOSTS = (
    *HOSTS,
    "10.0.0.1/32",
    "010.0.0.0/8",
    "fe80::/10",
    "fe80::1/128",
    ZONED,
    "fe80:0:0:0:0:0:0:1",
    "host",
    "",
    "!",
)
MORE_ADDRESSES = (*ADDRESSES, "fe80::1", "fe80::1%eth0", "fe80::1%eth01", "255.255.255.255", "10.0.0.0")

_HALVES = ("*", "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "::/0", "::/1", "8000::/1", "10.0.0.0/31")
_SMALL = ("10.0.0.0", "10.0.0.1", "10.0.0.1/32", "::/80", "::1/127", "::1/128", "0:0:0:0:0:0:0:1", "::0/128")
_MAPPED = ("::fffe:0:0/95", "::fffe:0:0/96")


def test_a_key_begins_a_clients_key_exactly_if_core_says_that_the_host_matches() -> None:
    for host, text in product(MORE_HOSTS, MORE_ADDRESSES):
        address = parse_address(text)
        assert client_key(address).startswith(host_key(host)) == host_matches(host, address), (host, text)


def test_hosts_whose_key_begins_another_cover_all_of_its_clients() -> None:
    for wide, narrow in product(MORE_HOSTS, MORE_HOSTS):
        if host_key(narrow).startswith(host_key(wide)):
            for text in MORE_ADDRESSES:
                address = parse_address(text)
                assert not host_matches(narrow, address) or host_matches(wide, address), (wide, narrow, text)


def test_what_is_no_clients_host_is_nobodys(subtests: pytest.Subtests) -> None:
    for host in ["10.0.0/8", "10.0.0.1/33", "::1", "host", "10.*", "10.0.0.01", "::ffff:10.0.0.1"]:
        with subtests.test(host=host):
            assert host_key(host) == NOBODY


def test_texts_of_one_range_have_one_key() -> None:
    assert host_key("10.0.0.5/8") == host_key("10.9.9.9/08") == "4" + "00001010"
    assert host_key("10.0.0.1") == host_key("10.0.0.1/32")
    assert host_key("*") == ""


def test_a_region_has_a_client_if_its_addresses_are_more_than_its_holes(subtests: pytest.Subtests) -> None:
    for seed in seeds("regions of hosts"):
        with subtests.test(seed=seed):
            hosts = Random(seed).sample([*_HALVES, *_SMALL, *_MAPPED], 8)
            for node in tree({host_key(each) for each in hosts} - {NOBODY}):
                left = addresses_in(node.key) - sum(map(addresses_in, node.below))
                assert (address_within(node.region) is not None) is (left > 0 or node.key.endswith(END))
