"""The state that decisions stand on: the ACLs, the effective configuration and the offset they belong to (KIP-801).

An image is one value, replaced by assignment: whoever reads the reference once decides at one offset.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from app.core.bindings import AclBinding, AclRow, StandardAcl
from app.core.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.configs import AuthorizerConfig, effective_config, validate_config
from app.core.errors import InvalidRequestException, PoisonedRecordException
from app.core.index import AclIndex
from app.core.records import (
    GENESIS_HASH,
    AccessControlEntryRecord,
    ConfigRecord,
    FeedHead,
    Record,
    RemoveAccessControlEntryRecord,
    record_hash,
)
from app.core.token import Token


@dataclass(frozen=True, slots=True)
class AuthorizerImage:
    """The ACLs and configuration at one offset of one store.

    `offset` is -1, `epoch` and `cluster_id` are None until the first load; `overrides` are the stored configuration
    values that stand over the start-up ones.
    """

    startup: AuthorizerConfig
    config: AuthorizerConfig
    index: AclIndex = field(repr=False)
    overrides: Mapping[str, str] = field(default_factory=dict)
    epoch: UUID | None = None
    cluster_id: str | None = None
    offset: int = -1
    hash: bytes = GENESIS_HASH

    @staticmethod
    def empty(startup: AuthorizerConfig) -> "AuthorizerImage":
        """Before the first load: good for super users of the start-up configuration, and nobody else."""
        return AuthorizerImage(startup=startup, config=startup, index=AclIndex())

    @property
    def loading_complete(self) -> bool:
        """Whether this image holds a store's state; until then only super users may be answered (KIP-801)."""
        return self.epoch is not None

    @property
    def token(self) -> Token | None:
        """The consistency token of answers from this image; None before the first load."""
        return None if self.epoch is None else Token(self.epoch, self.offset)

    @property
    def acl_count(self) -> int:
        """How many ACLs there are; -1 until loaded (KIP-504)."""
        return len(self.index) if self.loading_complete else -1

    def apply(self, transaction: Sequence[Record]) -> "AuthorizerImage":
        """The image after one whole transaction of the feed. The index is changed in place.

        Raises PoisonedRecordException with nothing changed if any record of it can't follow this image.
        """
        overrides = _check(self, transaction)
        # INVARIANT: nothing below raises; the checks above have seen every record against this very index.
        for record in transaction:
            if isinstance(record, AccessControlEntryRecord):
                self.index.add(record.acl.row)
            elif isinstance(record, RemoveAccessControlEntryRecord):
                self.index.remove(record.acl.binding)
        last = transaction[-1]
        image = replace(self, offset=last.offset, hash=last.hash)
        if overrides is self.overrides:
            return image
        return replace(image, overrides=overrides, config=effective_config(self.startup, overrides))


class ImageBuilder:
    """Builds an image from a snapshot, slice by slice, beside the one in use."""

    def __init__(self, startup: AuthorizerConfig) -> None:
        self._startup = startup
        self._index = AclIndex()
        self._overrides: dict[str, str] = {}

    def add_rows(self, rows: Sequence[AclRow]) -> None:
        """Add one slice of the snapshot. Raises PoisonedRecordException for a row that is no ACL."""
        for row in rows:
            if not _is_acl(*row[1:5]):
                raise PoisonedRecordException(-1, f"the snapshot holds an ACL with unknown codes {row[1:5]}")
            self._index.add(row)

    def set_configs(self, overrides: Mapping[str, str]) -> None:
        """Take the snapshot's stored configuration. Raises PoisonedRecordException for a value that is none."""
        for name, value in overrides.items():
            _check_config(-1, name, value)
        self._overrides = dict(overrides)

    def build(self, head: FeedHead) -> AuthorizerImage:
        """The image at the snapshot's head."""
        return AuthorizerImage(
            startup=self._startup,
            config=effective_config(self._startup, self._overrides),
            index=self._index,
            overrides=self._overrides,
            epoch=head.epoch,
            cluster_id=head.cluster_id,
            offset=head.last_offset,
            hash=head.hash,
        )


def _check(image: AuthorizerImage, transaction: Sequence[Record]) -> Mapping[str, str]:
    """Every record against the image; returns the overrides after the transaction (the same object if unchanged)."""
    offset, chain = image.offset, image.hash
    overrides = image.overrides
    changed: dict[AclBinding, StandardAcl | None] = {}
    for record in transaction:
        offset += 1
        chain = record_hash(chain, record)
        if record.offset != offset:
            raise PoisonedRecordException(offset, f"the feed has a hole: offset {record.offset} came instead")
        if record.tx_last != transaction[-1].offset:
            raise PoisonedRecordException(offset, "the transaction is not whole")
        if record.hash != chain:
            raise PoisonedRecordException(offset, "the hash chain is broken")
        if isinstance(record, ConfigRecord):
            _check_config(offset, record.name, record.value)
            overrides = {name: value for name, value in overrides.items() if name != record.name}
            if record.value is not None:
                overrides[record.name] = record.value
        else:
            _check_acl(image.index, changed, record)
    return overrides


def _check_acl(
    index: AclIndex,
    changed: dict[AclBinding, StandardAcl | None],
    record: AccessControlEntryRecord | RemoveAccessControlEntryRecord,
) -> None:
    acl, binding = record.acl, record.acl.binding
    if not _is_acl(*acl.row[1:5]):
        raise PoisonedRecordException(record.offset, "the ACL has unknown codes")
    present = changed[binding] if binding in changed else index.find(binding)
    if isinstance(record, AccessControlEntryRecord):
        if present is not None:
            raise PoisonedRecordException(record.offset, f"the ACL {present.id} is there already")
        changed[binding] = acl
    else:
        if present is None or present.id != acl.id:
            raise PoisonedRecordException(record.offset, f"there is no ACL {acl.id} to remove")
        changed[binding] = None


def _check_config(offset: int, name: str, value: str | None) -> None:
    try:
        validate_config(name, value)
    except InvalidRequestException as refusal:
        raise PoisonedRecordException(offset, refusal.message) from refusal


def _is_acl(resource_type: int, pattern_type: int, operation: int, permission_type: int) -> bool:
    return (
        ResourceType.from_code(resource_type) > ResourceType.ANY
        and pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        and AclOperation.from_code(operation) > AclOperation.ANY
        and permission_type in (AclPermissionType.DENY, AclPermissionType.ALLOW)
    )
