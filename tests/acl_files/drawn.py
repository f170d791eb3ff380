"""Drawn files of ACLs. All names are drawn words that stand nowhere else."""

import random
from datetime import UTC, datetime

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.registry import AclFormat
from tests.acl_files.file import AclFile, word
from tests.acl_files.line_styles import IN_LINES
from tests.acl_files.tree_styles import IN_TREES

TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE)
_STYLES = {**IN_TREES, **IN_LINES}
PERMISSIONS = (AclPermissionType.DENY, AclPermissionType.ALLOW)


def plain_set(draw: random.Random, most: int = 4) -> list[AclBinding]:
    """ACLs of plain words, some of one principal, and some of one resource."""
    users = [f"User:{word(draw)}" for _ in range(2)]
    names = [word(draw) for _ in range(3)]
    found = [
        AclBinding(
            draw.choice(TYPES),
            draw.choice(names) if draw.random() < 0.3 else word(draw),
            draw.choice(PATTERNS),
            draw.choice(users),
            "*" if draw.random() < 0.3 else word(draw),
            draw.choice(OPERATIONS),
            draw.choice(PERMISSIONS),
        )
        for _ in range(draw.randrange(1, most + 1))
    ]
    if draw.random() < 0.4:
        found.append(found[0]._replace(operation=AclOperation.DELETE))
    return list(dict.fromkeys(found))


def drawn_file(acl_format: AclFormat, draw: random.Random) -> AclFile:
    """A file of the format in one of its styles."""
    acls = [NewAcl(each) for each in plain_set(draw)]
    if acl_format.says_terms and draw.random() < 0.5:
        acls = [_with_terms(each, draw) for each in acls]
    return _STYLES[acl_format.name](acl_format, acls, draw)


def _with_terms(acl: NewAcl, draw: random.Random) -> NewAcl:
    ends = datetime(2090 + draw.randrange(9), draw.randrange(1, 13), draw.randrange(1, 29), 12, tzinfo=UTC)
    return NewAcl(acl.binding, *draw.choice(((ends, word(draw)), (ends, None), (None, word(draw)))))
