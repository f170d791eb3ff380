"""What runtime's `BulkStore` promises, of the fake and of PostgreSQL."""

from collections.abc import Iterable
from uuid import uuid4

from app.core.continuity import KnownHistory
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import BulkAcl
from app.core.records import GENESIS_HASH, AccessControlEntryRecord, record_hash
from app.core.token import Token
from tests.gate.contract.subject import Subject
from tests.updates import ACTOR, alter, create, created, delete, topic


def batch(bindings: Iterable[AclBinding]) -> dict[bytes, BulkAcl]:
    return {binding.natural_key: BulkAcl(uuid4(), NewAcl(binding)) for binding in bindings}


async def test_a_batch_names_the_epochs_since_the_one_before(subject: Subject) -> None:
    known = KnownHistory()
    before = (await subject.bulk.add(batch([topic("a")]), ACTOR, known)).token
    assert (await subject.bulk.add(batch([topic("b")]), ACTOR, known)).token == Token(before.epoch, 2)
    # The first write of another process, which begins an epoch.
    await subject.write(create(topic("c")))

    after = await subject.bulk.add(batch([topic("d")]), ACTOR, known)

    head = await subject.head()
    assert after.token == Token(head.epoch, 4)
    assert after.epochs.has(before, 4)
    assert after.epochs.has(Token(before.epoch, 2), 4)


async def test_a_batch_that_begins_an_epoch_names_the_one_before(subject: Subject) -> None:
    await subject.write(create(topic("a")))
    known = KnownHistory()
    before = (await subject.bulk.add(batch([topic("a")]), ACTOR, known)).token

    # The first record of the process that imports.
    after = await subject.bulk.add(batch([topic("b")]), ACTOR, known)

    assert after.token == Token((await subject.head()).epoch, 2)
    assert after.epochs.has(before, 2)


async def test_a_batch_stands_in_snapshot_and_feed_as_one_transaction(subject: Subject) -> None:
    await subject.write(create(topic("before")), alter(("audit.level", "DEBUG")))
    acls = batch(map(topic, ["orders", "payments", "tab\there \\ and \U0001f600"]))

    outcome = await subject.bulk.add(acls, ACTOR, KnownHistory())

    assert (list(outcome.created), list(outcome.found), outcome.last_offset) == ([3, 4, 5], [], 5)
    assert outcome.token.epoch == (await subject.head()).epoch
    assert {each.stored for each in acls.values()} < set(await subject.acls())
    records = await subject.records()
    mine = [record for record in records[2:] if isinstance(record, AccessControlEntryRecord)]
    assert [record.acl for record in mine] == [each.stored for each in acls.values()]
    assert [(record.offset, record.tx_last, record.actor) for record in mine] == [(at, 5, ACTOR) for at in (3, 4, 5)]
    chained = GENESIS_HASH
    for record in records:
        chained = record_hash(chained, record)
        assert record.hash == chained
    assert (await subject.head()).hash == chained


async def test_what_is_there_keeps_its_id_and_is_told_by_the_offset_that_made_it(subject: Subject) -> None:
    await subject.write(create(topic("a")), create(topic("b")))
    before = await subject.acls()

    outcome = await subject.bulk.add(batch(map(topic, ["b", "c", "a"])), ACTOR, KnownHistory())

    assert (list(outcome.created), sorted(outcome.found), outcome.last_offset) == ([3], [1, 2], 3)
    assert [acl for acl in await subject.acls() if acl.binding != topic("c")] == before


async def test_a_batch_of_which_all_is_there_makes_no_record(subject: Subject) -> None:
    await subject.bulk.add(batch([topic("a")]), ACTOR, KnownHistory())
    head = await subject.head()

    outcome = await subject.bulk.add(batch([topic("a")]), ACTOR, KnownHistory())
    nothing = await subject.bulk.add({}, ACTOR, KnownHistory())

    assert (list(outcome.created), list(outcome.found), outcome.last_offset) == ([], [1], 1)
    assert (list(nothing.created), list(nothing.found), nothing.last_offset) == ([], [], 1)
    assert await subject.head() == head


async def test_a_batch_given_again_is_told_as_its_own(subject: Subject) -> None:
    acls = batch(map(topic, "abc"))
    first = await subject.bulk.add(acls, ACTOR, KnownHistory())

    again = await subject.bulk.add(acls, ACTOR, KnownHistory())

    assert sorted(again.created) == sorted(first.created) == [1, 2, 3]
    assert list(again.found) == []
    assert len(await subject.records()) == 3


async def test_what_was_removed_can_be_added_again(subject: Subject) -> None:
    await subject.bulk.add(batch(map(topic, "ab")), ACTOR, KnownHistory())
    await subject.write(delete(AclBindingFilter(resource_name="a")))

    outcome = await subject.bulk.add(batch(map(topic, "ab")), ACTOR, KnownHistory())

    assert (list(outcome.created), list(outcome.found)) == ([4], [2])


async def test_thousands_at_once_are_taken_in_order(subject: Subject) -> None:
    names = [f"t{n:05d}" for n in range(3_000)]

    outcome = await subject.bulk.add(batch(map(topic, names)), ACTOR, KnownHistory())

    assert list(outcome.created) == list(range(1, 3_001))
    assert [acl.binding for acl in await subject.acls()] == sorted(map(topic, names), key=sort_key)
    records = await subject.records()
    assert [record.offset for record in records] == list(range(1, 3_001))
    assert {record.tx_last for record in records} == {3_000}


async def test_the_other_writer_finds_what_was_added(subject: Subject) -> None:
    acls = batch([topic("a")])
    await subject.bulk.add(acls, ACTOR, KnownHistory())

    (outcome,) = await subject.write(create(topic("a"), topic("b")))

    (a, b) = created(outcome)
    assert (a.created, b.created) == (False, True)
    assert a.id == next(iter(acls.values())).id
