from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.index.masks import host_matches
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import Cidr, ClientAddress, parse_address, parse_cidr


def test_an_address_is_told_as_java_tells_it(subtests: pytest.Subtests) -> None:
    for text, java, value, version in [
        ("0.0.0.0", "0.0.0.0", 0, 4),  # noqa: S104 (parsed, nothing is bound)
        ("10.1.2.3", "10.1.2.3", 0x0A010203, 4),
        ("255.255.255.255", "255.255.255.255", 0xFFFF_FFFF, 4),
        ("::", "0:0:0:0:0:0:0:0", 0, 6),
        ("::1", "0:0:0:0:0:0:0:1", 1, 6),
        ("2001:DB8::1", "2001:db8:0:0:0:0:0:1", 0x20010DB8 << 96 | 1, 6),
        ("2001:0db8:0:0:0:0:0:00ff", "2001:db8:0:0:0:0:0:ff", 0x20010DB8 << 96 | 0xFF, 6),
        ("64:ff9b::10.0.0.1", "64:ff9b:0:0:0:0:a00:1", 0x64FF9B << 96 | 0x0A000001, 6),
        ("::ffff:10.0.0.1", "10.0.0.1", 0x0A000001, 4),
        ("::FFFF:A00:1", "10.0.0.1", 0x0A000001, 4),
        ("::10.0.0.1", "0:0:0:0:0:0:a00:1", 0x0A000001, 6),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0", 0xFE80 << 112 | 1, 6),
        ("fe80::1%2", "fe80:0:0:0:0:0:0:1%2", 0xFE80 << 112 | 1, 6),
    ]:
        with subtests.test(text=text, java=java, value=value, version=version):
            assert parse_address(text) == ClientAddress(java, value, version)


def test_nothing_but_an_ip_literal_is_an_address(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        " ",
        "10.1",
        "10",
        "167772161",
        "0x0a000001",
        "10.0.0.256",
        "10.0.0.1.",
        "10.0.0.-1",
        "10.0.0.1\n",
        " 10.0.0.1",
        "/10.0.0.1",
        "10.0.0.1:9092",
        "10.0.0.0/8",
        "010.0.0.1",
        "10.0.0.01",
        "10.0.0.00",
        "\u0661\u0660.0.0.1",
        "localhost",
        "kafka.example",
        "*",
        ":",
        ":::",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1::2::3",
        "12345::",
        "g::1",
        "[::1]",
        "::ffff:10.0.0.256",
        "::ffff:10.1",
        "fe80::1%",
        "fe80::1%a%b",
        "fe80::1%eth 0",
        "fe80::1%eth0/64",
        "fe80::1%" + "x" * 65,
        "fe80::1%é",
        "::ffff:10.0.0.1%eth0",
        "10.0.0.1%eth0",
    ]:
        with (
            subtests.test(text=text),
            pytest.raises(InvalidRequestException, match="is not an IP address; send an IPv4 or IPv6 literal"),
        ):
            parse_address(text)


def test_a_refusal_quotes_no_more_than_a_line_of_garbage() -> None:
    with pytest.raises(InvalidRequestException) as refusal:
        parse_address("x" * 30_000)
    assert len(refusal.value.message) < 300


@given(st.ip_addresses(v=4))
def test_every_ipv4_address_keeps_its_text(address: object) -> None:
    assert parse_address(str(address)).text == str(address)


@given(st.ip_addresses(v=6))
def test_every_spelling_of_an_ipv6_address_is_one_address(address: IPv6Address) -> None:
    parsed = parse_address(str(address))
    assert parse_address(address.exploded.upper()) == parsed
    if parsed.version == 6:
        assert parse_address(parsed.text) == parsed
        assert parsed.value == int(address)


def test_a_range_is_read_as_kafka_reads_it(subtests: pytest.Subtests) -> None:
    for host, cidr in [
        ("10.0.0.0/8", Cidr(4, 8, 10 << 24)),
        ("10.0.0.5/8", Cidr(4, 8, 10 << 24)),
        ("010.0.0.0/08", Cidr(4, 8, 10 << 24)),
        ("0.0.0.0/0", Cidr(4, 0, 0)),
        ("255.255.255.255/0", Cidr(4, 0, 0)),
        ("10.0.0.1/32", Cidr(4, 32, 10 << 24 | 1)),
        ("10.0.0.3/31", Cidr(4, 31, 10 << 24 | 2)),
        ("::/0", Cidr(6, 0, 0)),
        ("2001:DB8::1/32", Cidr(6, 32, 0x20010DB8 << 96)),
        ("fe80::1%eth0/64", Cidr(6, 64, 0xFE80 << 112)),
        ("[fe80::1%1]/64", Cidr(6, 64, 0xFE80 << 112)),
        ("::1/128", Cidr(6, 128, 1)),
        ("::1/+0128", Cidr(6, 128, 1)),
        ("::/-0", Cidr(6, 0, 0)),
        ("00002001:0db8::010.000.0.1/128", Cidr(6, 128, 0x20010DB8 << 96 | 10 << 24 | 1)),
    ]:
        with subtests.test(host=host, cidr=cidr):
            assert parse_cidr(host) == cidr


def test_a_range_is_refused_in_kafkas_words(subtests: pytest.Subtests) -> None:
    for host, why in [
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("10.0.0.0/100", "Could not parse [10.0.0.0/100]"),
        ("10.256.0.300/99", "Value [256] not in range [0,255]"),
        ("10.0.0.0/8\n", "Could not parse [10.0.0.0/8\n]"),
        ("10.0.0.0/\u0668", "Could not parse [10.0.0.0/\u0668]"),
        ("example/24", "Could not parse [example/24]"),
        ("::1/129", "Could not parse [::1/129] - prefix length must be between 0 and 128"),
        ("::1/-1", "Could not parse [::1/-1] - prefix length must be between 0 and 128"),
        ("::1/2147483648", "Could not parse [::1/2147483648] - invalid prefix length"),
        ("::1/" + "9" * 5000, f"Could not parse [::1/{'9' * 5000}] - invalid prefix length"),
        ("::1/", "Could not parse [::1/] - invalid prefix length"),
        ("::1/6/4", "Could not parse [::1/6/4] - invalid prefix length"),
        ("::1%/64", "Could not parse [::1%]"),
        ("::g/64", "Could not parse [::g]"),
        ("[::1/64", "Could not parse [[::1]"),
        ("::1]/64", "Could not parse [::1]]"),
        ("::ffff:10.0.0.0/104", "Could not parse [::ffff:10.0.0.0] - not an IPv6 address"),
        ("::ffff:a00:0/104", "Could not parse [::ffff:a00:0] - not an IPv6 address"),
        ("::ffff:10.0.0.0%1/104", "Could not parse [::ffff:10.0.0.0%1]"),
    ]:
        with subtests.test(host=host, why=why):
            with pytest.raises(InvalidRequestException) as refusal:
                parse_cidr(host)
            assert refusal.value.message == f"Invalid CIDR notation '{host}': {why}"


def test_an_acl_host_speaks_of_an_address(subtests: pytest.Subtests) -> None:
    for host, address, matches in [
        ("*", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1", False),
        ("::1", "::1", False),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("fe80:0:0:0:0:0:0:1", "fe80::1%eth0", False),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth0", True),
        ("fe80::/10", "fe80::1%eth0", True),
        ("fe80::%eth1/10", "fe80::1%eth0", True),
        ("10.0.0.*", "10.0.0.1", False),
        ("10.0.0.0/30", "10.0.0.0", True),
        ("10.0.0.0/30", "10.0.0.3", True),
        ("10.0.0.0/30", "10.0.0.4", False),
        ("10.0.0.0/31", "10.0.0.1", True),
        ("10.0.0.1/32", "10.0.0.2", False),
        ("0.0.0.0/0", "0.0.0.0", True),  # noqa: S104 (compared, nothing is bound)
        ("0.0.0.0/0", "::1", False),
        ("::/0", "10.0.0.1", False),
        ("::/0", "::ffff:10.0.0.1", False),
        ("::/0", "::10.0.0.1", True),
        ("2001:db8::/32", "2001:db8:ffff::1", True),
        ("2001:db8::/32", "2001:db9::", False),
        ("10.0.0/8", "10.0.0.1", False),
        ("10.0.0.1/33", "10.0.0.1", False),
    ]:
        with subtests.test(host=host, address=address, matches=matches):
            assert host_matches(host, parse_address(address)) is matches
