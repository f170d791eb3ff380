"""Ends and owners of ACLs, comments on records, and the digest of the whole image: of the fake and of PostgreSQL."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from app.core.continuity import KnownHistory
from app.core.digest import digest_of
from app.core.image import AuthorizerImage, ImageBuilder
from app.core.kafka.bindings import NewAcl, StandardAcl
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import AlterConfigs, BulkAcl, CreateAcls, CreateAclsOutcome, CreatedAcl, DeleteAcls, Mutation
from app.core.records import GENESIS_HASH, AccessControlEntryRecord, ConfigRecord, Record, hash_version, record_hash
from app.runtime.continuity import transactions_of
from tests.gate.contract.subject import Subject
from tests.updates import ACTOR, alter, create, created, delete, matches, topic

END = datetime(2099, 11, 30, 18, tzinfo=UTC)
ODD = "Équipe\\N \\ 日本語 \U0001f600"


def make(*acls: NewAcl, comment: str | None = None) -> CreateAcls:
    return CreateAcls(acls, ACTOR, comment=comment)


async def image_of(subject: Subject) -> AuthorizerImage:
    """As the loader makes it from a snapshot, checked against the head's digest."""
    builder = ImageBuilder(AuthorizerConfig())
    async with subject.feed.snapshot() as reader:
        builder.set_configs(reader.configs)
        async for some in reader.slices():
            builder.add_rows(some.rows)
            builder.add_terms(some)
        builder.check_digest(reader.head)
        return builder.build(reader.head)


def follows(records: Sequence[Record]) -> bool:
    """Whether each hash covers the one before."""
    chained = GENESIS_HASH
    for record in records:
        chained = record_hash(chained, record)
        if record.hash != chained:
            return False
    return True


@pytest.mark.upstream
async def test_an_acl_keeps_its_end_and_its_owner(subject: Subject) -> None:
    (outcome,) = await subject.write(make(NewAcl(topic("a"), END, ODD), NewAcl(topic("b"), None, None)))

    first, second = created(outcome)
    known = [StandardAcl(first.id, topic("a"), END, ODD), StandardAcl(second.id, topic("b"))]
    assert await subject.acls() == known
    assert [record.acl for record in await subject.records() if isinstance(record, AccessControlEntryRecord)] == known
    (deleted,) = await subject.write(delete(AclBindingFilter(resource_name="a")))
    assert matches(deleted) == [known[:1]]
    records: list[Any] = await subject.records()
    assert records[-1].acl == known[0]
    assert follows(records)


async def test_the_same_acl_again_takes_the_terms_that_are_said_and_keeps_the_others(subject: Subject) -> None:
    (outcome,) = await subject.write(make(NewAcl(topic("a"), END, "orders team")))
    (made,) = created(outcome)
    later = END + timedelta(days=1)

    async def again(wanted: NewAcl) -> StandardAcl:
        (outcome,) = await subject.write(make(wanted))
        assert created(outcome) == [CreatedAcl(made.id, created=False)]
        (acl,) = await subject.acls()
        assert acl.id == made.id
        return acl

    assert (await again(NewAcl(topic("a")))).terms == (END, "orders team")
    assert (await subject.head()).last_offset == 1
    assert (await again(NewAcl(topic("a"), owner="payments team"))).terms == (END, "payments team")
    assert (await again(NewAcl(topic("a"), later))).terms == (later, "payments team")
    assert (await again(NewAcl(topic("a"), None, None))).terms == (None, None)
    records = await subject.records()
    assert [type(record) for record in records] == [AccessControlEntryRecord] * 4
    assert [hash_version(record) for record in records] == [2, 2, 2, 1]
    assert follows(records)


async def test_one_call_may_say_several_terms_of_an_acl_and_the_last_stand(subject: Subject) -> None:
    (outcome,) = await subject.write(
        make(NewAcl(topic("a"), owner="first"), NewAcl(topic("a"), owner="second"), NewAcl(topic("a"), END))
    )

    assert [each.created for each in created(outcome)] == [True, False, False]
    assert [acl.terms for acl in await subject.acls()] == [(END, "second")]
    assert (await image_of(subject)).digest == (await subject.head()).digest


@pytest.mark.upstream
async def test_an_end_that_is_past_is_refused_and_does_not_hinder_its_neighbours(subject: Subject) -> None:
    past = datetime(2001, 1, 1, tzinfo=UTC)
    (outcome,) = await subject.write(make(NewAcl(topic("a"), past), NewAcl(topic("b"), END)))

    assert isinstance(outcome, CreateAclsOutcome)
    refusal, made = outcome.results
    assert isinstance(refusal, InvalidRequestException)
    assert "`expires_at` must be in the future: 2001-01-01T00:00:00Z is not after" in refusal.message
    assert isinstance(made, CreatedAcl)
    assert [acl.binding.resource_name for acl in await subject.acls()] == ["b"]


@pytest.mark.upstream
async def test_a_comment_stands_in_every_record_of_its_call_and_in_no_other(subject: Subject) -> None:
    # Another service as the store may write what comes at once in any order.
    await subject.write(
        make(NewAcl(topic("a")), NewAcl(topic("b")), comment=ODD),
        create(topic("c")),
        AlterConfigs([("allow.everyone.if.no.acl.found", "true")], ACTOR, comment="why"),
    )
    await subject.write(DeleteAcls([AclBindingFilter(resource_name="a")], ACTOR, comment="gone"))

    records = (await subject.behind(0, 5)).records
    names = [each.name if isinstance(each, ConfigRecord) else each.acl.binding.resource_name for each in records]
    said = [(each.comment, hash_version(each)) for each in records]
    assert sorted(zip(names[:4], said[:4], strict=True)) == [
        ("a", (ODD, 2)),
        ("allow.everyone.if.no.acl.found", ("why", 2)),
        ("b", (ODD, 2)),
        ("c", (None, 1)),
    ]
    assert (names[4], said[4]) == ("a", ("gone", 2))
    assert follows(records)


async def test_the_digest_is_that_of_the_whole_image_after_any_history(subject: Subject) -> None:
    draw = Random(7)
    image = await image_of(subject)
    assert image.digest == (await subject.head()).digest == 0
    for _ in range(25):
        await subject.write(*[_random(draw) for _ in range(draw.randrange(1, 4))])
        head = await subject.head()
        poll = await subject.feed.poll(image.offset, 1_000)
        for transaction in transactions_of(poll.records):
            image = image.apply(transaction)
        loaded = await image_of(subject)
        wanted = digest_of(await subject.acls(), loaded.overrides)
        assert head.digest == image.digest == loaded.digest == wanted
    assert image.offset > 25


def _random(draw: Random) -> Mutation:
    kind, names = draw.random(), [draw.choice("abcdef") for _ in range(3)]
    if kind < 0.2:
        return delete(AclBindingFilter(resource_name=names[0]))
    if kind < 0.35:
        return alter(("super.users", draw.choice([None, "User:a", "User:b;User:c"])))
    return make(*[NewAcl(topic(name), draw.choice([None, END]), draw.choice([None, "x", ODD])) for name in names])


async def test_a_bulk_load_keeps_the_digest_too(subject: Subject) -> None:
    acls = [StandardAcl(uuid4(), topic(f"t{number}"), END, ODD) for number in range(300)]
    batch = {each.binding.natural_key: BulkAcl(each.id, NewAcl(each.binding, *each.terms)) for each in acls}
    await subject.bulk.add(batch, ACTOR, KnownHistory())

    assert (await subject.head()).digest == digest_of(acls, {})
    assert {acl.terms for acl in await subject.acls()} == {(END, ODD)}


async def test_a_bulk_load_gives_acls_that_are_there_the_terms_that_it_says(subject: Subject) -> None:
    await subject.write(make(NewAcl(topic("a"), END, "x"), NewAcl(topic("b"), END, "x"), NewAcl(topic("c"), END, "x")))
    wanted = [NewAcl(topic("a"), None), NewAcl(topic("b")), NewAcl(topic("c"), END, "x"), NewAcl(topic("d"), None, "y")]
    batch = {acl.binding.natural_key: BulkAcl(uuid4(), acl) for acl in wanted}
    outcome = await subject.bulk.add(batch, ACTOR, KnownHistory(), "OPS-7")

    assert (list(outcome.created), sorted(outcome.found), outcome.changed, outcome.last_offset) == (
        [4],
        [1, 2, 3],
        1,
        5,
    )
    assert {acl.binding.resource_name: acl.terms for acl in await subject.acls()} == {
        "a": (None, "x"),
        "b": (END, "x"),
        "c": (END, "x"),
        "d": (None, "y"),
    }
    records = await subject.records()
    assert [(record.comment, record.tx_last) for record in records[3:]] == [("OPS-7", 4), ("OPS-7", 5)]
    assert follows(records)
    assert (await subject.head()).digest == digest_of(await subject.acls(), {})


async def test_a_bulk_load_with_an_end_that_is_past_changes_nothing(subject: Subject) -> None:
    await subject.write(make(NewAcl(topic("a"))))
    past = NewAcl(topic("a"), datetime(2001, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidRequestException, match="`expires_at` must be in the future"):
        await subject.bulk.add({past.binding.natural_key: BulkAcl(uuid4(), past)}, ACTOR, KnownHistory())
    assert (await subject.head()).last_offset == 1
