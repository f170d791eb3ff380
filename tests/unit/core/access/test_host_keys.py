from itertools import product

import pytest

from app.core.access.host_keys import NOBODY, client_key, host_key
from app.core.index.masks import host_matches
from app.core.kafka.hosts import parse_address
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


@pytest.mark.parametrize("host", ["10.0.0/8", "10.0.0.1/33", "::1", "host", "10.*", "10.0.0.01", "::ffff:10.0.0.1"])
def test_what_is_no_clients_host_is_nobodys(host: str) -> None:
    assert host_key(host) == NOBODY


def test_texts_of_one_range_have_one_key() -> None:
    assert host_key("10.0.0.5/8") == host_key("10.9.9.9/08") == "4" + "00001010"
    assert host_key("10.0.0.1") == host_key("10.0.0.1/32")
    assert host_key("*") == ""
