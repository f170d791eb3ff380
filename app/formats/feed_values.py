"""Records, ACLs and images as events of the feed, and back, with all that their hash and the digest cover."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from app.core.digest import DIGEST_BYTES, digest_of_lines, row_line
from app.core.epochs import Epoch, Epochs
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import NO_TERMS, AclBinding, AclRow, AclSlice, AclTerms, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.validation import refusal_of_owner, refusal_of_texts
from app.core.records import (
    LATEST_HASH_VERSION,
    AccessControlEntryRecord,
    ConfigRecord,
    Record,
    RemoveAccessControlEntryRecord,
    hash_version,
    record_hash,
)
from app.core.spelling import printable
from app.core.token import Token
from app.formats.feed_events import (
    Acls,
    Configs,
    FeedAcl,
    FeedEpoch,
    FeedRecord,
    NoEventError,
    Snapshot,
    Synced,
    Transaction,
    UnknownValueError,
    encode,
)

_MOST_SHOWN = 300


def acl_fields(acl: StandardAcl) -> FeedAcl:
    return FeedAcl(acl.id, *acl.binding.words, acl.expires_at, acl.owner)


def acl_in(fields: FeedAcl) -> StandardAcl:
    """Raises NoEventError for an ACL that no store holds, UnknownValueError for one of a later version."""
    acl_id, *words, ends, owner = msgspec.structs.astuple(fields)
    resource_type, _, _, _ = _codes_in(fields)
    _check_texts(fields, resource_type)
    return StandardAcl(acl_id, AclBinding.from_words(words), _whole_second(ends), owner)


def slice_of(event: Acls) -> AclSlice:
    """A part of a snapshot, for a replica's image. Raises as `acl_in` does."""
    rows: list[AclRow] = []
    terms: dict[bytes, AclTerms] = {}
    lines: list[bytes] = []
    for each in event.acls:
        codes = _codes_in(each)
        _check_texts(each, codes[0])
        row = (each.id.bytes, *codes, each.resource_name, each.principal, each.host)
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
    if not parts:
        return b"%b[]%b" % (head, tail)
    # Joined once: a copy of 16 MiB takes milliseconds.
    return (
        b",".join((b"%b[%b" % (head, parts[0]), *parts[1:-1], parts[-1] + b"]" + tail))
        if len(parts) > 1
        else (b"%b[%b]%b" % (head, parts[0], tail))
    )


def records_in(event: Transaction) -> list[Record]:
    """Of a whole transaction, without their hashes. Raises NoEventError."""
    return list(_records_in(event))


def _records_in(event: Transaction) -> Iterator[Record]:
    if event.left_out or not event.records or event.last_offset - event.first_offset + 1 != len(event.records):
        raise NoEventError("the transaction is incomplete: its records do not fill its offsets")
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
    epochs = [] if image.epochs is None else [FeedEpoch(each.id, each.first_offset) for each in image.epochs.rows]
    said = str(image.token), image.hash.hex(), digest_of(image.digest), image.cluster_id
    return Snapshot(*said, *counts, store_time, epochs)


def epochs_of(event: Snapshot, epoch: UUID) -> Epochs:
    """The epochs of a snapshot, of which this one must be the last. Raises NoEventError."""
    try:
        epochs = Epochs.of(Epoch(each.epoch, each.first_offset) for each in event.epochs)
    except ValueError as fault:
        if not event.epochs:
            return Epochs.only(epoch)
        raise NoEventError(f"not the epochs of a history: {fault}") from None
    if epochs.last != epoch:
        raise NoEventError(f"the last of its epochs is {epochs.last}, not {epoch}")
    return epochs


def configs_of(image: AuthorizerImage) -> Configs:
    return Configs(dict(image.overrides))


def synced_of(image: AuthorizerImage, store_time: datetime | None = None) -> Synced:
    return Synced(str(image.token), image.hash.hex(), digest_of(image.digest), store_time)


def digest_of(digest: int | None) -> str | None:
    return None if digest is None else digest.to_bytes(DIGEST_BYTES).hex()


def _record_in(fields: FeedRecord, offset: int, tx_last: int, at: datetime) -> Record:
    record: Record
    actor, comment = fields.actor, fields.comment
    if fields.hash_version > LATEST_HASH_VERSION or fields.kind not in _KINDS:
        raise UnknownValueError(
            f"record {offset} is a `{fields.kind}` of hash version {fields.hash_version}, which this version can't read"
        )
    kind = _ACL_RECORDS.get(fields.kind)
    if kind is not None and isinstance(fields.acl, FeedAcl):
        record = kind(offset, tx_last, acl_in(fields.acl), at, actor, b"", comment)
    elif kind is None and isinstance(fields.name, str) and not isinstance(fields.value, UnsetType):
        record = ConfigRecord(offset, tx_last, fields.name, fields.value, at, actor, b"", comment)
    else:
        raise NoEventError(f"the `{fields.kind}` at offset {offset} does not say what it is about")
    if fields.hash_version != hash_version(record):
        raise NoEventError(f"hash version {fields.hash_version} of record {offset} does not match its fields")
    return record


# Only what an ACL can have: UNKNOWN, ANY and MATCH belong to filters.
_RESOURCE_TYPES = {each.name: int(each) for each in ResourceType if each > ResourceType.ANY}
_PATTERN_TYPES = {each.name: int(each) for each in (PatternType.LITERAL, PatternType.PREFIXED)}
_OPERATIONS = {each.name: int(each) for each in AclOperation if each > AclOperation.ANY}
_PERMISSION_TYPES = {each.name: int(each) for each in AclPermissionType if each > AclPermissionType.ANY}
_ACL_RECORDS = {each.__name__: each for each in (AccessControlEntryRecord, RemoveAccessControlEntryRecord)}
_KINDS = {*_ACL_RECORDS, ConfigRecord.__name__}


def _codes_in(fields: FeedAcl) -> tuple[int, int, int, int]:
    """Those of an `AclRow`. Raises UnknownValueError."""
    try:
        return (
            _RESOURCE_TYPES[fields.resource_type],
            _PATTERN_TYPES[fields.pattern_type],
            _OPERATIONS[fields.operation],
            _PERMISSION_TYPES[fields.permission_type],
        )
    except KeyError as word:
        raise UnknownValueError(f"the ACL {fields.id} has a word that this version does not know: {word}") from None


def _check_texts(fields: FeedAcl, resource_type: int) -> None:
    """Raises NoEventError. A stream without digests could hold anything."""
    refusal = refusal_of_texts(resource_type, fields.resource_name, fields.principal, fields.host)
    if refusal is None and fields.owner is not None:
        refusal = refusal_of_owner(fields.owner)
    if refusal is not None:
        raise NoEventError(f"no store holds the ACL {fields.id}: {printable(refusal, _MOST_SHOWN)}")


def _whole_second(moment: datetime | None) -> datetime | None:
    """An ACL's end. A fraction would be covered by no hash."""
    if moment is not None and moment.microsecond:
        raise NoEventError(f"an ACL ends at {moment.isoformat()}, which is not a whole second")
    return None if moment is None else moment.astimezone(UTC)
