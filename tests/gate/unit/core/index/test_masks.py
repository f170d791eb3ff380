from collections.abc import Callable

import pytest

from app.core.index.masks import DENY_SHIFT, PACKED_MASKS, HostMasks, plain_allow_bit, with_host
from app.core.kafka.codes import AclOperation, AclPermissionType
from app.core.kafka.hosts import ClientAddress, parse_address

ALLOW_READ = PACKED_MASKS[AclOperation.READ, AclPermissionType.ALLOW]
DENY_READ = PACKED_MASKS[AclOperation.READ, AclPermissionType.DENY]
ALLOW_WRITE = PACKED_MASKS[AclOperation.WRITE, AclPermissionType.ALLOW]
HERE = parse_address("10.0.0.1")
THERE = parse_address("192.168.0.1")
IPV6 = parse_address("2001:db8::1")


def test_allows_and_denies_stand_in_their_own_bits() -> None:
    read, describe = 1 << AclOperation.READ, 1 << AclOperation.DESCRIBE
    assert read | describe == ALLOW_READ
    assert read << DENY_SHIFT == DENY_READ
    assert PACKED_MASKS[AclOperation.ALL, AclPermissionType.DENY] == 0xFFFF << DENY_SHIFT


def test_an_implied_describe_is_told_from_a_plain_one() -> None:
    for operation in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
        bit = plain_allow_bit(operation)
        plain = [each for (each, permission), mask in PACKED_MASKS.items() if mask & bit]
        assert sorted(plain) == sorted((operation, AclOperation.ALL))


def test_acls_for_every_host_make_one_number() -> None:
    assert with_host(None, "*", ALLOW_READ | DENY_READ) == ALLOW_READ | DENY_READ


def test_hosts_ranges_and_every_host_add_up() -> None:
    entry = with_host(None, "*", ALLOW_READ)
    for host, mask in (("10.0.0.1", ALLOW_WRITE), ("10.0.0.0/8", DENY_READ), ("10.0.0.0/9", DENY_READ)):
        entry = with_host(entry, host, mask)
    assert isinstance(entry, HostMasks)
    assert entry.at(HERE) == ALLOW_READ | ALLOW_WRITE | DENY_READ
    assert entry.at(THERE) == ALLOW_READ
    assert entry.at(IPV6) == ALLOW_READ
    assert with_host(entry, "*", ALLOW_WRITE) is entry
    assert entry.at(THERE) == ALLOW_WRITE


def test_a_host_that_goes_leaves_the_others() -> None:
    entry = HostMasks(0)
    for host in ("10.0.0.1", "10.0.0.0/8", "10.1.0.0/8", "2001:db8::/32"):
        entry.put(host, ALLOW_READ)
    entry.put("10.0.0.0/8", 0)
    entry.put("10.0.0.1", 0)
    assert entry.at(HERE) == ALLOW_READ
    entry.put("10.1.0.0/8", 0)
    assert entry.at(HERE) == 0
    assert entry.at(IPV6) == ALLOW_READ
    assert with_host(entry, "2001:db8::/32", 0) is None
    assert entry.ranges == {}


def test_an_entry_without_hosts_of_its_own_is_one_number_again() -> None:
    entry = with_host(with_host(None, "*", ALLOW_READ), "10.0.0.1", DENY_READ)
    assert with_host(entry, "10.0.0.1", 0) == ALLOW_READ
    assert with_host(ALLOW_READ, "*", 0) is None


def test_one_network_takes_masks_from_several_acls() -> None:
    entry = HostMasks(0)
    entry.put("10.0.0.5/8", ALLOW_READ)
    entry.put("10.9.9.9/8", ALLOW_WRITE)
    entry.put("2001:db8::/32", DENY_READ)
    assert entry.at(HERE) == ALLOW_READ | ALLOW_WRITE
    assert entry.at(IPV6) == DENY_READ
    assert entry.at(THERE) == 0


def test_a_range_that_is_none_matches_nobody_but_is_not_lost() -> None:
    entry = HostMasks(0)
    entry.put("10.0.0/8", DENY_READ)
    entry.put("10.0.0.0/33", DENY_READ)
    assert entry.at(HERE) == 0
    assert entry.ranges == {}
    assert with_host(entry, "10.0.0/8", 0) is entry
    assert with_host(entry, "10.0.0.0/33", 0) is None


@pytest.mark.parametrize("ask", [HostMasks.at, HostMasks.kept_at])
def test_no_change_is_hidden_by_what_is_remembered_of_an_address(
    ask: Callable[[HostMasks, ClientAddress], int],
) -> None:
    client, elsewhere = parse_address("10.0.0.1"), parse_address("11.0.0.1")
    masks, texts = HostMasks(0), [f"10.{n}.0.0/8" for n in range(9)] + [f"10.0.0.0/{n}" for n in range(9, 20)]
    expected = 0
    for n, text in enumerate(texts):
        assert ask(masks, client) == ask(masks, client) == expected
        assert ask(masks, elsewhere) == 0
        masks.put(text, 1 << n)
        expected |= 1 << n
    assert masks.costly
    for n, (text, host) in enumerate(zip(texts, ["10.0.0.1", "*"] * 10, strict=True)):
        assert ask(masks, client) == expected
        masks.put(text, 0)
        expected &= ~(1 << n)
        assert ask(masks, client) == expected
        masks.put(host, 1 << 30)
        assert ask(masks, client) == expected | 1 << 30
        masks.put(host, 0)
    assert ask(masks, client) == 0
