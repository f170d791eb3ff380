"""ACLs and records as rows, in and out. Rows are read strictly: unknown values are never guessed at."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from app.core.digest import digest_of_lines
from app.core.kafka.bindings import NO_TERMS, AclBinding, AclRow, AclSlice, AclTerms, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import PoisonedRecordException, UnknownRecordException
from app.core.records import (
    LATEST_HASH_VERSION,
    AccessControlEntryRecord,
    ConfigRecord,
    FeedHead,
    Record,
    RemoveAccessControlEntryRecord,
    hash_version,
)

T = TypeVar("T")

SLICE = 200  # items of a few microseconds each: a slice takes a millisecond or two

BINDING_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "resource_type": "smallint",
        "pattern_type": "smallint",
        "operation": "smallint",
        "permission_type": "smallint",
        "resource_name": "text",
        "principal": "text",
        "host": "text",
    }
)
"""The parts of a binding with their types: columns of `acl` and `acl_record`, in the order of `AclRow`."""

TERMS_COLUMNS: Mapping[str, str] = MappingProxyType({"expires_at": "timestamptz", "owner": "text"})
"""The other columns of an ACL, in the order of `AclTerms`."""

ACL_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "id": "uuid",
        **BINDING_COLUMNS,
        "natural_key": "bytea",
        "created_offset": "bigint",
        "created_at": "timestamptz",
        "created_by": "text",
        **TERMS_COLUMNS,
    }
)
"""The columns of `acl`, in the order of `acl_values`."""

RECORD_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "offset": "bigint",
        "tx_last": "bigint",
        "recorded_at": "timestamptz",
        "kind": "text",
        "acl_id": "uuid",
        **BINDING_COLUMNS,
        "config_name": "text",
        "config_value": "text",
        "actor": "text",
        "hash": "bytea",
        **TERMS_COLUMNS,
        "comment": "text",
        "hash_version": "smallint",
        "was_there": "boolean",
        "prior_expires_at": "timestamptz",
        "prior_owner": "text",
        "prior_value": "text",
    }
)
"""The columns of `acl_record`, in the order of `record_values`. The last four are `PriorValues`, which no hash covers.
"""

PriorValues = tuple[bool, datetime | None, str | None, str | None]
"""Whether the ACL or property existed before a record; the end and owner that the ACL had, or the value."""

NOTHING_PRIOR: PriorValues = (False, None, None, None)


# Only what an ACL can have: UNKNOWN, ANY and MATCH belong to filters.
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
_NO_BINDING = (None,) * len(BINDING_COLUMNS)
# Bytes are written in base64; asyncpg's UUID is one that msgspec does not know.
_TO_JSON = msgspec.json.Encoder(enc_hook=str).encode

binding_values = attrgetter(*BINDING_COLUMNS)  # the values of a binding in the order of BINDING_COLUMNS


def insert_statement(table: str, columns: Mapping[str, str], parameter: int) -> str:
    """Inserts the rows that the parameter has as `json_rows`: cheaper to make than an array for each column."""
    names = ", ".join(f'"{name}"' for name in columns)
    kinds = ", ".join(f'"{name}" {"text" if kind == "bytea" else kind}' for name, kind in columns.items())
    values = [f"decode({name}, 'base64')" if kind == "bytea" else f'"{name}"' for name, kind in columns.items()]
    rows = f"json_to_recordset(${parameter}::json) AS r({kinds})"
    return f"INSERT INTO {table} ({names}) SELECT {', '.join(values)} FROM {rows}"  # noqa: S608 - all of it is declared above


def json_rows(columns: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
    named = [{name: value for name, value in zip(columns, row, strict=True) if value is not None} for row in rows]
    return _TO_JSON(named).decode()


def select_acl_lines(*, ordered: bool) -> str:
    """INVARIANT: as COPY writes them, with null as an empty field, these are the canonical rows of the digest."""
    lines = f"""SELECT encode(uuid_send(id), 'hex'), {", ".join(BINDING_COLUMNS)},
    extract(epoch FROM expires_at)::bigint, owner FROM acl"""  # noqa: S608 - names of columns, declared above
    # left(resource_name, 200) does not change the order but fits the index, so that no full sort is needed.
    order = "resource_type, left(resource_name, 200), resource_name, pattern_type, principal, host, operation"
    return f"{lines} ORDER BY {order}, permission_type" if ordered else lines


async def in_slices(items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """The items in slices, with a turn for the event loop between slices."""
    for start in range(0, len(items), SLICE):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + SLICE]


def acl_values(acl: StandardAcl, key: bytes, record: Record) -> tuple[Any, ...]:
    """`record` is the one that creates the ACL."""
    return (acl.id, *binding_values(acl.binding), key, record.offset, record.recorded_at, record.actor, *acl.terms)


def record_values(record: Record, record_hash: bytes, prior: PriorValues) -> tuple[Any, ...]:
    kind = type(record).__name__
    about: tuple[Any, ...]
    if isinstance(record, ConfigRecord):
        about = (None, *_NO_BINDING, record.name, record.value)
        terms = NO_TERMS
    else:
        about = (record.acl.id, *binding_values(record.acl.binding), None, None)
        terms = record.acl.terms
    frame = record.offset, record.tx_last, record.recorded_at, kind
    said = record.actor, record_hash, *terms, record.comment, hash_version(record)
    return (*frame, *about, *said, *prior)


def acl_slice(lines: Sequence[bytes]) -> AclSlice:
    """Parses COPY's lines, which are the digest's canonical rows. Raises ValueError or KeyError."""
    rows: list[AclRow] = []
    terms: dict[bytes, AclTerms] = {}
    for line in [line.decode() for line in lines]:
        acl_id, resource_type, pattern_type, operation, permission_type, name, principal, host, ends, owner = (
            line.split("\t")
        )
        if "\\" in line:
            name, principal, host, owner = map(_unescaped, (name, principal, host, owner))
        raw_id = bytes.fromhex(acl_id)
        if ends or owner:
            terms[raw_id] = AclTerms(datetime.fromtimestamp(int(ends), UTC) if ends else None, owner or None)
        rows.append(
            (
                raw_id,
                _RESOURCE_TYPE_TEXTS[resource_type],
                _PATTERN_TYPE_TEXTS[pattern_type],
                _OPERATION_TEXTS[operation],
                _PERMISSION_TYPE_TEXTS[permission_type],
                name,
                principal,
                host,
            ),
        )
    return AclSlice(rows, terms, digest_of_lines(lines))


def _unescaped(field: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), field)


def acl_of(row: asyncpg.Record, id_column: str = "id") -> StandardAcl:
    """Raises ValueError or KeyError for codes or gaps that no ACL has."""
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
    return StandardAcl(row[id_column], binding, row["expires_at"], row["owner"])


def head_of(row: asyncpg.Record) -> FeedHead:
    return FeedHead(
        cluster_id=row["cluster_id"],
        epoch=UUID(bytes=row["epoch"].bytes),
        last_offset=row["last_offset"],
        hash=row["head_hash"],
        log_start_offset=row["log_start_offset"],
        digest=digest_in(row),
    )


def digest_in(row: asyncpg.Record) -> int | None:
    return None if row["digest"] is None else int.from_bytes(row["digest"])


def record_of(row: asyncpg.Record) -> Record:
    """Raises PoisonedRecordException, or UnknownRecordException for a record of a later version."""
    offset = row["offset"]
    if row["hash_version"] > LATEST_HASH_VERSION:
        raise UnknownRecordException(offset, f"this version can't read hash version {row['hash_version']}")
    frame = {name: row[name] for name in ("offset", "tx_last", "recorded_at", "actor", "hash", "comment")}
    record: Record
    try:
        match row["kind"]:
            case "AccessControlEntryRecord":
                record = AccessControlEntryRecord(acl=acl_of(row, "acl_id"), **frame)
            case "RemoveAccessControlEntryRecord":
                record = RemoveAccessControlEntryRecord(acl=acl_of(row, "acl_id"), **frame)
            case "ConfigRecord" if row["config_name"] is not None:
                record = ConfigRecord(name=row["config_name"], value=row["config_value"], **frame)
            case kind:
                raise UnknownRecordException(offset, f"`{kind}` is not a kind of record that this version can read")
    except KeyError as code:
        raise UnknownRecordException(offset, f"its ACL has a code that this version can't read: {code}") from None
    except ValueError as fault:
        raise PoisonedRecordException(offset, str(fault)) from None
    if row["hash_version"] != hash_version(record):
        raise PoisonedRecordException(offset, f"hash version {row['hash_version']} does not match its fields")
    return record


class OrderCheck:
    """Checks that rows arriving in pieces are whole transactions that follow an offset without a gap.

    Raises PoisonedRecordException.
    """

    def __init__(self, after: int, last_offset: int) -> None:
        self._after = after
        self._last_offset = last_offset
        self._expected = after + 1
        self._tx_last = after

    def check(self, rows: Sequence[asyncpg.Record]) -> None:
        for row in rows:
            expected = self._expected
            if row["offset"] != expected:
                raise _hole(expected)
            if expected > self._last_offset:
                raise PoisonedRecordException(expected, "it is beyond the head of the feed")
            if expected > self._tx_last:
                self._tx_last = row["tx_last"]
            if row["tx_last"] != self._tx_last or self._tx_last < expected:
                raise PoisonedRecordException(expected, "it names another end of its transaction than its neighbours")
            self._expected += 1

    def check_end(self) -> None:
        if self._expected <= max(self._tx_last, min(self._last_offset, self._after + 1)):
            raise _hole(self._expected)


def _hole(offset: int) -> PoisonedRecordException:
    return PoisonedRecordException(offset, "it is missing from the feed: offsets have no gaps, so records were lost")
