"""S(v): what the store held at each offset, replayed from its records; the judge of every answer."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

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
from tests.klamm import Json

T = TypeVar("T")

Seven = tuple[str, str, str, str, str, str, str]
"""The seven fields of an ACL, as the REST API spells them."""


def seven_of(acl: Json) -> Seven:
    """The same of an ACL in an answer."""
    return (
        acl["resource_type"],
        acl["resource_name"],
        acl["pattern_type"],
        acl["principal"],
        acl["host"],
        acl["operation"],
        acl["permission_type"],
    )


def offset_of(token: str) -> int:
    return Token.parse(token).offset


class History:
    """Records from the first one to the head; AssertionError unless they are dense, whole, chained and unambiguous."""

    def __init__(self, records: Sequence[Record], head: FeedHead) -> None:
        self.last_offset = head.last_offset
        self.acls: dict[Seven, str] = {}
        """What all of it leads to: the seven fields and the id."""
        self._names: defaultdict[str, list[tuple[int, bool]]] = defaultdict(list)
        self._configs: defaultdict[str, list[tuple[int, str | None]]] = defaultdict(list)
        chained = GENESIS_HASH
        ids: set[str] = set()
        for at, record in enumerate(records, 1):
            chained = record_hash(chained, record)
            assert (record.offset, record.hash) == (at, chained), f"the feed is damaged at offset {at}"
            if isinstance(record, ConfigRecord):
                self._configs[record.name].append((at, record.value))
            else:
                self._replay(record, ids)
        for before, after in pairwise(records):
            assert before.tx_last in (after.tx_last, before.offset), "a transaction is torn"
        assert (head.last_offset, head.hash) == (len(records), chained)
        assert not records or records[-1].tx_last == head.last_offset

    def _replay(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord, ids: set[str]) -> None:
        fields, acl_id = record.acl.binding.words, str(record.acl.id)
        present = isinstance(record, AccessControlEntryRecord)
        if present:
            assert fields not in self.acls, f"{fields} came twice"
            assert acl_id not in ids, f"the id {acl_id} came twice"
            ids.add(acl_id)
            self.acls[fields] = acl_id
        else:
            assert self.acls.pop(fields, None) == acl_id, f"{fields} went without having been there"
        self._names[record.acl.binding.resource_name].append((record.offset, present))

    def holds(self, resource_name: str, offset: int) -> bool:
        """Whether there was an ACL of this name (a test has one for each) at this offset."""
        return _at(self._names[resource_name], offset, default=False)

    def config(self, name: str, offset: int) -> str | None:
        """The stored value of the property at this offset."""
        return _at(self._configs[name], offset, default=None)

    def results(self, resource_names: Sequence[str], offset: int) -> list[str]:
        """What authorize must answer at this offset to whom these ACLs allow it."""
        return ["ALLOWED" if self.holds(name, offset) else "DENIED" for name in resource_names]


def _at(changes: Sequence[tuple[int, T]], offset: int, default: T) -> T:
    at = bisect_right(changes, offset, key=lambda change: change[0])
    return changes[at - 1][1] if at else default
