"""The feed as JSON, an event a line (docs/feed.md): records and ACLs with all that their hash and the digest cover."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any
from uuid import UUID

from app.core.digest import DIGEST_BYTES
from app.core.kafka.bindings import AclBinding, StandardAcl, rfc3339
from app.core.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    Record,
    RemoveAccessControlEntryRecord,
    hash_version,
)
from app.core.token import Token

Event = dict[str, Any]

_MAX_LINE_BYTES = 64 << 20

_BINDING = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")


class NoEventError(ValueError):
    """A line, or a field of it, is not what docs/feed.md says."""


def acl_fields(acl: StandardAcl) -> Event:
    ends = None if acl.expires_at is None else rfc3339(acl.expires_at)
    return {
        "id": str(acl.id),
        **dict(zip(_BINDING, acl.binding.words, strict=True)),
        "expires_at": ends,
        "owner": acl.owner,
    }


def acl_in(fields: Mapping[str, Any]) -> StandardAcl:
    """Raises NoEventError."""
    try:
        binding = AclBinding.from_words(_text(fields[name]) for name in _BINDING)
        ends = None if fields["expires_at"] is None else datetime.fromisoformat(fields["expires_at"]).astimezone(UTC)
        return StandardAcl(UUID(fields["id"]), binding, ends, _optional(fields["owner"]))
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        raise NoEventError(f"not an ACL: {fault!r}") from None


def transaction_event(token: Token, records: Sequence[Record]) -> Event:
    """One whole transaction; `token` is that of its last record."""
    return {
        "type": "transaction",
        "token": str(token),
        "first_offset": records[0].offset,
        "last_offset": records[-1].offset,
        "recorded_at": _micros_text(records[0].recorded_at),
        "hash": records[-1].hash.hex(),
        "records": [_record_fields(record) for record in records],
    }


def records_in(event: Mapping[str, Any]) -> list[Record]:
    """Of a transaction's event. Only the last one has its hash; the others have none. Raises NoEventError."""
    try:
        first, last = event["first_offset"], event["last_offset"]
        at, fields = datetime.fromisoformat(event["recorded_at"]).astimezone(UTC), event["records"]
        records = [_record_in(each, first + number, last, at) for number, each in enumerate(fields)]
    except (KeyError, TypeError, ValueError) as fault:
        raise NoEventError(f"not a transaction: {fault!r}") from None
    if not records or records[-1].offset != last:
        raise NoEventError("not a transaction: its records don't fill its offsets")
    return records


def digest_text(digest: int) -> str:
    return digest.to_bytes(DIGEST_BYTES).hex()


def events_in(stream: IO[bytes]) -> Iterator[tuple[int, Event]]:
    """The events of a file, with the numbers of their lines. Raises NoEventError."""
    number = 0
    while line := stream.readline(_MAX_LINE_BYTES):
        number += 1
        if len(line) == _MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise NoEventError(f"line {number} is longer than {_MAX_LINE_BYTES} bytes, which no event is")
        if line.isspace():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as fault:
            raise NoEventError(f"line {number} is no JSON: {fault}") from None
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise NoEventError(f"line {number} is no event: it has no `type`")
        yield number, event


def _record_fields(record: Record) -> Event:
    kind = {"kind": type(record).__name__, "hash_version": hash_version(record)}
    said = {"actor": record.actor, "comment": record.comment}
    if isinstance(record, ConfigRecord):
        return {**kind, **said, "name": record.name, "value": record.value}
    return {**kind, **said, "acl": acl_fields(record.acl)}


def _record_in(fields: Mapping[str, Any], offset: int, tx_last: int, at: datetime) -> Record:
    record: Record
    kind, frame = fields["kind"], (at, _text(fields["actor"]), b"", _optional(fields["comment"]))
    match kind:
        case "AccessControlEntryRecord":
            record = AccessControlEntryRecord(offset, tx_last, acl_in(fields["acl"]), *frame)
        case "RemoveAccessControlEntryRecord":
            record = RemoveAccessControlEntryRecord(offset, tx_last, acl_in(fields["acl"]), *frame)
        case "ConfigRecord":
            record = ConfigRecord(offset, tx_last, _text(fields["name"]), _optional(fields["value"]), *frame)
        case _:
            raise ValueError(f"`{kind}` is no kind of record that this version can read")
    if fields["hash_version"] != hash_version(record):
        raise ValueError(f"hash version {fields['hash_version']} is not that of what the record says")
    return record


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a field is not text")
    value.encode()
    return value


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)


def _micros_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
