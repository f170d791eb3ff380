"""The state that decisions are made from: the ACLs, the effective configuration and their offset (KIP-801).

An image is one value, replaced by assignment: a reader that takes the reference once decides at one offset.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf
from uuid import UUID

from app.core.digest import MODULUS, acl_digest, config_digest
from app.core.epochs import Epochs
from app.core.groups import Groups
from app.core.index.bulk import add_rows
from app.core.index.staging import StagedIndex
from app.core.index.tree import AclIndex
from app.core.index.unions import Union, Unions
from app.core.kafka.bindings import AclBinding, AclRow, AclSlice, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import CONFIG_NAMES, AuthorizerConfig, effective_config, validate_config
from app.core.kafka.errors import InvalidRequestException, PoisonedRecordException, UnknownRecordException
from app.core.kafka.hosts import ClientAddress
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

_AT_ONCE = 25
_MOST_ASKERS = 4_096
_DAMAGED = (
    "the tables `acl` and `config` do not match the digest in `acl_head`: rows were lost or changed outside Klamm; "
    "run `klamm verify` for details, and see docs/feed.md for how to recover"
)
_ACL_CODES = frozenset(
    product(
        [each for each in ResourceType if each > ResourceType.ANY],
        (PatternType.LITERAL, PatternType.PREFIXED),
        [each for each in AclOperation if each > AclOperation.ANY],
        (AclPermissionType.DENY, AclPermissionType.ALLOW),
    )
)
"""The valid codes of an ACL; UNKNOWN, ANY and MATCH belong to filters."""


@dataclass(frozen=True, slots=True)
class AuthorizerImage:
    """The ACLs and configuration at one offset of one store.

    `offset` is -1, `epoch` and `cluster_id` are None until the first load; `overrides` are the stored configuration
    values that stand over the start-up ones, also those of names that only a later version knows.
    """

    startup: AuthorizerConfig
    config: AuthorizerConfig
    index: AclIndex = field(repr=False)
    overrides: Mapping[str, str] = field(default_factory=dict)
    epoch: UUID | None = None
    cluster_id: str | None = None
    offset: int = -1
    hash: bytes = GENESIS_HASH
    digest: int | None = None
    """The order-free digest of the ACLs and `overrides`; None for an image that is not from a store's snapshot."""
    epochs: Epochs | None = None
    """The epochs of its history up to `offset`, of which `epoch` is the last."""
    now: float = inf
    """The store's time, at most, in seconds since 1970: an ALLOW that has ended by then is not seen.

    INVARIANT: until `as_of` sets it, every ALLOW that has an end counts as ended.
    """
    _askers: dict[str, ClientAddress] = field(default_factory=dict, repr=False, compare=False)
    _unions: Unions = field(default_factory=Unions, repr=False, compare=False)

    @staticmethod
    def empty(startup: AuthorizerConfig) -> "AuthorizerImage":
        """The image before the first load, which answers super users of the start-up configuration only."""
        return AuthorizerImage(startup=startup, config=startup, index=AclIndex())

    @property
    def loading_complete(self) -> bool:
        """Whether this image holds a store's state; until then only super users may be answered (KIP-801)."""
        return self.epoch is not None

    @property
    def token(self) -> Token | None:
        return None if self.epoch is None else Token(self.epoch, self.offset)

    def has(self, position: Token) -> bool:
        """Whether the position is a part of the history up to here."""
        if position.epoch == self.epoch:
            return position.offset <= self.offset
        return self.epochs is not None and self.epochs.has(position, self.offset)

    def within(self, epochs: Epochs) -> "AuthorizerImage":
        """The same state, in the epochs of the history that continues it."""
        if epochs is self.epochs:
            return self
        passed = epochs.upto(self.offset)
        return self if passed == self.epochs else replace(self, epochs=passed, epoch=passed.last)

    @property
    def acl_count(self) -> int:
        """How many ACLs there are; -1 until loaded (KIP-504)."""
        return len(self.index) if self.loading_complete else -1

    @property
    def unknown_configs(self) -> list[str]:
        """Names of stored properties that only a later version knows; they have no effect here."""
        return [name for name in self.overrides if name not in CONFIG_NAMES]

    def as_of(self, now: float) -> "AuthorizerImage":
        """The same ACLs as they stand at this time."""
        return self if now == self.now else replace(self, now=now, _askers={})

    def end_for_good(self) -> Iterator[None]:
        """Makes what has ended by `now` stay so, in short steps. The index must not change meanwhile."""
        return self.index.end_for_good(self.now)

    def set_back(self, now: float) -> "AuthorizerImage":
        """The same ACLs at a time that may be earlier.

        INVARIANT: what had ended stays ended, so take all steps of `end_for_good` first.
        """
        return replace(self, now=now, _askers={}, _unions=Unions())

    def asker(self, address: ClientAddress) -> ClientAddress:
        """The address as of this image's time; the same object each time, as masks remember which one they answered."""
        asker = self._askers.get(address.text)
        if asker is None:
            if len(self._askers) >= _MOST_ASKERS:
                self._askers.clear()
            asker = self._askers[address.text] = replace(address, asked_at=self.now)
        return asker

    def union(self, groups: Groups) -> Union:
        """The ACLs of these groups, merged as far as they are; valid until the next await."""
        return self._unions.of(groups, self.index, self.offset)

    def has_ended(self, row: int) -> bool:
        """Whether the table's row is an ALLOW that has ended but is not removed yet."""
        ends_at = self.index.table.ends.get(row)
        return ends_at is not None and ends_at <= self.now

    def has_acl_ended(self, acl: StandardAcl) -> bool:
        """The same of one of its ACLs."""
        row = None if acl.expires_at is None else self.index.table.find(acl.id.bytes)
        return row is not None and self.has_ended(row)

    def apply(self, transaction: Sequence[Record]) -> "AuthorizerImage":
        """The image after one whole transaction of the feed. The index is changed in place.

        Raises PoisonedRecordException, with nothing changed, if any of its records can't follow this image.
        """
        checks = _Checks(self)
        for record in transaction:
            checks.follow(record, transaction[-1].offset)
        # INVARIANT: nothing below raises; the checks above have seen every record against this very index.
        for record in transaction:
            _take(self.index, record, checks.replacing)
        return _after(self, transaction[-1], checks)


class StagedTransaction:
    """A long transaction, prepared in short steps and then made visible at once.

    The image must stay the newest of its index meanwhile. Run `steps`, which raises PoisonedRecordException for a
    record that can't follow, to the end, then `commit`; or `abandon`, which leaves the image as it was. After the
    commit, `tidy` frees what is no longer needed.
    """

    def __init__(self, image: AuthorizerImage, transaction: Sequence[Record]) -> None:
        self._image = image
        self._transaction = transaction
        self._index = StagedIndex(image.index)
        self._after: AuthorizerImage | None = None

    def steps(self) -> Iterator[None]:
        # INVARIANT: until the commit no reader of the image sees anything of this.
        checks, last = _Checks(self._image), self._transaction[-1]
        for number, record in enumerate(self._transaction):
            checks.follow(record, last.offset)
            if number % _AT_ONCE == 0:
                yield
        for number, record in enumerate(self._transaction):
            _take(self._index, record, checks.replacing)
            if number % _AT_ONCE == 0:
                yield
        yield from self._index.settle()
        self._after = _after(self._image, last, checks)

    def commit(self) -> AuthorizerImage:
        if self._after is None:
            raise RuntimeError("not all steps have been taken")
        self._index.commit()
        return self._after

    def abandon(self) -> None:
        self._index.abandon()

    def tidy(self) -> Iterator[None]:
        return self._index.tidy()


class ImageBuilder:
    def __init__(self, startup: AuthorizerConfig) -> None:
        self._startup = startup
        self.index = AclIndex()
        self._overrides: dict[str, str] = {}
        self._digest: int | None = None

    def add_rows(self, rows: Sequence[AclRow]) -> None:
        """Add one slice of the snapshot. Raises PoisonedRecordException for a row that is no ACL."""
        for row in rows:
            if row[1:5] not in _ACL_CODES:
                raise UnknownRecordException(-1, f"the snapshot holds an ACL with unknown codes {row[1:5]}")
        add_rows(self.index, rows)

    def add_terms(self, some: AclSlice) -> None:
        """Add what a slice holds besides its rows."""
        if some.terms:
            for row in some.rows:
                terms = some.terms.get(row[0])
                if terms is not None:
                    self.index.set_terms(StandardAcl.from_row(row).binding, terms)
        self._digest = (self._digest or 0) + some.digest

    def set_configs(self, overrides: Mapping[str, str]) -> None:
        """Take the snapshot's stored configuration, once.

        Names that this version does not know are kept. Raises PoisonedRecordException for a known one's invalid value.
        """
        for name, value in overrides.items():
            _check_config(-1, name, value)
        self._overrides = dict(overrides)
        self._digest = (self._digest or 0) + sum(config_digest(name, value) for name, value in overrides.items())

    def check_digest(self, head: FeedHead) -> None:
        """Raises PoisonedRecordException if the rows are not those that the head's digest covers."""
        if head.digest is not None and (self._digest or 0) % MODULUS != head.digest:
            raise PoisonedRecordException(-1, _DAMAGED)

    def build(self, head: FeedHead) -> AuthorizerImage:
        return AuthorizerImage(
            startup=self._startup,
            config=effective_config(self._startup, self._overrides),
            index=self.index,
            overrides=self._overrides,
            epoch=head.epoch,
            cluster_id=head.cluster_id,
            offset=head.last_offset,
            hash=head.hash,
            digest=None if self._digest is None else self._digest % MODULUS,
            epochs=head.epochs,
        )


class _Checks:
    """Every record of a transaction against the image; nothing is changed."""

    __slots__ = ("_changed", "_hash", "_index", "_offset", "digest", "overrides", "replacing")

    def __init__(self, image: AuthorizerImage) -> None:
        self._offset, self._hash, self._index = image.offset, image.hash, image.index
        self._changed: dict[AclBinding, StandardAcl | None] = {}
        self.overrides = image.overrides
        """The stored configuration after the records so far; the image's own object while none has changed it."""
        self.digest = image.digest
        self.replacing: set[int] = set()
        """Offsets of records that give an existing ACL other terms."""

    def follow(self, record: Record, last_offset: int) -> None:
        offset = self._offset = self._offset + 1
        self._hash = record_hash(self._hash, record)
        if record.offset != offset:
            raise PoisonedRecordException(offset, f"the feed has a gap: offset {record.offset} came instead")
        if record.tx_last != last_offset:
            raise PoisonedRecordException(offset, "the transaction is incomplete")
        if record.hash != self._hash:
            raise PoisonedRecordException(offset, "the hash chain is broken")
        if isinstance(record, ConfigRecord):
            self._follow_config(record)
        else:
            self._follow_acl(record)

    def _follow_config(self, record: ConfigRecord) -> None:
        _check_config(record.offset, record.name, record.value)
        self._move_digest(
            config_digest(record.name, record.value), config_digest(record.name, self.overrides.get(record.name))
        )
        overrides = {name: value for name, value in self.overrides.items() if name != record.name}
        if record.value is not None:
            overrides[record.name] = record.value
        self.overrides = overrides

    def _follow_acl(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        acl, binding = record.acl, record.acl.binding
        if acl.row[1:5] not in _ACL_CODES:
            raise UnknownRecordException(record.offset, "the ACL has unknown codes")
        present = self._changed[binding] if binding in self._changed else self._index.find(binding)
        if isinstance(record, AccessControlEntryRecord):
            if present is not None:
                if present.id != acl.id or present.terms == acl.terms:
                    raise PoisonedRecordException(record.offset, f"the ACL {present.id} already exists")
                self.replacing.add(record.offset)
            self._changed[binding] = acl
            self._move_digest(acl_digest(acl), 0 if present is None else acl_digest(present))
        else:
            if present is None or present.id != acl.id:
                raise PoisonedRecordException(record.offset, f"there is no ACL {acl.id} to remove")
            self._changed[binding] = None
            self._move_digest(0, acl_digest(present))

    def _move_digest(self, added: int, removed: int) -> None:
        if self.digest is not None:
            self.digest = (self.digest + added - removed) % MODULUS


def _take(index: AclIndex, record: Record, replacing: Container[int]) -> None:
    if isinstance(record, AccessControlEntryRecord):
        acl = record.acl
        if record.offset not in replacing:
            index.add(acl.row)
        # Most ACLs have no terms, neither before nor now.
        if record.offset in replacing or acl.has_terms:
            index.set_terms(acl.binding, acl.terms)
    elif isinstance(record, RemoveAccessControlEntryRecord):
        index.remove(record.acl.binding)


def _after(image: AuthorizerImage, last: Record, checks: _Checks) -> AuthorizerImage:
    after, overrides = replace(image, offset=last.offset, hash=last.hash, digest=checks.digest), checks.overrides
    if overrides is image.overrides:
        return after
    return replace(after, overrides=overrides, config=effective_config(image.startup, overrides))


def _check_config(offset: int, name: str, value: str | None) -> None:
    # A later version may have properties that this one does not know: they are kept, proved and handed on.
    if name not in CONFIG_NAMES:
        if not name or "\0" in name or "\0" in (value or ""):
            raise PoisonedRecordException(offset, "no property can have this name or value")
        return
    try:
        validate_config(name, value)
    except InvalidRequestException as refusal:
        raise PoisonedRecordException(offset, refusal.message) from refusal
