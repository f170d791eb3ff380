"""Codes in one number: each reads back, and one that has no room stops the program before any ACL is read."""

from enum import IntEnum
from itertools import product

import pytest

from app.core.index.masks import ANY_DENIED, DENY_SHIFT, PACKED_MASKS, plain_allow_bit
from app.core.index.packing import insist_on_room, operation_in, pack_codes, permission_type_in, unpack_codes
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType


def test_every_code_reads_back() -> None:
    for codes in product(ResourceType, PatternType, AclOperation, AclPermissionType):
        packed = pack_codes(*codes)
        assert unpack_codes(packed) == codes
        assert (operation_in(packed), permission_type_in(packed)) == codes[2:]
        assert packed < 1 << 16


def test_the_next_codes_of_kafka_have_room_of_their_own() -> None:
    """A resource type 8 was read as another pattern type, an operation 16 as another permission type."""
    for codes in product((7, 8, 15), (3, 4, 7), (15, 16, 31), (2, 3)):
        assert unpack_codes(pack_codes(*codes)) == codes


class Overgrown(IntEnum):
    FIRST = 0
    LAST = 16


def test_a_code_without_room_is_refused_by_name() -> None:
    insist_on_room(Overgrown, 16)
    with pytest.raises(ValueError, match="Overgrown has the code 16, but only codes up to 15 fit"):
        insist_on_room(Overgrown, 15)


def test_what_is_allowed_and_what_is_denied_share_no_bit() -> None:
    for (operation, permission_type), mask in PACKED_MASKS.items():
        denies = permission_type == AclPermissionType.DENY
        assert bool(mask & ANY_DENIED) is denies
        assert mask & (1 << DENY_SHIFT + operation if denies else plain_allow_bit(operation))
        assert not denies or mask & ~ANY_DENIED == 0
