"""What runtime's `AclStore` promises, of the fake and of PostgreSQL."""

import pytest

from app.core.continuity import KnownHistory
from app.core.index.table import sort_key
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclOperation, PatternType, ResourceType
from app.core.kafka.errors import InvalidRequestException, PolicyViolationException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import AlterConfigsOutcome, CreatedAcl
from app.core.records import (
    GENESIS_HASH,
    AccessControlEntryRecord,
    ConfigRecord,
    RemoveAccessControlEntryRecord,
    record_hash,
)
from tests.gate.contract.subject import Subject
from tests.updates import ACTOR, alter, create, created, delete, matches, topic

EVERYTHING = AclBindingFilter()


@pytest.mark.upstream
async def test_a_new_acl_gets_an_id_and_stands_in_snapshot_and_feed(subject: Subject) -> None:
    outcome = await subject.store.write([create(topic("orders"))], KnownHistory())

    (made,) = created(outcome.outcomes[0])
    acl = StandardAcl(made.id, topic("orders"))
    assert made.created
    assert outcome.last_offset == 1
    assert await subject.acls() == [acl]
    (record,) = await subject.records()
    assert isinstance(record, AccessControlEntryRecord)
    assert (record.offset, record.tx_last, record.acl, record.actor) == (1, 1, acl, ACTOR)


@pytest.mark.upstream
async def test_an_existing_acl_keeps_its_first_id_and_makes_no_record(subject: Subject) -> None:
    first = await subject.store.write([create(topic("orders"))], KnownHistory())

    again = await subject.store.write([create(topic("orders"))], KnownHistory())

    (made,) = created(first.outcomes[0])
    assert created(again.outcomes[0]) == [CreatedAcl(made.id, created=False)]
    assert (again.epoch, again.last_offset) == (first.epoch, 1)
    assert len(await subject.records()) == 1


async def test_duplicates_within_a_call_and_across_a_group_share_the_first_id(subject: Subject) -> None:
    one, two = await subject.write(
        create(topic("orders"), topic("payments"), topic("orders")),
        create(topic("payments"), topic("shipments")),
    )

    orders, payments, repeat = created(one)
    assert orders.created
    assert payments.created
    assert repeat == CreatedAcl(orders.id, created=False)
    assert created(two)[0] == CreatedAcl(payments.id, created=False)
    assert created(two)[1].created
    assert len(await subject.acls()) == 3


@pytest.mark.upstream
async def test_acls_that_differ_in_any_single_field_are_different(subject: Subject) -> None:
    one = topic("orders")
    others = [
        one._replace(resource_type=ResourceType.GROUP),
        one._replace(resource_name="Orders"),
        one._replace(resource_name="orders "),
        one._replace(pattern_type=PatternType.PREFIXED),
        one._replace(principal="User:Alice"),
        one._replace(host="10.0.0.1"),
        one._replace(operation=AclOperation.WRITE),
        topic("ordersU")._replace(principal="ser:alice"),
    ]

    (outcome,) = await subject.write(create(one, *others))

    assert all(made.created for made in created(outcome))
    assert {acl.binding for acl in await subject.acls()} == {one, *others}


async def test_a_group_is_one_transaction_with_dense_offsets_and_a_hash_chain(subject: Subject) -> None:
    await subject.write(create(topic("a")))

    outcome = await subject.store.write(
        [
            create(topic("b"), topic("c")),
            delete(AclBindingFilter(resource_name="a")),
            alter(("super.users", "User:root")),
            create(topic("a")),
        ],
        KnownHistory(),
    )

    records = await subject.records()
    assert outcome.last_offset == 6
    assert [record.offset for record in records] == [1, 2, 3, 4, 5, 6]
    assert [record.tx_last for record in records] == [1, 6, 6, 6, 6, 6]
    chained = GENESIS_HASH
    for record in records:
        chained = record_hash(chained, record)
        assert record.hash == chained
    assert (await subject.head()).hash == chained


async def test_a_later_mutation_of_the_group_sees_the_earlier_ones(subject: Subject) -> None:
    first, gone, again, nothing = await subject.write(
        create(topic("orders")),
        delete(AclBindingFilter(principal="User:alice")),
        create(topic("orders")),
        delete(AclBindingFilter(principal="User:bob")),
    )

    (one,), (two,) = created(first), created(again)
    assert matches(gone) == [[StandardAcl(one.id, topic("orders"))]]
    assert two.created
    assert two.id != one.id
    assert matches(nothing) == [[]]
    assert [acl.id for acl in await subject.acls()] == [two.id]
    assert [type(record) for record in await subject.records()] == [
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        AccessControlEntryRecord,
    ]


@pytest.mark.upstream
async def test_overlapping_filters_list_an_acl_each_and_remove_it_once(subject: Subject) -> None:
    names = ["c", "a", "b"]
    await subject.write(create(*map(topic, names)))

    (outcome,) = await subject.write(
        delete(AclBindingFilter(resource_name="b"), EVERYTHING, AclBindingFilter(resource_name="z")),
    )

    found = matches(outcome)
    assert [[acl.binding.resource_name for acl in some] for some in found] == [["b"], ["a", "b", "c"], []]
    assert await subject.acls() == []
    removed = [record for record in await subject.records() if isinstance(record, RemoveAccessControlEntryRecord)]
    assert sorted(record.acl.binding.resource_name for record in removed) == ["a", "b", "c"]


@pytest.mark.upstream
async def test_matches_stand_in_sort_order(subject: Subject) -> None:
    bindings = [
        topic("b"),
        topic("a", pattern_type=PatternType.PREFIXED),
        topic("a", "User:bob"),
        topic("a"),
        topic("Z"),
        topic("é"),
        topic("z"),
        topic("\U0001f600"),
        topic("\uffee"),
        topic("a")._replace(resource_type=ResourceType.GROUP),
        topic("a")._replace(operation=AclOperation.DESCRIBE),
    ]
    await subject.write(create(*bindings))
    as_listed = [acl.binding for acl in await subject.acls()]

    (outcome,) = await subject.write(delete(EVERYTHING))

    assert [acl.binding for acl in matches(outcome)[0]] == sorted(bindings, key=sort_key)
    assert as_listed == sorted(bindings, key=sort_key)


async def test_nothing_changed_means_no_record_and_the_same_head(subject: Subject) -> None:
    before = await subject.store.write([create(topic("orders")), alter(("audit.level", "INFO"))], KnownHistory())

    after = await subject.store.write(
        [
            create(topic("orders")),
            delete(AclBindingFilter(resource_name="other")),
            alter(("audit.level", "INFO"), ("super.users", None)),
            create(),
            delete(),
        ],
        KnownHistory(),
    )

    assert (after.epoch, after.last_offset) == (before.epoch, before.last_offset)
    assert await subject.head() == (await subject.feed.poll(2, 10)).head
    assert len(await subject.records()) == 2


async def test_an_empty_group_tells_the_head(subject: Subject) -> None:
    head = await subject.head()

    outcome = await subject.store.write([], KnownHistory())

    assert (list(outcome.outcomes), outcome.epoch, outcome.last_offset) == ([], head.epoch, 0)


async def test_an_outcome_says_how_many_records_it_has_written(subject: Subject) -> None:
    outcomes = await subject.write(
        create(topic("a"), topic("b"), topic("a")),
        create(topic("a")),
        alter(("audit.level", "DEBUG"), ("super.users", None)),
        delete(AclBindingFilter(), AclBindingFilter(resource_name="a")),
    )

    assert [getattr(each, "records", None) for each in outcomes] == [2, 0, 1, 2]


async def test_configs_are_set_and_taken_back_in_the_feed_and_in_the_snapshot(subject: Subject) -> None:
    outcomes = await subject.write(
        alter(("super.users", "User:a;User:b"), ("audit.level", "DEBUG")),
        alter(("audit.level", None)),
    )

    assert [type(outcome) for outcome in outcomes] == [AlterConfigsOutcome, AlterConfigsOutcome]
    records = [record for record in await subject.records() if isinstance(record, ConfigRecord)]
    assert [(record.name, record.value, record.actor) for record in records] == [
        ("super.users", "User:a;User:b", ACTOR),
        ("audit.level", "DEBUG", ACTOR),
        ("audit.level", None, ACTOR),
    ]
    async with subject.feed.snapshot() as reader:
        assert reader.configs == {"super.users": "User:a;User:b"}
        assert reader.head.last_offset == 3


async def test_ten_thousand_new_acls_in_a_call_are_taken(subject: Subject) -> None:
    names = [topic(f"t{n}") for n in range(10_000)]

    (outcome,) = await subject.write(create(*names, *names[:10]))

    assert sum(made.created for made in created(outcome)) == 10_000
    (gone,) = await subject.write(delete(EVERYTHING))
    assert len(matches(gone)[0]) == 10_000
    assert await subject.acls() == []


async def test_more_than_ten_thousand_new_acls_are_refused_whole_and_hinder_nobody(subject: Subject) -> None:
    there = [topic(f"t{n}") for n in range(3)]
    await subject.write(create(*there))
    too_many = [topic(f"new{n}") for n in range(10_001)]

    before, refused, after = await subject.write(
        create(topic("before")),
        create(*there, *too_many),
        create(too_many[0], topic("after")),
    )

    assert isinstance(refused, PolicyViolationException)
    assert refused.message == "Unable to perform excessively large batch operation."
    assert [made.created for made in created(before)] == [True]
    assert [made.created for made in created(after)] == [True, True]
    names = [acl.binding.resource_name for acl in await subject.acls()]
    assert names == ["after", "before", "new0", "t0", "t1", "t2"]
    assert (await subject.head()).last_offset == 6


@pytest.mark.upstream
async def test_removals_are_counted_over_filters_before_repeats_are_noticed(subject: Subject) -> None:
    await subject.write(create(*[topic(f"t{n}") for n in range(5_000)]))
    half = AclBindingFilter(principal="User:alice")

    refused, after = await subject.write(
        delete(half, half, AclBindingFilter(resource_name="t0")),
        create(topic("after")),
    )
    (taken,) = await subject.write(delete(half, AclBindingFilter(host="*", principal="User:none")))

    assert isinstance(refused, InvalidRequestException)
    assert refused.message == "Cannot remove more than 10000 acls in a single delete operation."
    assert [made.created for made in created(after)] == [True]
    assert [len(found) for found in matches(taken)] == [5_001, 0]
    assert (await subject.head()).last_offset == 5_001 + 5_001
