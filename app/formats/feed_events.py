"""The feed as JSON, an event a line (docs/feed.md): records and ACLs with all that their hash and the digest cover."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import IO, Annotated, Literal, get_args
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from app.core.digest import DIGEST_BYTES, digest_of_lines, row_line
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import NO_TERMS, AclBinding, AclRow, AclSlice, AclTerms, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    Record,
    RemoveAccessControlEntryRecord,
    hash_version,
    record_hash,
)
from app.core.token import Token

MAX_ACLS = 1_000
"""ACLs of one `acls` event."""

EndReason = Literal["draining", "slow", "reload", "caller"]

MAX_LINE_BYTES = 64 << 20


_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class NoEventError(ValueError):
    """A line, or a field of it, is not what docs/feed.md says."""


class FeedAcl(msgspec.Struct, gc=False):
    id: UUID
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str
    expires_at: _Moment | None
    owner: str | None


class FeedRecord(msgspec.Struct, omit_defaults=True, gc=False):
    """`acl` of a record that creates or removes an ACL, `name` and `value` of a ConfigRecord.

    `offset` is said where the reader's filter has left records out.
    """

    kind: str
    hash_version: int
    actor: str
    comment: str | None
    acl: FeedAcl | UnsetType = UNSET
    name: str | UnsetType = UNSET
    value: str | UnsetType | None = UNSET
    offset: int | UnsetType = UNSET


class Snapshot(msgspec.Struct, tag_field="type", tag="snapshot", gc=False):
    token: str
    hash: str
    digest: str | None
    cluster_id: str | None
    acl_count: int
    config_count: int
    store_time: _Moment | None = None


class Acls(msgspec.Struct, tag_field="type", tag="acls", gc=False):
    acls: list[FeedAcl]


class Configs(msgspec.Struct, tag_field="type", tag="configs", gc=False):
    configs: dict[str, str]


class Synced(msgspec.Struct, tag_field="type", tag="synced", gc=False):
    token: str
    hash: str
    digest: str | None
    store_time: _Moment | None = None


class Transaction(msgspec.Struct, tag_field="type", tag="transaction", omit_defaults=True, gc=False):
    token: str
    first_offset: int
    last_offset: int
    recorded_at: _Moment
    hash: str
    records: list[FeedRecord]
    left_out: int = 0


class Bookmark(msgspec.Struct, tag_field="type", tag="bookmark", gc=False):
    token: str
    hash: str
    digest: str | None
    age_ms: int
    store_time: _Moment | None = None
    at: _Moment | UnsetType = UNSET
    """When it was written, by the clock of who keeps a file."""
    chain: Sequence[str] | UnsetType = UNSET
    """Ids of the followers from the one that sends this on towards the store."""


class End(msgspec.Struct, tag_field="type", tag="end", gc=False):
    token: str | None
    reason: EndReason


Event = Snapshot | Acls | Configs | Synced | Transaction | Bookmark | End


class _Unknown(msgspec.Struct):
    type: str


encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Event] = msgspec.json.Decoder(Event).decode
_decode_record = msgspec.json.Decoder(FeedRecord).decode
_TRANSACTION, _RECORDS, _BETWEEN = b'{"type":"transaction",', b'"records":[', b',{"kind":'
_decode_type = msgspec.json.Decoder(_Unknown).decode
_TYPES = {each.__struct_config__.tag for each in get_args(Event)}


def decode(line: bytes) -> Event | None:
    """None for an event of a type that this version does not know. Raises NoEventError."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        why = str(fault)
    try:
        if _decode_type(line).type not in _TYPES:
            return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NoEventError(f"no event: {why}") from None
    raise NoEventError(f"not what its type says: {why}")


def long_transaction(line: bytes) -> tuple[bytes, Sequence[bytes]] | None:
    """A transaction's line without its records, and each record's JSON, for `record_in`; None for any other line.

    To decode 100,000 records at once would hold up the event loop for 100 ms. No text of a record can hold the words
    that stand between two of them, as their quotation marks would be escaped.
    """
    begin, end = line.find(_RECORDS), line.rfind(b"]}")
    if not line.startswith(_TRANSACTION) or begin < 0 or end < begin:
        return None
    first = begin + len(_RECORDS)
    return line[:first] + line[end:], line[first:end].split(_BETWEEN)


def record_in(part: bytes) -> FeedRecord:
    """One of the parts of `long_transaction`. Raises NoEventError."""
    try:
        return _decode_record(part if part.startswith(_BETWEEN[1:]) else _BETWEEN[1:] + part)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise NoEventError(f"no record: {fault}") from None


def events_in(stream: IO[bytes]) -> Iterator[tuple[int, Event]]:
    """The events of a file that this version knows, with the numbers of their lines. Raises NoEventError."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise NoEventError(f"line {number} is longer than {MAX_LINE_BYTES} bytes, which no event is")
        if line.isspace():
            continue
        try:
            event = decode(line)
        except NoEventError as fault:
            raise NoEventError(f"line {number} is {fault}") from None
        if event is not None:
            yield number, event


def digest_text(digest: int) -> str:
    return digest.to_bytes(DIGEST_BYTES).hex()


def acl_fields(acl: StandardAcl) -> FeedAcl:
    return FeedAcl(acl.id, *acl.binding.words, acl.expires_at, acl.owner)


def acl_in(fields: FeedAcl) -> StandardAcl:
    """Raises NoEventError."""
    acl_id, *words, ends, owner = msgspec.structs.astuple(fields)
    try:
        return StandardAcl(acl_id, AclBinding.from_words(words), _whole_second(ends), owner)
    except KeyError as word:
        raise NoEventError(f"the ACL {acl_id} has a word that is none of Kafka's: {word}") from None


def slice_of(event: Acls) -> AclSlice:
    """A part of a snapshot, for a replica's image. Raises NoEventError."""
    rows: list[AclRow] = []
    terms: dict[bytes, AclTerms] = {}
    lines: list[bytes] = []
    for each in event.acls:
        try:
            row = (
                each.id.bytes,
                _RESOURCE_TYPES[each.resource_type],
                _PATTERN_TYPES[each.pattern_type],
                _OPERATIONS[each.operation],
                _PERMISSION_TYPES[each.permission_type],
                each.resource_name,
                each.principal,
                each.host,
            )
        except KeyError as word:
            raise NoEventError(f"the ACL {each.id} has a word that is none of Kafka's: {word}") from None
        its_terms = NO_TERMS
        if each.expires_at is not None or each.owner is not None:
            its_terms = terms[each.id.bytes] = AclTerms(_whole_second(each.expires_at), each.owner)
        rows.append(row)
        lines.append(row_line(row, its_terms))
    return AclSlice(rows, terms, digest_of_lines(lines))


def record_fields(record: Record, *, with_offset: bool = False) -> FeedRecord:
    offset = record.offset if with_offset else UNSET
    common = type(record).__name__, hash_version(record), record.actor, record.comment
    if isinstance(record, ConfigRecord):
        return FeedRecord(*common, name=record.name, value=record.value, offset=offset)
    return FeedRecord(*common, acl=acl_fields(record.acl), offset=offset)


def transaction_json(epoch: UUID, records: Sequence[Record], parts: Sequence[bytes]) -> bytes:
    """The event of a transaction; `parts` is the JSON of those of its records that are shown.

    A transaction of 100,000 records, encoded as one, would hold up the event loop for 40 ms.
    """
    first, last = records[0], records[-1]
    token, left_out = str(Token(epoch, last.offset)), len(records) - len(parts)
    event = Transaction(token, first.offset, last.offset, last.recorded_at, last.hash.hex(), [], left_out)
    head, _, tail = encode(event).rpartition(b"[]")
    return b"%b[%b]%b" % (head, b",".join(parts), tail)


def records_in(event: Transaction) -> list[Record]:
    """Of a whole transaction, without their hashes. Raises NoEventError."""
    return list(_records_in(event))


def _records_in(event: Transaction) -> Iterator[Record]:
    if event.left_out or not event.records or event.last_offset - event.first_offset + 1 != len(event.records):
        raise NoEventError("not a whole transaction: its records don't fill its offsets")
    at, first, last = event.recorded_at.astimezone(UTC), event.first_offset, event.last_offset
    for number, each in enumerate(event.records):
        yield _record_in(each, first + number, last, at)


def chained_records(event: Transaction, previous: bytes) -> Iterator[Record]:
    """As `records_in`, each with its hash, which follows from `previous`, the hash before the transaction.

    It is for who may not do all at once. Raises NoEventError, at the end if that does not lead to the stated hash.
    """
    for record in _records_in(event):
        previous = record_hash(previous, record)
        yield replace(record, hash=previous)
    if previous.hex() != event.hash:
        raise NoEventError(f"the hash at offset {event.last_offset} is {previous.hex()}, not {event.hash}")


def snapshot_of(image: AuthorizerImage, store_time: datetime | None = None) -> Snapshot:
    counts = len(image.index), len(image.overrides)
    return Snapshot(str(image.token), image.hash.hex(), digest_of(image.digest), image.cluster_id, *counts, store_time)


def configs_of(image: AuthorizerImage) -> Configs:
    return Configs(dict(image.overrides))


def synced_of(image: AuthorizerImage, store_time: datetime | None = None) -> Synced:
    return Synced(str(image.token), image.hash.hex(), digest_of(image.digest), store_time)


def digest_of(digest: int | None) -> str | None:
    return None if digest is None else digest_text(digest)


def _record_in(fields: FeedRecord, offset: int, tx_last: int, at: datetime) -> Record:
    record: Record
    actor, comment = fields.actor, fields.comment
    kind = _ACL_RECORDS.get(fields.kind)
    if kind is not None and isinstance(fields.acl, FeedAcl):
        record = kind(offset, tx_last, acl_in(fields.acl), at, actor, b"", comment)
    elif fields.kind == "ConfigRecord" and isinstance(fields.name, str) and not isinstance(fields.value, UnsetType):
        record = ConfigRecord(offset, tx_last, fields.name, fields.value, at, actor, b"", comment)
    else:
        raise NoEventError(f"`{fields.kind}` at offset {offset} is no record that this version can read")
    if fields.hash_version != hash_version(record):
        raise NoEventError(f"hash version {fields.hash_version} is not that of what record {offset} says")
    return record


_RESOURCE_TYPES = {each.name: int(each) for each in ResourceType}
_PATTERN_TYPES = {each.name: int(each) for each in PatternType}
_OPERATIONS = {each.name: int(each) for each in AclOperation}
_PERMISSION_TYPES = {each.name: int(each) for each in AclPermissionType}
_ACL_RECORDS = {each.__name__: each for each in (AccessControlEntryRecord, RemoveAccessControlEntryRecord)}


def _whole_second(moment: datetime | None) -> datetime | None:
    """An ACL's end. A fraction would be covered by no hash."""
    if moment is not None and moment.microsecond:
        raise NoEventError(f"an ACL ends at {moment.isoformat()}, which is no whole second")
    return None if moment is None else moment.astimezone(UTC)
