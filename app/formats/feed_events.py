"""The feed as JSON, an event a line (docs/feed.md): records and ACLs with all that their hash and the digest cover."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import IO, Annotated, Literal, get_args
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from app.core.records import MAX_TRANSACTION_BYTES

MAX_ACLS = 1_000
"""ACLs of one `acls` event."""

EndReason = Literal["draining", "slow", "reload", "caller"]

MAX_LINE_BYTES = 8 * MAX_TRANSACTION_BYTES
"""The longest line of a stream or file. JSON needs up to six bytes for one of a canonical record, where all are control
characters.
"""

MAX_ACLS_CHARACTERS = 1024 * 1024
"""Of names, principals and hosts in one `acls` event, which is full once it has so many."""

_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class NoEventError(ValueError):
    """A line, or a field of it, is not what docs/feed.md says."""


class UnknownValueError(NoEventError):
    """A record or an ACL of a later version than this one."""


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


class FeedEpoch(msgspec.Struct, gc=False):
    epoch: UUID
    first_offset: int


class Snapshot(msgspec.Struct, tag_field="type", tag="snapshot", gc=False):
    """`epochs` are those of its history, up to its token's; a service of an older version does not send them."""

    token: str
    hash: str
    digest: str | None
    cluster_id: str | None
    acl_count: int
    config_count: int
    store_time: _Moment | None = None
    epochs: list[FeedEpoch] = []


class Acls(msgspec.Struct, tag_field="type", tag="acls", gc=False):
    acls: list[FeedAcl]


class Configs(msgspec.Struct, tag_field="type", tag="configs", gc=False):
    configs: dict[str, str]


class Synced(msgspec.Struct, tag_field="type", tag="synced", gc=False):
    token: str
    hash: str
    digest: str | None
    store_time: _Moment | None = None


class EpochBegan(msgspec.Struct, tag_field="type", tag="epoch", gc=False):
    """Records with a greater offset than `first_offset` are of this epoch; what the stream has sent before is not."""

    epoch: UUID
    first_offset: int


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


Event = Snapshot | Acls | Configs | Synced | EpochBegan | Transaction | Bookmark | End


class _Unknown(msgspec.Struct):
    type: str


encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Event] = msgspec.json.Decoder(Event).decode
_decode_record = msgspec.json.Decoder(FeedRecord).decode
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_TRANSACTION, _RECORDS, _BETWEEN = b'{"type":"transaction",', b'"records":[', b',{"kind":'
_decode_type = msgspec.json.Decoder(_Unknown).decode
_TYPES = {each.__struct_config__.tag for each in get_args(Event)}


def decode(line: bytes) -> Event | None:
    """None for an event of a type that this version does not know. Raises NoEventError."""
    try:
        return _decode(line)
    except _UNDECODABLE as fault:
        why = str(fault)
    try:
        if _decode_type(line).type not in _TYPES:
            return None
    except _UNDECODABLE:
        raise NoEventError(f"not an event: {why}") from None
    raise NoEventError(f"not valid for its type: {why}")


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
    except _UNDECODABLE as fault:
        raise NoEventError(f"not a record: {fault}") from None


def events_in(stream: IO[bytes]) -> Iterator[tuple[int, Event]]:
    """The events of a file that this version knows, with the numbers of their lines. Raises NoEventError."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise NoEventError(f"line {number} is longer than {MAX_LINE_BYTES} bytes, so it is not an event")
        if line.isspace():
            continue
        try:
            event = decode(line)
        except NoEventError as fault:
            raise NoEventError(f"line {number} is {fault}") from None
        if event is not None:
            yield number, event
