"""Hosts of ACLs as keys that nest like the addresses they mean (KIP-1276; `core.access.regions`).

A key is the IP version and the leading bits in text: `10.0.0.0/8` is `400001010`, `*` is the empty key. An exact IPv6
address has its own text (which may hold a zone) behind its bits. A host that is no client's has the key NOBODY.
"""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from itertools import count

from app.core.access.regions import EVERYTHING, Region
from app.core.kafka.codes import WILDCARD
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import ClientAddress, parse_address, parse_cidr

NOBODY = "!"
"""The key of every host that matches no client: no valid range, or no address in Java's form."""

END = "/"
"""The end of an exact address's key. No address or zone holds a slash, so no such key begins another's."""

_IPV4, _IPV6 = 4, 6
_BITS = {_IPV4: 32, _IPV6: 128}
_CACHED = 65_536
_MAPPED = "6" + f"{0xFFFF:096b}"
"""The IPv4-mapped IPv6 addresses: a client at one of them is an IPv4 client."""


def client_key(address: ClientAddress) -> str:
    """The key that begins with the keys of all hosts that match this client."""
    bits = f"{address.version}{address.value:0{_BITS[address.version]}b}"
    # An exact IPv4 host and its /32 mean the same clients; an IPv6 /128 also means those with a zone.
    return bits if address.version == _IPV4 else f"{bits}{END}{address.text}{END}"


@lru_cache(maxsize=_CACHED)
def host_key(host: str) -> str:
    if host == WILDCARD:
        return EVERYTHING
    try:
        if "/" not in host:
            address = parse_address(host)
            return client_key(address) if address.text == host else NOBODY
        cidr = parse_cidr(host)
    except InvalidRequestException:
        return NOBODY
    return f"{cidr.version}{cidr.network:0{_BITS[cidr.version]}b}"[: 1 + cidr.prefix_length]


def host_of(key: str) -> str:
    """A host that has this key, in its shortest form: `10.0.0.0/8`, and `10.1.2.3` for its /32."""
    if key == EVERYTHING:
        return WILDCARD
    if key.endswith(END):
        return _text_in(key)
    version, length = int(key[0]), len(key) - 1
    first = ip_address_of(version, _first(key))
    return str(first) if version == _IPV4 and length == _BITS[_IPV4] else f"{first}/{length}"


def addresses_in(key: str) -> int:
    """How many addresses the hosts with this key cover; none for an exact IPv6 one, beside which there are its zones.

    IPv4-mapped addresses count as IPv4, as clients at them do.
    """
    if key == EVERYTHING:
        return addresses_in("4") + addresses_in("6")
    if key.endswith(END) or key.startswith(_MAPPED):
        return 0
    mapped = addresses_in("4") if _MAPPED.startswith(key) else 0
    return (1 << 1 + _BITS[int(key[0])] - len(key)) - mapped


def address_within(region: Region) -> ClientAddress | None:
    key, holes = region.key, region.holes
    if key.endswith(END):
        return parse_address(_text_in(key))
    for version in _BITS if key == EVERYTHING else (int(key[0]),):
        inside = [hole for hole in holes if hole[0] == str(version)]
        found = _unmarked_address(key or str(version), inside, version)
        if found is None and version != _IPV4:  # zones are IPv6's
            found = _address_with_zone(inside)
        if found is not None:
            return found
    return None


def _unmarked_address(key: str, holes: Sequence[str], version: int) -> ClientAddress | None:
    taken = [_MAPPED] if _MAPPED.startswith(key) else []
    at = _first(key)
    for first, last in sorted((_first(hole), _last(hole)) for hole in (*holes, *taken)):
        if at < first:
            break
        at = max(at, last + 1)
    if at > _last(key):
        return None
    return parse_address(str(ip_address_of(version, at)))


def _address_with_zone(holes: Sequence[str]) -> ClientAddress | None:
    """An address for a region of which only zones that no host names are left."""
    ranges = [hole for hole in holes if not hole.endswith(END)]
    for hole in holes:
        if hole.endswith(END) and not any(hole.startswith(each) for each in ranges):
            literal = str(IPv6Address(_first(hole)))
            zoned = (parse_address(f"{literal}%zone{number}") for number in count())
            return next(each for each in zoned if client_key(each) not in holes)
    return None


def ip_address_of(version: int, value: int) -> IPv4Address | IPv6Address:
    return IPv4Address(value) if version == _IPV4 else IPv6Address(value)


def _first(key: str) -> int:
    return int(_bits(key).ljust(_BITS[int(key[0])], "0"), 2)


def _last(key: str) -> int:
    return int(_bits(key).ljust(_BITS[int(key[0])], "1"), 2)


def _bits(key: str) -> str:
    return key[1:].partition(END)[0]


def _text_in(key: str) -> str:
    return key.split(END)[1]
