"""Whether a caller may do something on any resource of a type at all (KIP-504 authorizeByResourceType), in steps."""

from collections.abc import Generator, Sequence

from app.core.index.packing import PATTERN_TYPES
from app.core.index.tree import TypeNode, mask_at
from app.core.kafka.codes import PatternType
from app.core.kafka.hosts import ClientAddress

_LITERAL = int(PatternType.LITERAL)
_STEP = 100
_LONG = 500
"""This many characters of a name cost about as much as one more pattern."""


def on_any_resource(
    nodes: Sequence[TypeNode], allow: int, deny: int, address: ClientAddress
) -> Generator[None, None, tuple[bool, bool]]:
    """Whether a pattern has the bit `allow` that no pattern around it denies, and, if none has, whether one denies.

    `nodes` are those that apply to the caller. They must stay the same from the first step to the last; a step looks at
    some hundred patterns.
    """
    wildcard = 0
    for node in nodes:
        wildcard |= mask_at(node.wildcard, address)
    if wildcard & (allow | deny):
        return not wildcard & deny, bool(wildcard & deny)
    may_deny = any(node.may_deny for node in nodes)
    denied = looked = 0
    for node in nodes:
        for pattern_type in PATTERN_TYPES:
            for name, entry in node.entries(pattern_type).items():
                mask = mask_at(entry, address)
                looked += 1 if isinstance(entry, int) else 10
                denied |= mask & deny
                if mask & allow:
                    if not (may_deny and _is_denied(nodes, deny, (pattern_type, name), address)):
                        return True, False
                    looked += 10 * len(nodes) + len(name) // _LONG
                if looked >= _STEP:
                    looked = 0
                    yield
    return False, bool(denied)


def _is_denied(nodes: Sequence[TypeNode], deny: int, pattern: tuple[int, str], address: ClientAddress) -> bool:
    """Whether patterns on this one or around it deny all that it covers; `*` denies nothing."""
    pattern_type, name = pattern
    for node in nodes:
        literal = node.literals.get(name, 0) if pattern_type == _LITERAL else 0
        if (mask_at(literal, address) | node.prefix_mask(name, address, deny)) & deny:
            return True
    return False
