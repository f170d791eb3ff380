"""Pure parts of export and reconcile: ranges, manifests, records in words, histories that don't go on."""

import argparse
import itertools
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from app.core.epochs import Epoch, Epochs
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.records import GENESIS_HASH, AccessControlEntryRecord, Record, record_hash
from app.pipeline.history.epochs import epochs_between, epochs_in, last_offsets, tokens_of
from app.pipeline.spark.errors import PipelineError
from tests.chains import config, gone, put, transaction

if TYPE_CHECKING:
    from app.pipeline.history.manifests import Batch, Exported
    from app.pipeline.history.source import Head

STORE = ("cluster", "5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11")
LATER = "0199f0c2-5d1e-7c3a-9a41-3f6f0b8a2c17"
FORGED = "ffffffff-ffff-7fff-8fff-ffffffffffff"
BINDING = AclBinding(
    ResourceType.TOPIC, "a😀", PatternType.PREFIXED, "User:é", "*", AclOperation.READ, AclPermissionType.DENY
)
HASHES = {offset: bytes([offset]) * 32 for offset in range(1, 30)} | {0: GENESIS_HASH}


def batch(first: int, last: int, **changed: Any) -> "Batch":  # noqa: ANN401 - any field
    from app.pipeline.history.manifests import Batch

    made = Batch(
        *STORE,
        first,
        last,
        HASHES[first - 1].hex(),
        HASHES[last].hex(),
        ("2026-11-22",),
        {"x": 1 + last - first},
        (),
        None,
    )
    return replace(made, **changed)


def head(last: int, **changed: Any) -> "Head":  # noqa: ANN401 - any field
    from app.pipeline.history.source import Head

    at = datetime(2026, 11, 27, tzinfo=UTC)
    return replace(Head(STORE[0], Epochs.only(UUID(STORE[1])), last, HASHES[last], 1, at), **changed)


def history(*epochs: tuple[str, int]) -> Epochs:
    return Epochs.of(Epoch(UUID(epoch), first_offset) for epoch, first_offset in epochs)


def exported_twice() -> "Exported":
    from app.pipeline.history.manifests import Exported

    return Exported(None, (batch(1, 10), batch(11, 20)))


def test_ranges_cover_every_offset_once_and_evenly(subtests: pytest.Subtests) -> None:
    from app.pipeline.history.source import ROWS_PER_RANGE, ranges

    for after, through, most, count in [
        (0, 1, 8, 1),
        (0, ROWS_PER_RANGE, 8, 1),
        (5, ROWS_PER_RANGE + 6, 8, 2),
        (0, 1_000_000, 8, 4),
        (0, 1_000_000, 3, 3),
        (7, 10_000_000, 8, 8),
    ]:
        with subtests.test(after=after, through=through, most=most, count=count):
            parts = ranges(after, through, most)

            assert len(parts) == count
            assert (parts[0][0], parts[-1][1]) == (after, through)
            assert all(end == start for (_, end), (start, _) in itertools.pairwise(parts))
            sizes = [end - start for start, end in parts]
            assert max(sizes) - min(sizes) <= 1


def test_more_than_a_batch_comes_in_several() -> None:
    from app.pipeline.history.source import ROWS_PER_RANGE, stretches

    size = 2 * ROWS_PER_RANGE
    assert stretches(3, 2 * size + 4, 2) == [(3, size + 3), (size + 3, 2 * size + 3), (2 * size + 3, 2 * size + 4)]


@pytest.mark.parametrize("ranges_at_once", ["0", "-1", "x", "1.5", "²"])
def test_a_run_reads_at_least_one_range(ranges_at_once: str) -> None:
    from app.pipeline.jobs import export

    parser = argparse.ArgumentParser(exit_on_error=False)
    export.add_arguments(parser)
    assert parser.parse_args([]).ranges == 8
    assert parser.parse_args(["--ranges", "3"]).ranges == 3
    with pytest.raises(argparse.ArgumentError, match="a whole number from 1 to"):
        parser.parse_args([f"--ranges={ranges_at_once}"])


def test_what_was_exported_is_what_the_manifests_say() -> None:
    from app.pipeline.history.manifests import Base, Exported

    assert (exported_twice().start_offset, exported_twice().start_hash) == (0, GENESIS_HASH)
    assert (exported_twice().last_offset, exported_twice().hash) == (20, HASHES[20])
    based = Exported(Base(*STORE, 10, HASHES[10].hex(), 3, {}, "2026-11-22T00:00:00+00:00"), ())
    assert (based.start_offset, based.last_offset, based.hash) == (10, 10, HASHES[10])
    assert (based.cluster_id, str(based.token.epoch)) == STORE
    assert replace(based, batches=(batch(11, 20),)).faults() == []


def test_manifests_that_do_not_follow_each_other_are_named(subtests: pytest.Subtests) -> None:
    from app.pipeline.history.manifests import Exported
    from app.pipeline.history.reconcile import check_manifests

    for batches, said in [
        ((batch(1, 10), batch(12, 20)), "batch=12 follows offset 10"),
        ((batch(2, 10),), "batch=2 follows offset 0"),
        ((batch(1, 10), batch(9, 20)), "batch=9 follows offset 10"),
        ((batch(1, 10), batch(11, 20, previous_hash=HASHES[9].hex())), "chained to another record 10"),
        ((batch(1, 10, previous_hash=HASHES[9].hex()),), "chained to another record 0"),
        ((batch(1, 10, cluster_id="other"), batch(11, 20)), "batch=1 is of another store or history"),
        ((batch(1, 10, epoch=LATER), batch(11, 20)), "batch=11 is of another store or history"),
        ((batch(1, 10), batch(11, 20, epoch=LATER)), "batch=11 is of another store or history"),
        (
            (batch(1, 10), batch(11, 20, epoch=LATER, epochs=[f"{STORE[1]}:0", f"{LATER}:9"])),
            "batch=11 is of another store or history",
        ),
        (
            (
                batch(1, 10, epoch=LATER, epochs=[f"{STORE[1]}:0", f"{LATER}:9"]),
                batch(11, 20, epoch=LATER, epochs=[f"{STORE[1]}:0", f"{LATER}:9"]),
            ),
            "batch=11 is of another store or history",
        ),
    ]:
        with subtests.test(batches=batches, said=said):
            (fault,) = Exported(None, batches).faults()
            assert said in fault
            assert check_manifests(Exported(None, batches)).differences == 1


def test_another_history_is_refused(subtests: pytest.Subtests) -> None:
    from app.pipeline.history.export import refuse_other_history

    for now, said in [
        (head(25, hash_at=HASHES[20], cluster_id="other"), "of cluster `cluster`, but the store is of `other`"),
        (head(25, hash_at=HASHES[20], epochs=history((LATER, 0))), "knows no such epoch: it was failed over or rest"),
        (
            head(25, hash_at=HASHES[20], epochs=history((STORE[1], 0), (LATER, 19))),
            f"a new epoch, {LATER}, after offset 19: it was failed over or restored from a backup, and offsets 20 to ",
        ),
        (head(25, hash_at=HASHES[19], epochs=history((STORE[1], 0), (LATER, 20))), "another record at offset 20"),
        (head(20, hash=HASHES[19]), "another record at offset 20"),
        (head(25, hash_at=HASHES[19]), "another record at offset 20"),
        (head(25, log_start_offset=22), "trimmed records 21 to 21"),
    ]:
        with subtests.test(now=now, said=said):
            with pytest.raises(PipelineError, match="new --home") as fault:
                refuse_other_history(exported_twice(), now)
            assert said in str(fault.value)


@pytest.mark.parametrize(
    "now",
    [
        head(20),
        head(25, hash_at=HASHES[20]),
        head(25, log_start_offset=21),
        head(25, hash_at=HASHES[20], epochs=history((STORE[1], 0), (LATER, 20))),
        head(25, hash_at=HASHES[20], epochs=history((STORE[1], 0), (LATER, 22))),
    ],
)
def test_the_same_history_goes_on(now: "Head") -> None:
    from app.pipeline.history.export import refuse_other_history

    refuse_other_history(exported_twice(), now)


def test_a_store_that_is_behind_is_waited_for() -> None:
    from app.pipeline.history.export import refuse_other_history

    for now in (head(19), head(19, epochs=history((STORE[1], 0), (LATER, 18)))):
        exported = replace(exported_twice(), batches=(batch(1, 20, epoch=str(now.epochs.last)),))
        with pytest.raises(PipelineError, match="run this again later") as fault:
            refuse_other_history(exported, now)
        assert "new --home" not in str(fault.value)


def test_an_epoch_of_the_far_future_is_of_no_store() -> None:
    from app.pipeline.history.export import refuse_other_history

    exported = replace(exported_twice(), batches=(batch(1, 20, epoch=FORGED),))
    with pytest.raises(PipelineError, match=r"more than a day ahead of the store's clock.*new --home"):
        refuse_other_history(exported, head(25))


def test_an_export_over_several_epochs_knows_them_all() -> None:
    from app.pipeline.history.manifests import Base, Exported

    first = batch(1, 10, epochs=[f"{STORE[1]}:0"])
    second = batch(11, 20, epoch=LATER, epochs=[f"{STORE[1]}:0", f"{LATER}:10"])
    exported = Exported(None, (first, second))
    assert exported.faults() == []
    assert exported.epochs == history((STORE[1], 0), (LATER, 10))
    assert str(exported.token) == f"{LATER}:20"
    # Those of a version before name one epoch only.
    assert Exported(None, (batch(1, 10), second)).faults() == []
    assert Exported(None, (batch(1, 10), second)).epochs == exported.epochs
    based = Exported(Base(*STORE, 10, HASHES[10].hex(), 3, {}, "2026-11-22T00:00:00+00:00"), (second,))
    assert (based.faults(), based.epochs.last) == ([], UUID(LATER))


def test_epochs_between_two_offsets_are_those_that_were_in_force() -> None:
    epochs = history((STORE[1], 0), (LATER, 10), (FORGED, 20))
    assert [each.id for each in epochs_between(epochs, 0, 9).rows] == [UUID(STORE[1])]
    assert epochs_between(epochs, 0, 10) == history((STORE[1], 0), (LATER, 10))
    assert epochs_between(epochs, 10, 19) == history((STORE[1], 0), (LATER, 10))
    assert epochs_between(epochs, 11, 20) == history((LATER, 10), (FORGED, 20))
    assert epochs_between(epochs, 21, 30) == history((FORGED, 20))
    assert last_offsets(epochs, 30) == [(STORE[1], 10), (LATER, 20), (FORGED, 30)]
    assert epochs_in(tokens_of(epochs)) == epochs
    for wrong in ([], ["x"], [f"{LATER}:5", f"{STORE[1]}:4"], [f"{LATER}:5", f"{LATER}:6"]):
        with pytest.raises(PipelineError, match="not the epochs of a history"):
            epochs_in(wrong)


def row_of(record: Record) -> dict[str, Any]:
    """As the view and Spark show it."""
    row: dict[str, Any] = dict.fromkeys(("acl_id", "config_name", "config_value", *AclBinding._fields), None)
    micros = (record.recorded_at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000
    row |= {name: getattr(record, name) for name in ("offset", "tx_last", "actor", "comment")}
    row |= {"expires_s": None, "owner": None}
    row |= {"kind": type(record).__name__, "recorded_micros": int(micros), "hash": bytearray(record.hash)}
    if hasattr(record, "acl"):
        binding = record.acl.binding
        fields = {name: getattr(binding, name) for name in AclBinding._fields}
        words = {name: value.name if isinstance(value, IntEnum) else value for name, value in fields.items()}
        return row | words | {"acl_id": str(record.acl.id)}
    return row | {"config_name": record.name, "config_value": record.value}


def test_records_in_words_are_cores_records() -> None:
    from app.pipeline.history.records import record_of

    records = transaction(0, GENESIS_HASH, [put(BINDING, 7), gone(BINDING, 7), config("a", "b"), config("a", None)])

    assert [record_of(row_of(record)) for record in records] == records
    assert record_hash(GENESIS_HASH, record_of(row_of(records[0]))) == records[0].hash


def test_a_record_of_a_newer_version_is_never_guessed_at(subtests: pytest.Subtests) -> None:
    from app.pipeline.history.records import record_of

    cases: Iterable[dict[str, Any]] = [
        {"kind": "FutureRecord"},
        {"operation": "UNKNOWN"},
        {"operation": None},
        {"pattern_type": "MATCH"},
        {"resource_type": "ANY"},
        {"permission_type": "allow"},
        {"acl_id": None},
        {"acl_id": "x"},
        {"principal": None},
        {"kind": "ConfigRecord"},
    ]
    for changed in cases:
        with subtests.test(changed=changed):
            (record,) = transaction(0, GENESIS_HASH, [put(BINDING)])
            assert isinstance(record_of(row_of(record)), AccessControlEntryRecord)

            with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
                record_of(row_of(record) | changed)


def test_batches_are_measured_against_their_manifests() -> None:
    from app.pipeline.history.export import BatchFacts
    from app.pipeline.history.reconcile import check_batches

    good = {1: BatchFacts(10, 10, 1, 10, HASHES[10], {"x": 10}), 11: BatchFacts(10, 10, 11, 20, HASHES[20], {"x": 10})}
    assert check_batches(exported_twice(), good).differences == 0
    for wrong, said in (
        (replace(good[1], rows=11), "has 1 records twice"),
        (replace(good[1], offsets=9, rows=9), "has 9 offsets"),
        (replace(good[1], last_offset=11), "has offsets 1 to 11"),
        (replace(good[1], counts={"x": 9, "y": 1}), "its manifest says"),
        (replace(good[1], last_hash=HASHES[9]), "another hash"),
    ):
        check = check_batches(exported_twice(), {**good, 1: wrong})
        assert check.differences == 1
        assert said in check.examples[0]
    assert "batch=11 has no records" in check_batches(exported_twice(), {1: good[1]}).examples[0]


def test_differences_are_counted_and_the_first_are_named() -> None:
    from app.pipeline.history.reconcile import ChainFacts, check_chain, check_configs

    check = check_chain(ChainFacts(100, 50, [(n, "broken") for n in range(20)]))
    assert (check.differences, len(check.examples)) == (50, 20)
    check = check_configs({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}, 9)
    assert check.examples == [
        "`b` is `2` by the records and `3` in the table",
        "`c` is unset by the records and `4` in the table",
    ]


def test_a_moment_keeps_its_microseconds() -> None:
    from app.pipeline.history.source import moment

    assert moment(1_795_305_600_123_456) == datetime(2026, 11, 22, 0, 0, 0, 123_456, tzinfo=UTC)
