"""Texts with one mistake, as people and tools make them, and what a reader may make of it."""

import random
from typing import Any

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.registry import AclFormat
from tests.acl_sets import entries

_LETTERS = b"abcxyzABCDEL019"
_SIGNS = b",;:\"=()`'.*{"
_TEXTS = ("resource_name", "principal", "host", "owner", "expires_at")


def random_acls(draw: random.Random, names: tuple[str, ...]) -> list[NewAcl]:
    """Some ACLs, each of texts that no other one has; a name ends with a number."""
    return [
        NewAcl(
            AclBinding(
                draw.choice((ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)),
                f"{draw.choice(names)}{draw.random()}",
                draw.choice((PatternType.LITERAL, PatternType.PREFIXED)),
                f"User:{draw.choice(names)}{draw.random()}",
                draw.choice(("*", "10.0.0.1", "::1")),
                draw.choice((AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER_CONFIGS)),
                draw.choice((AclPermissionType.ALLOW, AclPermissionType.DENY)),
            )
        )
        for _ in range(4)
    ]


def mutation(raw: bytes, draw: random.Random) -> bytes:
    """A letter, a sign, a line end or blanks that were lost, changed, doubled or put in."""
    kind = draw.randrange(6)
    if kind < 3:
        part = draw.choice((b"\n", b",", b" ", b"\t", b'"', b":"))
        places = [at for at in range(len(raw)) if raw[at : at + 1] == part]
        if places:
            at = draw.choice(places)
            return raw[:at] + draw.choice((b"", part * 2, b" ", b" " * 8)) + raw[at + 1 :]
    at = draw.randrange(len(raw))
    other = draw.choice((bytes([draw.choice(_LETTERS)]), bytes([draw.choice(_SIGNS)]), b"\n", b"\r\n", b" ", b"\t"))
    return raw[:at] + draw.choice((b"", other, other)) + raw[at + draw.randrange(2) :]


def is_told(raw: bytes, acls: list[NewAcl], acl_format: AclFormat) -> bool:
    """Whether a problem is told; if not, every ACL must be there still, or differ in one and the same text."""
    read = entries(raw, acl_format)
    found = [each for _, each in read if isinstance(each, NewAcl)]
    if len(found) < len(read):
        return True
    others = [fields_of(each) for each in found if each not in acls]
    changes = set()
    for lost in (fields_of(each) for each in acls if each not in found):
        twins = [
            field for other in others for field in _TEXTS if lost == {**other, field: lost[field]} and other[field]
        ]
        assert twins, (raw.decode(), lost)
        changes.add((twins[0], lost[twins[0]]))
    assert len(changes) <= 1, raw.decode()
    assert len(found) >= len(acls), raw.decode()
    return False


def fields_of(acl: NewAcl) -> dict[str, Any]:
    return {**acl.binding._asdict(), "expires_at": acl.expires_at, "owner": acl.owner}
