"""ACLs that have ended, by the store's clock: of the fake and of PostgreSQL."""

from datetime import UTC, datetime, timedelta

from app.core.digest import digest_of
from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclPermissionType
from app.core.mutations import EXPIRY_ACTOR, CreateAcls, ExpireAcls, ExpireAclsOutcome
from app.core.records import RemoveAccessControlEntryRecord, hash_version
from tests.gate.contract.subject import Subject
from tests.klamm import until
from tests.updates import ACTOR, created, topic

END = datetime(2099, 11, 30, 18, tzinfo=UTC)
DENY = topic("deny")._replace(permission_type=AclPermissionType.DENY)


async def store_time(subject: Subject) -> datetime:
    found = (await subject.feed.poll(0, 1)).store_time
    assert found is not None
    return found


async def make_ending(subject: Subject, *bindings: AclBinding) -> None:
    """ACLs that end at the same second, and then that second."""
    ends = (await store_time(subject)).replace(microsecond=0) + timedelta(seconds=1)
    (outcome,) = await subject.write(CreateAcls([NewAcl(each, ends, "a team") for each in bindings], ACTOR))
    if len(created(outcome)) < len(bindings):
        # The second has come in between.
        await make_ending(subject, *bindings)
        return

    async def have_ended() -> bool:
        return (await subject.feed.poll(0, 1)).holds_ended

    await until(have_ended, "the second")
    assert await store_time(subject) >= ends


async def names(subject: Subject) -> list[str]:
    return [acl.binding.resource_name for acl in await subject.acls()]


async def test_what_has_ended_is_removed_once_by_an_ordinary_record(subject: Subject) -> None:
    await subject.write(CreateAcls([NewAcl(topic("stays")), NewAcl(topic("later"), END)], ACTOR))
    await make_ending(subject, topic("a"), DENY)
    before = await subject.head()

    assert await subject.write(ExpireAcls(1_000)) == [ExpireAclsOutcome(2)]

    removals = (await subject.records())[before.last_offset :]
    assert {type(each) for each in removals} == {RemoveAccessControlEntryRecord}
    assert {(each.actor, each.comment, hash_version(each)) for each in removals} == {(EXPIRY_ACTOR, None, 2)}
    assert sorted(await names(subject)) == ["later", "stays"]
    head = await subject.head()
    assert head.digest == digest_of(await subject.acls(), {})
    assert not (await subject.feed.poll(0, 1)).holds_ended
    # Another replica that found it too comes later.
    assert await subject.write(ExpireAcls(1_000)) == [ExpireAclsOutcome(0)]
    assert await subject.head() == head


async def test_of_many_so_many_are_removed_at_once_and_the_others_later(subject: Subject) -> None:
    await make_ending(subject, *[topic(f"t{n}") for n in range(5)])

    assert await subject.write(ExpireAcls(2)) == [ExpireAclsOutcome(2)]
    assert (await subject.feed.poll(0, 1)).holds_ended
    assert await subject.write(ExpireAcls(2), ExpireAcls(2), ExpireAcls(2)) == [
        ExpireAclsOutcome(2),
        ExpireAclsOutcome(1),
        ExpireAclsOutcome(0),
    ]
    assert await names(subject) == []


async def test_an_ended_acl_that_is_named_again_is_made_again(subject: Subject) -> None:
    await make_ending(subject, topic("a"), DENY)
    (there,) = [acl.id for acl in await subject.acls() if acl.binding == topic("a")]
    (outcome,) = await subject.write(CreateAcls([NewAcl(topic("a"))], ACTOR))

    # What was acknowledged is not taken away by the end of what was there before.
    assert [each.id for each in created(outcome)] == [there]
    assert await subject.write(ExpireAcls(1_000)) == [ExpireAclsOutcome(1)]
    assert [(acl.binding, acl.terms) for acl in await subject.acls()] == [(topic("a"), (None, None))]
    assert (await subject.head()).digest == digest_of(await subject.acls(), {})
