"""Rows of the store as core's values, strictly: what this version does not know is never guessed at."""

import re
from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from app.core.kafka.bindings import AclBinding, AclRow, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import PoisonedRecordException
from app.core.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    FeedHead,
    Record,
    RemoveAccessControlEntryRecord,
)


class Row(Protocol):
    """A row as asyncpg hands it over."""

    def __getitem__(self, column: str, /) -> Any:  # noqa: ANN401 - a column may have any type
        """The column of this name."""


# Only what an ACL can have: UNKNOWN, ANY and MATCH are words of filters.
_RESOURCE_TYPES = {int(code): code for code in ResourceType if code > ResourceType.ANY}
_PATTERN_TYPES = {int(code): code for code in (PatternType.LITERAL, PatternType.PREFIXED)}
_OPERATIONS = {int(code): code for code in AclOperation if code > AclOperation.ANY}
_PERMISSION_TYPES = {int(code): code for code in AclPermissionType if code > AclPermissionType.ANY}

_RESOURCE_TYPE_TEXTS = {str(code): int(code) for code in _RESOURCE_TYPES}
_PATTERN_TYPE_TEXTS = {str(code): int(code) for code in _PATTERN_TYPES}
_OPERATION_TEXTS = {str(code): int(code) for code in _OPERATIONS}
_PERMISSION_TYPE_TEXTS = {str(code): int(code) for code in _PERMISSION_TYPES}

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANINGS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def acl_rows(lines: Sequence[str]) -> list[AclRow]:
    """The ACLs in these lines of COPY's text format: the id in hexadecimal digits, then the fields as in `AclRow`.

    Raises ValueError or KeyError for what is not an ACL.
    """
    rows: list[AclRow] = []
    for line in lines:
        acl_id, resource_type, pattern_type, operation, permission_type, name, principal, host = line.split("\t")
        if "\\" in line:
            name, principal, host = _unescaped(name), _unescaped(principal), _unescaped(host)
        rows.append(
            (
                bytes.fromhex(acl_id),
                _RESOURCE_TYPE_TEXTS[resource_type],
                _PATTERN_TYPE_TEXTS[pattern_type],
                _OPERATION_TEXTS[operation],
                _PERMISSION_TYPE_TEXTS[permission_type],
                name,
                principal,
                host,
            ),
        )
    return rows


def _unescaped(field: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), field)


def acl_of(row: Row, id_column: str = "id") -> StandardAcl:
    """The ACL in this row. Raises ValueError or KeyError for codes or gaps that no ACL has."""
    binding = AclBinding(
        _RESOURCE_TYPES[row["resource_type"]],
        row["resource_name"],
        _PATTERN_TYPES[row["pattern_type"]],
        row["principal"],
        row["host"],
        _OPERATIONS[row["operation"]],
        _PERMISSION_TYPES[row["permission_type"]],
    )
    if None in (binding.resource_name, binding.principal, binding.host, row[id_column]):
        raise ValueError("a field of the ACL is missing")
    # asyncpg's UUID is one, made and compared ten times faster than Python's own.
    return StandardAcl(row[id_column], binding)


def head_of(row: Row) -> FeedHead:
    """The head in this row of `acl_head`."""
    return FeedHead(
        cluster_id=row["cluster_id"],
        epoch=UUID(bytes=row["epoch"].bytes),
        last_offset=row["last_offset"],
        hash=row["head_hash"],
        log_start_offset=row["log_start_offset"],
    )


def record_of(row: Row) -> Record:
    """The record in this row of `acl_record`. Raises PoisonedRecordException for one that this version can't read."""
    offset = row["offset"]
    frame = {name: row[name] for name in ("offset", "tx_last", "recorded_at", "actor", "hash")}
    try:
        match row["kind"]:
            case "AccessControlEntryRecord":
                return AccessControlEntryRecord(acl=acl_of(row, "acl_id"), **frame)
            case "RemoveAccessControlEntryRecord":
                return RemoveAccessControlEntryRecord(acl=acl_of(row, "acl_id"), **frame)
            case "ConfigRecord" if row["config_name"] is not None:
                return ConfigRecord(name=row["config_name"], value=row["config_value"], **frame)
    except (KeyError, ValueError) as fault:
        raise PoisonedRecordException(offset, "a code or a field that this version can't read") from fault
    raise PoisonedRecordException(offset, f"`{row['kind']}` is no kind of record that this version can read")


class OrderCheck:
    """Whether rows that come in pieces are whole transactions that follow an offset without a hole."""

    def __init__(self, after: int, last_offset: int) -> None:
        self._after = after
        self._last_offset = last_offset
        self._expected = after + 1
        self._tx_last = after

    def pass_through(self, rows: Sequence[Row]) -> None:
        """The next rows. Raises PoisonedRecordException for the first that is out of order."""
        for row in rows:
            expected = self._expected
            if row["offset"] != expected:
                raise _hole(expected)
            if expected > self._last_offset:
                raise PoisonedRecordException(expected, "lies beyond the head of the feed")
            if expected > self._tx_last:
                self._tx_last = row["tx_last"]
            if row["tx_last"] != self._tx_last or self._tx_last < expected:
                raise PoisonedRecordException(expected, "names another end of its transaction than its neighbours")
            self._expected += 1

    def end(self) -> None:
        """No more rows. Raises PoisonedRecordException if there must be more."""
        if self._expected <= max(self._tx_last, min(self._last_offset, self._after + 1)):
            raise _hole(self._expected)


def _hole(offset: int) -> PoisonedRecordException:
    return PoisonedRecordException(offset, "missing from the feed: offsets are dense, so a hole is damage")
