"""docs/feed.md, recomputed from the page alone; and what is no event."""

import io
import json
import re
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from app.core.digest import MODULUS, acl_digest
from app.core.kafka.bindings import NO_TERMS, AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.validation import validate_new_acl
from app.core.proof import FeedDamagedError, FeedProof
from app.core.records import (
    GENESIS_HASH,
    MAX_TRANSACTION_BYTES,
    AccessControlEntryRecord,
    ConfigRecord,
    Record,
    RemoveAccessControlEntryRecord,
    canonical_record,
    record_bytes,
)
from app.core.token import Token
from app.formats.feed_events import (
    MAX_LINE_BYTES,
    Acls,
    FeedAcl,
    NoEventError,
    Transaction,
    UnknownValueError,
    decode,
    encode,
    events_in,
    long_transaction,
    record_in,
)
from app.formats.feed_values import (
    acl_fields,
    acl_in,
    chained_records,
    digest_of,
    record_fields,
    records_in,
    slice_of,
    transaction_json,
)

PAGE = (Path(__file__).parents[4] / "docs" / "feed.md").read_text()
EVENTS: list[dict[str, Any]] = [json.loads(line) for line in re.findall(r'^    (\{"type".*)$', PAGE, re.MULTILINE)]
TRANSACTIONS = [event for event in EVENTS if event["type"] == "transaction"]


def transaction(event: dict[str, Any]) -> Transaction:
    """Raises NoEventError."""
    ((_, found),) = events_in(io.BytesIO(json.dumps(event).encode()))
    assert isinstance(found, Transaction)
    return found


def check(events: list[dict[str, Any]]) -> FeedProof:
    """As a reader would follow them from the birth of the store."""
    proof = FeedProof()
    for event in events:
        if event["type"] == "transaction":
            proof.follow(records_in(transaction(event)), bytes.fromhex(event["hash"]))
        else:
            said = bytes.fromhex(event["hash"]), int(event["digest"], 16)
            proof.check_at(Token.parse(event["token"]).offset, *said)
    return proof


def test_the_example_holds() -> None:
    assert check(EVENTS).offset == 4
    assert [len(event["records"]) for event in TRANSACTIONS] == [2, 1, 1]


def test_the_canonical_record_of_the_page_is_that_of_its_third_record() -> None:
    (digits,) = re.findall(r"\(version 2\):\n\n((?:    [0-9a-f]+\n)+)", PAGE)
    raw = bytes.fromhex("".join(digits.split()))
    (record,) = records_in(transaction(TRANSACTIONS[1]))

    assert raw == canonical_record(record)
    assert sha256(bytes.fromhex(TRANSACTIONS[0]["hash"]) + raw).hexdigest() == TRANSACTIONS[1]["hash"]


def test_the_row_of_the_page_has_the_digest_of_the_page() -> None:
    (line, digest) = re.findall(r"    (4f3e.*→.*)\n    ([0-9a-f]{64})\n", PAGE)[0]
    config = sha256(b"config\tsuper.users\tUser:admin").digest()
    row = sha256(line.replace("→", "\t").encode()).digest()

    assert row.hex() == digest
    assert EVENTS[-1]["digest"] == config.hex()
    total = (int.from_bytes(row) + int.from_bytes(config)) % (1 << 256)
    assert EVENTS[3]["digest"] == digest_of(total)


def _spoiled(at: int, **changes: object) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(json.dumps(EVENTS))
    events[at]["records"][0].update(changes)
    return events


def test_what_was_changed_lost_or_doubled_is_found(subtests: pytest.Subtests) -> None:
    for events in [
        EVENTS[2:],
        [*EVENTS[:2], *EVENTS[4:]],
        [EVENTS[0], *EVENTS],
        _spoiled(0, actor="User:mallory"),
        _spoiled(2, comment="TICKET-18"),
        _spoiled(2, acl={**TRANSACTIONS[1]["records"][0]["acl"], "owner": "others"}),
        _spoiled(2, acl={**TRANSACTIONS[1]["records"][0]["acl"], "expires_at": "2026-12-01T18:00:01Z"}),
        _spoiled(4, acl={**TRANSACTIONS[2]["records"][0]["acl"], "id": str(UUID(int=7))}),
        [EVENTS[0], {**EVENTS[1], "digest": EVENTS[3]["digest"]}],
        [EVENTS[0], {**EVENTS[1], "hash": EVENTS[3]["hash"]}],
        [EVENTS[0], {**EVENTS[1], "token": EVENTS[3]["token"]}],
    ]:
        with subtests.test(events=events), pytest.raises(FeedDamagedError):
            check(events)


@pytest.mark.parametrize(
    "changes",
    [{"kind": "NoRecord"}, {"hash_version": 2}, {"acl": None}, {"acl": {"id": "x"}}, {"actor": None}],
)
def test_what_is_no_transaction_is_told(changes: dict[str, object]) -> None:
    with pytest.raises(NoEventError):
        records_in(transaction(_spoiled(0, **changes)[0]))


def test_a_line_that_is_no_event_is_told_with_its_number(subtests: pytest.Subtests) -> None:
    for line in [b"{", b"[]", b"{}", b'{"type": 1}', b"\xff", b"[" * 100_000]:
        with subtests.test(line=line), pytest.raises(NoEventError, match="line 2"):
            list(events_in(io.BytesIO(b'{"type": "from the future"}\n' + line)))


def test_an_acl_comes_back_as_it_went() -> None:
    acl = msgspec.convert(TRANSACTIONS[1]["records"][0]["acl"], FeedAcl)
    assert acl_fields(acl_in(acl)) == acl


def test_a_part_of_a_snapshot_is_what_a_replica_s_image_takes() -> None:
    ended = msgspec.convert(TRANSACTIONS[1]["records"][0]["acl"], FeedAcl)
    plain = msgspec.structs.replace(ended, id=UUID(int=7), host="10.0.0.1", expires_at=None, owner=None)
    acls = [acl_in(each) for each in (ended, plain)]

    part = slice_of(Acls([ended, plain]))

    assert [StandardAcl.from_row(row, part.terms.get(row[0], NO_TERMS)) for row in part.rows] == acls
    assert list(part.terms) == [ended.id.bytes]
    assert part.digest == sum(map(acl_digest, acls)) % MODULUS


LATER: list[dict[str, object]] = [{"operation": "UNHEARD_OF"}, {"operation": "read"}, {"resource_type": "CONNECTOR"}]
IMPOSSIBLE: list[dict[str, object]] = [
    {"expires_at": "2026-12-01T18:00:00.5Z"},
    {"principal": "alice"},
    {"principal": ""},
    {"principal": "User:a\0"},
    {"resource_name": ""},
    {"resource_name": "a\0b"},
    {"resource_name": "x" * 32_768},
    {"resource_type": "CLUSTER", "resource_name": "other"},
    {"host": ""},
    {"host": "10.0.0.0/33"},
    {"host": "nowhere/8"},
    {"owner": ""},
    {"owner": "a\nb"},
    {"owner": "x" * 201},
]


@pytest.mark.parametrize("changes", [*LATER, *IMPOSSIBLE])
def test_an_acl_that_no_store_holds_is_told(changes: dict[str, object]) -> None:
    fields = msgspec.convert({**TRANSACTIONS[1]["records"][0]["acl"], **changes}, FeedAcl)
    for take in (acl_in, lambda each: slice_of(Acls([each]))):
        with pytest.raises(NoEventError) as told:
            take(fields)
        assert len(str(told.value)) < 1_000
        assert isinstance(told.value, UnknownValueError) == (changes in LATER)


@pytest.mark.parametrize(
    "changes",
    [
        {"principal": ":"},
        {"principal": "User:a:b\n"},
        {"resource_name": " \x01"},
        {"resource_name": "x" * 32_767},
        {"resource_type": "CLUSTER", "resource_name": "kafka-cluster"},
        {"host": "not an address"},
        {"host": "fe80::1%eth0"},
        {"host": "2001:db8::/32"},
        {"owner": "x" * 200},
    ],
)
def test_what_a_store_may_hold_is_taken(changes: dict[str, object]) -> None:
    fields = msgspec.convert({**TRANSACTIONS[1]["records"][0]["acl"], **changes}, FeedAcl)
    assert validate_new_acl(acl_in(fields).binding) is None
    assert len(slice_of(Acls([fields])).rows) == 1


@pytest.mark.parametrize("changes", [{"kind": "PartitionRecord"}, {"hash_version": 3}, {"hash_version": 3, "new": [1]}])
def test_a_record_of_a_later_version_is_told_apart_from_damage(changes: dict[str, object]) -> None:
    with pytest.raises(UnknownValueError):
        records_in(transaction(_spoiled(0, **changes)[0]))
    for damage in ({"hash_version": 2}, {"acl": None}, {"hash_version": 0}):
        with pytest.raises(NoEventError) as told:
            records_in(transaction(_spoiled(0, **damage)[0]))
        assert not isinstance(told.value, UnknownValueError)


@pytest.mark.parametrize("text", ["\x01" * 32_767, "x", "\u00e9" * 16_000, '"' * 32_767])
def test_the_line_of_a_transaction_is_bounded_by_its_canonical_records(text: str) -> None:
    """JSON is at most eight times as long, so that a reader's bound of eight times a transaction's is enough."""
    acl = StandardAcl(
        UUID(int=7),
        AclBinding(
            *(ResourceType.TRANSACTIONAL_ID, text, PatternType.PREFIXED, f"U:{text}"[: len(text)] + ":", text),
            *(AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW),
        ),
    )
    ending = StandardAcl(acl.id, acl.binding, datetime(2099, 1, 1, tzinfo=UTC), text[:200])
    frame = (datetime(2026, 1, 1, microsecond=1, tzinfo=UTC), text, bytes(32))
    records: list[Record] = [
        RemoveAccessControlEntryRecord(1, 4, acl, *frame),
        AccessControlEntryRecord(2, 4, ending, *frame, text[:500]),
        ConfigRecord(3, 4, text, text, *frame),
        ConfigRecord(4, 4, text, None, *frame),
    ]
    for record in records:
        line = encode(record_fields(record, with_offset=True))
        assert len(line) + 1 <= 8 * record_bytes(record)
    heading = len(transaction_json(UUID(int=7), records, []))
    assert heading < 1_000
    assert MAX_LINE_BYTES == 8 * MAX_TRANSACTION_BYTES
    assert max(len(encode(record_fields(each))) / record_bytes(each) for each in records) < 7


def test_a_time_without_its_zone_is_no_time() -> None:
    with pytest.raises(NoEventError):
        transaction({**TRANSACTIONS[0], "recorded_at": "2026-11-23T06:00:00"})


def test_each_record_of_a_transaction_gets_its_hash() -> None:
    first = list(chained_records(transaction(TRANSACTIONS[0]), GENESIS_HASH))
    second = list(chained_records(transaction(TRANSACTIONS[1]), first[-1].hash))

    assert [each.hash.hex() for each in (first[-1], second[-1])] == [each["hash"] for each in TRANSACTIONS[:2]]
    assert first[0].hash == sha256(GENESIS_HASH + canonical_record(first[0])).digest()
    with pytest.raises(NoEventError):
        list(chained_records(transaction(TRANSACTIONS[1]), first[0].hash))


ODD_TEXTS = ('},{"kind":', ',{"kind":"', "]}", "\\", '"', '\\",{"kind":', '"records":[', "a\u2028\x00", "}]}")


def test_a_long_line_falls_into_its_records_whatever_they_say() -> None:
    records = [
        ConfigRecord(number, len(ODD_TEXTS), text, text, datetime(2026, 1, 1, tzinfo=UTC), text, b"", text)
        for number, text in enumerate(ODD_TEXTS, 1)
    ]
    line = transaction_json(UUID(int=7), records, [encode(record_fields(each)) for each in records])
    whole, parts = decode(line), long_transaction(line)
    assert isinstance(whole, Transaction)
    assert parts is not None
    head = decode(parts[0])
    assert isinstance(head, Transaction)
    assert msgspec.structs.replace(head, records=[record_in(each) for each in parts[1]]) == whole
    assert [each.name for each in records_in(whole) if isinstance(each, ConfigRecord)] == list(ODD_TEXTS)
    with pytest.raises(NoEventError):
        record_in(parts[1][0][:-1])


def test_no_other_line_falls_into_records() -> None:
    for event in EVENTS:
        if event["type"] != "transaction":
            assert long_transaction(json.dumps(event, separators=(",", ":")).encode()) is None
