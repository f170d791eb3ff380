"""Client addresses as Java prints them, and CIDR ranges in ACL hosts (KIP-1276).

Nothing is ever resolved: only IP literals are addresses here.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address, ip_address
from math import inf

from app.core.kafka.errors import InvalidRequestException

_IPV4_BITS = 32
_IPV6_BITS = 128
_INT_MAX = (1 << 31) - 1
_CACHED_ADDRESSES = 16_384

_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}\Z")
_ZONE = re.compile(r"[!-$&-.0-~]{1,64}\Z")

_IPV4_CIDR = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})\Z")
_PREFIX_LENGTH = re.compile(r"[+-]?[0-9]{1,32}\Z")
_LEADING_ZEROS = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")


@dataclass(frozen=True, slots=True)
class ClientAddress:
    """Where a client connects from, and when it asks.

    `text` is what Java's `InetAddress.getHostAddress()` makes of it, and what ACL hosts are compared with: dotted
    IPv4, or IPv6 uncompressed in lower case, a zone kept after `%`. `value` is the address as a number (without the
    zone), `version` is 4 or 6.

    INVARIANT: an ALLOW that has ended by `asked_at` (seconds since 1970, by the store's clock) is not seen from here.
    An address without a time sees no ALLOW that has an end.
    """

    text: str
    value: int
    version: int
    asked_at: float = inf


@dataclass(frozen=True, slots=True)
class Cidr:
    """A range of addresses of one IP version; `network` is its first address as a number."""

    version: int
    prefix_length: int
    network: int


def is_loopback(host: str) -> bool:
    """Whether a connection to this host can't leave the machine: `localhost` or a loopback address.

    Other spellings of an address (`127.1`) are not addresses here, and not loopback.
    """
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


@lru_cache(maxsize=_CACHED_ADDRESSES)
def parse_address(text: str) -> ClientAddress:
    """The client address that an IP literal stands for. Raises InvalidRequestException for anything else.

    IPv4 takes four decimal numbers without leading zeros: `10.1` and `010.0.0.1` mean different hosts to different
    programs, so they are refused. An IPv4-mapped IPv6 address becomes IPv4, as in Java. A zone (`fe80::1%eth0`) stays
    in the text, as Java prints it, so an exact ACL host must name it too, while CIDR ranges look past it.
    """
    found = _IPV4.match(text)
    if found is not None:
        a, b, c, d = found.groups()
        return ClientAddress(text, int(a) << 24 | int(b) << 16 | int(c) << 8 | int(d), 4)
    literal, percent, zone = text.partition("%")
    try:
        address = IPv6Address(literal)
    except AddressValueError:
        raise _not_an_address(text) from None
    mapped = address.ipv4_mapped
    if percent and (mapped is not None or _ZONE.match(zone) is None):
        raise _not_an_address(text)
    if mapped is not None:
        return ClientAddress(str(mapped), int(mapped), 4)
    value = int(address)
    groups = ":".join(f"{value >> shift & 0xFFFF:x}" for shift in range(112, -1, -16))
    return ClientAddress(groups + percent + zone, value, 6)


def parse_cidr(host: str) -> Cidr:
    """The range that an ACL host with a `/` stands for (KIP-1276); host bits are ignored.

    Raises InvalidRequestException with the text of Kafka 4.4.0, whose forms and limits these are.
    """
    try:
        return _ipv6_cidr(host) if ":" in host else _ipv4_cidr(host)
    except ValueError as refusal:
        raise InvalidRequestException(f"Invalid CIDR notation '{host}': {refusal}") from None


def _not_an_address(text: str) -> InvalidRequestException:
    return InvalidRequestException(
        f"`client_address` `{text[:100]}` is not an IP address; "
        "send an IPv4 or IPv6 literal such as `10.1.2.3` or `2001:db8::1`"
    )


def _ipv4_cidr(host: str) -> Cidr:
    found = _IPV4_CIDR.match(host)
    if found is None:
        raise ValueError(f"Could not parse [{host}]")
    value = 0
    for octet in found.groups()[:4]:
        value = value << 8 | _in_range(int(octet), 255)
    prefix_length = _in_range(int(found[5]), _IPV4_BITS)
    return Cidr(4, prefix_length, _network(value, _IPV4_BITS - prefix_length))


def _in_range(value: int, highest: int) -> int:
    if value > highest:
        raise ValueError(f"Value [{value}] not in range [0,{highest}]")
    return value


def _ipv6_cidr(host: str) -> Cidr:
    literal, _, length = host.partition("/")
    if _PREFIX_LENGTH.match(length) is None or int(length) > _INT_MAX:
        raise ValueError(f"Could not parse [{host}] - invalid prefix length")
    prefix_length = int(length)
    if not 0 <= prefix_length <= _IPV6_BITS:
        raise ValueError(f"Could not parse [{host}] - prefix length must be between 0 and {_IPV6_BITS}")
    address = _java_ipv6(literal)
    if address is None:
        raise ValueError(f"Could not parse [{literal}]")
    if address.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{literal}] - not an IPv6 address")
    return Cidr(6, prefix_length, _network(int(address), _IPV6_BITS - prefix_length))


def _java_ipv6(literal: str) -> IPv6Address | None:
    """What `InetAddress.getByName` makes of an IPv6 literal: it may have brackets, a zone, and leading zeros.

    Java looks the zone up among its machine's interfaces; replicas have none in common, so here any zone is valid.
    """
    if literal.startswith("[") and literal.endswith("]"):
        literal = literal[1:-1]
    unzoned, percent, zone = literal.partition("%")
    try:
        address = IPv6Address(_LEADING_ZEROS.sub("", unzoned))
    except AddressValueError:
        return None
    if percent and (address.ipv4_mapped is not None or _ZONE.match(zone) is None):
        return None
    return address


def _network(value: int, host_bits: int) -> int:
    return value >> host_bits << host_bits
