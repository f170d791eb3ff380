"""Images and transactions for tests of what is prepared beside an image."""

import gc
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from app.core.image import AuthorizerImage, StagedTransaction
from app.core.index.overlays import Changes, Overlay
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclPermissionType, PatternType
from app.core.kafka.configs import AuthorizerConfig
from app.core.records import AccessControlEntryRecord, Record, RemoveAccessControlEntryRecord
from tests.chains import config, gone, put, transaction
from tests.dumps import dump
from tests.images import numbered
from tests.updates import topic

STARTUP = AuthorizerConfig(super_users=frozenset({"User:root"}), allow_everyone_if_no_acl_found=True)
AclRecord = AccessControlEntryRecord | RemoveAccessControlEntryRecord
CROWD = [topic("a", f"User:{n:02d}") for n in range(70)]
HOSTS = [
    topic("ab", pattern_type=PatternType.PREFIXED)._replace(host=host)
    for n in range(35)
    for host in (f"10.0.0.{n}", f"10.0.{n}.0/24")
]
DENIALS = [each._replace(permission_type=AclPermissionType.DENY) for each in (CROWD[0], topic("*"), *HOSTS[:2])]
LARGE = [*CROWD, *HOSTS]
"""Patterns with many rows: of many principals, and of one with many hosts."""


class Held:
    """What is there, and the records by which it changes."""

    def __init__(self, base: Sequence[AclBinding]) -> None:
        self._there = {acl.binding: acl for acl in numbered(base)}
        self._base = list(self._there)
        self._number = 1_000

    @property
    def acls(self) -> list[StandardAcl]:
        return list(self._there.values())

    def toggled(self, wanted: Sequence[AclBinding | int]) -> list[AclRecord]:
        """The records of these toggles, still without transaction and hash."""
        return [self._toggled(each) for each in wanted if self._base or not isinstance(each, int)]

    def _toggled(self, wanted: AclBinding | int) -> AclRecord:
        binding = self._base[wanted % len(self._base)] if isinstance(wanted, int) else wanted
        known = self._there.pop(binding, None)
        if known is not None:
            return gone(binding, known.id.int)
        self._number += 1
        self._there[binding] = StandardAcl(UUID(int=self._number), binding)
        return put(binding, self._number)


def chained(image: AuthorizerImage, drafts: Sequence[Record]) -> list[Record]:
    return transaction(image.offset, image.hash, [*drafts, config("audit.level", "WARN")])


def whole(image: AuthorizerImage) -> tuple[Any, ...]:
    """Everything that the image knows."""
    return dump(image.index), image.offset, image.hash, image.config, image.overrides


def in_steps(image: AuthorizerImage, records: Sequence[Record]) -> AuthorizerImage:
    staged = StagedTransaction(image, records)
    for _ in staged.steps():
        pass
    after = staged.commit()
    for _ in staged.tidy():
        pass
    return after


def overlays_in(image: AuthorizerImage) -> list[object]:
    """What has stayed of a transaction's making in the index that readers use."""
    reached: dict[int, object] = {}
    coming: list[object] = [image.index]
    while coming:
        each = coming.pop()
        if id(each) not in reached and not isinstance(each, type):
            reached[id(each)] = each
            coming += gc.get_referents(each)
    return [each for each in reached.values() if isinstance(each, Overlay | Changes)]
