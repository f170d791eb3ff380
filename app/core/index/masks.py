"""What ACLs with one principal on one resource pattern amount to, as bits (KIP-140's rules, compiled).

A packed mask holds the requested operations that are allowed (a bit for each code, implications and ALL expanded), from
DENY_SHIFT on those that are denied (ALL expanded), and above them whether DESCRIBE and DESCRIBE_CONFIGS are allowed
without an implication, which authorizeByResourceType asks for.
"""

from collections.abc import MutableMapping

from app.core.kafka.codes import WILDCARD, AclOperation, AclPermissionType
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.hosts import Cidr, ClientAddress, parse_cidr
from app.core.kafka.operations import ALLOW_MASK, DENY_MASK

# INVARIANT: no operation's ALLOW is another one's DENY.
DENY_SHIFT = max(AclOperation) + 1
ANY_DENIED = (1 << DENY_SHIFT) - 1 << DENY_SHIFT
_PLAIN_BITS: dict[int, int] = {
    AclOperation.DESCRIBE: 1 << 2 * DENY_SHIFT,
    AclOperation.DESCRIBE_CONFIGS: 2 << 2 * DENY_SHIFT,
}
_BITS = {4: 32, 6: 128}
_NO_RANGE: dict[str, int] = {}
_NOTHING_ENDS: dict[str, tuple["EndingMask", ...]] = {}
_FEW = 4
"""Up to this many lengths of ranges, or spellings of one range, a look-up is cheaper than remembering its result."""


def plain_allow_bit(operation: int) -> int:
    """The bit that tells whether an ALLOW names this operation itself or ALL."""
    return _PLAIN_BITS.get(operation, 1 << operation)


def _packed(operation: int, permission_type: int) -> int:
    if permission_type == AclPermissionType.DENY:
        return DENY_MASK[operation] << DENY_SHIFT
    mask = ALLOW_MASK[operation]
    for plain, bit in _PLAIN_BITS.items():
        if operation in (plain, AclOperation.ALL):
            mask |= bit
    return mask


PACKED_MASKS: dict[tuple[int, int], int] = {
    (int(operation), int(permission_type)): _packed(operation, permission_type)
    for operation in AclOperation
    if operation > AclOperation.ANY
    for permission_type in (AclPermissionType.DENY, AclPermissionType.ALLOW)
}
"""The packed mask of one ACL by (operation, permission type)."""


Texts = MutableMapping[str, int]
"""The masks of one range, by the texts that mean it."""

Networks = MutableMapping[int, Texts]
"""The ranges of one prefix length, by their network without the bits behind it."""

EndingMask = tuple[int, int]
"""When an ALLOW ends (seconds since 1970), and its packed mask."""


class HostMasks:
    """Packed masks by client host: for every host, for exact ones, and for CIDR ranges (KIP-1276).

    ALLOWs that end stand apart, by the text of their host, which has a mask of 0 if nothing else is there.
    """

    __slots__ = ("any_host", "asked", "asked_mask", "costly", "ending", "exact", "ranges")

    def __init__(self, any_host: int) -> None:
        self.any_host = any_host
        # A request has one address for all its names, so an expensive result is remembered.
        # INVARIANT: every change forgets it; the same address at another time is another object.
        self.asked: ClientAddress | None = None
        self.asked_mask = 0
        self.costly = False
        self.exact: MutableMapping[str, int] = {}
        # (IP version, bits to drop) -> network without them -> mask by the text of the range: one look-up a prefix
        # length, however many ranges. Several texts may mean one range.
        self.ranges: MutableMapping[tuple[int, int], Networks] = {}
        self.ending: MutableMapping[str, tuple[EndingMask, ...]] | None = None

    def at(self, address: ClientAddress) -> int:
        if self.asked is address:
            return self.asked_mask
        mask = self.any_host | self.exact.get(address.text, 0)
        for (version, drop), networks in self.ranges.items():
            if version == address.version:
                for each in networks.get(address.value >> drop, _NO_RANGE).values():
                    mask |= each
        if self.ending:
            for text in self.texts_at(address):
                mask |= self._ending_mask(text, address)
        if self.costly:
            self.asked, self.asked_mask = address, mask
        return mask

    def kept_at(self, address: ClientAddress) -> int:
        """The same as `at`, but always remembered: for entries that are asked for with every name."""
        if self.asked is not address:
            self.asked_mask = self.at(address)
            self.asked = address
        return self.asked_mask

    def _ending_mask(self, text: str, address: ClientAddress) -> int:
        mask = 0
        for ends_at, each in (self.ending or _NOTHING_ENDS).get(text, ()):
            if ends_at > address.asked_at:
                mask |= each
        return mask

    def texts_at(self, address: ClientAddress) -> list[str]:
        """The hosts of ACLs that match this client, as spelled there; `*` and the address always."""
        texts = [WILDCARD, address.text]
        for (version, drop), networks in self.ranges.items():
            if version == address.version:
                texts += networks.get(address.value >> drop, _NO_RANGE)
        return texts

    def first_text_at(self, address: ClientAddress, bit: int) -> str:
        """Of `texts_at` the first in list order whose mask has this bit, as `at` has it."""
        masks = {WILDCARD: self.any_host, address.text: self.exact.get(address.text, 0)}
        for (version, drop), networks in self.ranges.items():
            if version == address.version:
                masks.update(networks.get(address.value >> drop, _NO_RANGE))
        return min(text for text, mask in masks.items() if (mask | self._ending_mask(text, address)) & bit)

    def put(self, host: str, mask: int, ending: tuple[EndingMask, ...] = ()) -> None:
        self.asked = None
        if ending:
            self.ending = {} if self.ending is None else self.ending
            self.ending[host] = ending
        elif self.ending:
            self.ending.pop(host, None)
        cidr = _range(host) if "/" in host else None
        if host == WILDCARD:
            self.any_host = mask
        elif cidr is None:
            # Also a text with a slash that is no range: no address is spelled like that, so it matches nobody.
            _put(self.exact, host, mask, is_there=bool(mask or ending))
        else:
            drop = _BITS[cidr.version] - cidr.prefix_length
            networks = self.ranges.setdefault((cidr.version, drop), {})
            texts = networks.setdefault(cidr.network >> drop, {})
            _put(texts, host, mask, is_there=bool(mask or ending))
            self.costly = self.costly or len(texts) > _FEW or len(self.ranges) > _FEW
            if not texts:
                del networks[cidr.network >> drop]
            if not networks:
                del self.ranges[cidr.version, drop]


Entry = int | HostMasks
"""The packed mask of a principal on a pattern: one number where every ACL is for every host."""


def with_host(entry: Entry | None, host: str, mask: int, ending: tuple[EndingMask, ...] = ()) -> Entry | None:
    """The entry in which this host's ACLs add up to this mask, besides ALLOWs that end.

    None if the entry is left without any ACL.
    """
    if host == WILDCARD and not isinstance(entry, HostMasks) and not ending:
        return mask or None
    if not isinstance(entry, HostMasks):
        entry = HostMasks(entry or 0)
    entry.put(host, mask, ending)
    return entry if entry.exact or entry.ranges or entry.ending else entry.any_host or None


def host_matches(host: str, address: ClientAddress) -> bool:
    """Whether an ACL with this host applies to a client at this address: `HostMasks` for one ACL."""
    masks = HostMasks(0)
    masks.put(host, 1)
    return masks.at(address) == 1


def _range(host: str) -> Cidr | None:
    try:
        return parse_cidr(host)
    except InvalidRequestException:
        # Written by an older version that did not check: such an ACL matches nobody (authorize_quirks.jsonl).
        return None


def _put(masks: MutableMapping[str, int], host: str, mask: int, *, is_there: bool) -> None:
    if is_there:
        masks[host] = mask
    else:
        masks.pop(host, None)
