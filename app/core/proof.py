"""Recomputes chain and digest of a feed, from its records and rows alone (docs/feed.md).

It shares with the feed's writers only how a record and a row look as bytes.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from app.core.digest import MODULUS, acl_digest, config_digest
from app.core.epochs import Epochs, is_later
from app.core.kafka.bindings import StandardAcl
from app.core.records import GENESIS_HASH, AccessControlEntryRecord, ConfigRecord, Record, record_hash


class FeedDamagedError(Exception):
    """What was read is not the history of a store; the message says where and why."""


def check_epochs(epochs: Epochs, offset: int) -> None:
    """Raises FeedDamagedError unless each is later than the one before, and the last began at the offset or before."""
    for before, after in pairwise(epochs.rows):
        if not is_later(after.id, before.id):
            raise FeedDamagedError(f"epoch {after.id} follows {before.id}, and is not a later one")
    last = epochs.rows[-1]
    if last.first_offset > offset:
        raise FeedDamagedError(f"epoch {last.id} begins after offset {last.first_offset}, but the feed is at {offset}")


class FeedProof:
    """Follows a feed from its beginning, or from a snapshot, or, without an image, from a record in the middle.

    Raises FeedDamagedError for anything that doesn't fit; it is of no use afterwards.
    """

    def __init__(self) -> None:
        self.offset = 0
        self.hash = GENESIS_HASH
        self.records = 0
        self._digest: int | None = 0
        self._acls: dict[bytes, tuple[bytes, int]] = {}
        self._keys: set[bytes] = set()
        self._configs: dict[str, str] = {}

    @property
    def digest(self) -> int | None:
        """The digest of the rows so far; None if the image is not known."""
        return None if self._digest is None else self._digest % MODULUS

    @property
    def acl_count(self) -> int:
        return len(self._acls)

    @property
    def config_count(self) -> int:
        return len(self._configs)

    def begin(self, offset: int, chained: bytes, *, image_known: bool = True) -> None:
        """Go on from this offset and hash, with the rows of `add_acls` and `add_configs`, or without any image."""
        self.offset, self.hash = offset, chained
        self._digest = 0 if image_known else None
        self._acls, self._keys, self._configs = {}, set(), {}

    def add_acls(self, acls: Sequence[StandardAcl]) -> None:
        """Adds rows of a snapshot."""
        for acl in acls:
            if acl.id.bytes in self._acls:
                raise FeedDamagedError(f"the ACL {acl.id} is in the snapshot twice")
            self._put(acl)

    def add_configs(self, configs: Mapping[str, str]) -> None:
        for name, value in configs.items():
            self._set(name, value)

    def follow(self, transaction: Sequence[Record], stated_hash: bytes) -> None:
        """Takes one whole transaction, and the hash that is stated for its last record."""
        last = self.offset + len(transaction)
        for record in transaction:
            if (record.offset, record.tx_last) != (self.offset + 1, last):
                raise FeedDamagedError(
                    f"offset {self.offset} is followed by record {record.offset} of a transaction that ends at "
                    f"{record.tx_last}, instead of record {self.offset + 1} of a transaction that ends at {last}"
                )
            self.hash = record_hash(self.hash, record)
            if record.hash not in (b"", self.hash):
                raise FeedDamagedError(f"record {record.offset}: the hash chain is broken")
            self._take(record)
            self.offset = record.offset
            self.records += 1
        if self.hash != stated_hash:
            raise FeedDamagedError(f"the hash at offset {self.offset} is {self.hash.hex()}, not {stated_hash.hex()}")

    def check_at(self, offset: int, chained: bytes, digest: int | None) -> None:
        """Checks what is stated of the state reached; no digest means that none is stated."""
        if offset != self.offset:
            raise FeedDamagedError(f"the feed states that it is at offset {offset}, but it is at {self.offset}")
        if chained != self.hash:
            raise FeedDamagedError(f"the hash at offset {offset} is {self.hash.hex()}, not {chained.hex()}")
        if None not in (digest, self.digest) and digest != self.digest:
            raise FeedDamagedError(f"the digest at offset {offset} is {self.digest:064x}, not {digest:064x}")

    def _take(self, record: Record) -> None:
        if self._digest is None:
            return
        if isinstance(record, ConfigRecord):
            self._set(record.name, record.value)
            return
        acl, at = record.acl, f"record {record.offset}"
        there = self._acls.get(acl.id.bytes)
        key = acl.binding.natural_key
        if there is not None and there[0] != key:
            raise FeedDamagedError(f"{at}: the ACL {acl.id} has other fields than before")
        if isinstance(record, AccessControlEntryRecord):
            if there is None and key in self._keys:
                raise FeedDamagedError(f"{at}: an ACL with these fields already exists")
            self._remove(acl.id.bytes)
            self._put(acl)
        elif there is None:
            raise FeedDamagedError(f"{at}: there is no ACL {acl.id} to remove")
        else:
            self._remove(acl.id.bytes)

    def _put(self, acl: StandardAcl) -> None:
        key, digest = acl.binding.natural_key, acl_digest(acl)
        if key in self._keys:
            raise FeedDamagedError(f"an ACL with the fields of {acl.id} already exists")
        self._acls[acl.id.bytes] = (key, digest)
        self._keys.add(key)
        self._digest = (self._digest or 0) + digest

    def _remove(self, acl_id: bytes) -> None:
        there = self._acls.pop(acl_id, None)
        if there is not None:
            self._keys.discard(there[0])
            self._digest = (self._digest or 0) - there[1]

    def _set(self, name: str, value: str | None) -> None:
        before = self._configs.pop(name, None)
        if value is not None:
            self._configs[name] = value
        self._digest = (self._digest or 0) + config_digest(name, value) - config_digest(name, before)
