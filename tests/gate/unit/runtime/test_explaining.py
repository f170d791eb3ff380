"""explain on a replica that follows its store: whose rights, one offset, and short steps."""

import asyncio
from dataclasses import replace

import pytest

from app.core.context import RequestContext
from app.core.explain.why import Explanation
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.errors import (
    AuthorizerNotReadyException,
    ClusterAuthorizationException,
    OffsetNotAvailableException,
)
from app.core.mutations import AlterConfigs, CreateAcls
from app.core.token import Token
from app.core.verdicts import Verdict
from app.runtime import pace
from app.runtime.authorizer import Authorizer
from app.runtime.options import RuntimeOptions
from app.runtime.rights import ExplainedCaller
from tests.contexts import Unchecked
from tests.fakes import FakeStore
from tests.klamm import until
from tests.updates import new
from tests.virtual_time import VIRTUAL_CLOCK, in_virtual_time
from tests.world import (
    ADDRESS,
    ALICE,
    OPTIONS,
    ROOT,
    acl,
    authorizer_on,
    cluster_acl,
    create,
    delete,
    never_rests,
    unopened,
)

BOB = Unchecked("User:bob", ADDRESS)
DESCRIBE = AclOperation.DESCRIBE


async def explain(
    authorizer: Authorizer, context: RequestContext, about: RequestContext, *names: str
) -> tuple[list[Explanation], Token | None]:
    actions = [(AclOperation.READ, ResourceType.TOPIC, name) for name in names]
    return await authorizer.explain(context, ExplainedCaller(about.principal, about.client_address), actions)


@in_virtual_time
async def test_anybody_may_ask_about_its_own_principal_from_anywhere() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        found, token = await explain(authorizer, ALICE, ALICE, "a", "b")
        assert [each.verdict for each in found] == [Verdict.ALLOWED_BY_ACL, Verdict.DEFAULT_DENY]
        assert token == authorizer.image.token
        elsewhere = Unchecked("User:alice", replace(ADDRESS, text="10.9.9.9"))
        assert (await explain(authorizer, ALICE, elsewhere, "a"))[0][0].verdict.allowed
        assert (await explain(authorizer, ALICE, ALICE))[0] == []


@in_virtual_time
async def test_about_others_only_who_may_describe_the_cluster_may_ask() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        with pytest.raises(ClusterAuthorizationException):
            await explain(authorizer, BOB, ALICE)
        texts = set()
        for about in (ALICE, ROOT, Unchecked("User:nobody", ADDRESS)):
            with pytest.raises(ClusterAuthorizationException) as refusal:
                await explain(authorizer, BOB, about, "a")
            texts.add(refusal.value.message)
        assert texts == {"cluster authorization failed"}
        assert (await explain(authorizer, ROOT, ALICE, "a"))[0][0].verdict.allowed
        store.commit([CreateAcls(new([cluster_acl(DESCRIBE, "User:bob")]), "User:admin")])
        await authorizer.wait_for(str(Token(store.epoch, 2)))
        assert (await explain(authorizer, BOB, ALICE, "a"))[0][0].verdict.allowed


@in_virtual_time
async def test_acls_of_others_are_shown_only_to_who_may_describe_the_cluster() -> None:
    store = FakeStore()
    store.commit([CreateAcls(new([acl("a", "User:carol"), acl("b", "User:*")]), "User:admin")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        found, _ = await explain(authorizer, ALICE, ALICE, "a")
        assert [each.acl.binding.principal for each in found[0].near_misses] == ["User:*"]
        found, _ = await explain(authorizer, ROOT, ALICE, "a")
        assert {each.acl.binding.principal for each in found[0].near_misses} == {"User:*", "User:carol"}


@in_virtual_time
async def test_before_the_first_load_only_super_users_are_explained_and_only_to_super_users() -> None:
    store = FakeStore()
    store.unreachable = True
    async with authorizer_on(store, OPTIONS, ready=False) as authorizer:
        found, token = await explain(authorizer, ROOT, ROOT, "a")
        assert ([each.verdict for each in found], token) == ([Verdict.SUPER_USER], None)
        for context, about in ((ROOT, ALICE), (ALICE, ALICE), (ALICE, ROOT)):
            with pytest.raises(AuthorizerNotReadyException):
                await explain(authorizer, context, about, "a")


@in_virtual_time
async def test_without_an_authorizer_everyone_may_ask_and_is_told_so() -> None:
    async with authorizer_on(FakeStore(), RuntimeOptions(clock=VIRTUAL_CLOCK, enabled=False)) as authorizer:
        found, _ = await explain(authorizer, BOB, ALICE, "a")
        assert found[0].verdict is Verdict.SUPER_USER
        assert found[0].note is not None
        assert "`authorizer.enabled` is false" in found[0].note


@pytest.mark.usefixtures("breathless")
@pytest.mark.parametrize("restless", [True, False])
@in_virtual_time
async def test_all_answers_stand_on_the_tokens_offset_however_often_the_store_changes(restless: bool) -> None:  # noqa: FBT001 - parametrized
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        first = authorizer.image.offset
        task = asyncio.create_task(explain(authorizer, ALICE, ALICE, *("a", "b") * 3))
        flips = 0
        while not task.done():
            if restless or not flips:
                gone, new = ("a", "b") if flips % 2 == 0 else ("b", "a")
                store.commit([delete(gone), create(new)])
                flips += 1
            await asyncio.sleep(0)
        found, token = await task
        assert flips > 1 or not restless
        assert token is not None
        # Each flip is two records: after an even number of them `a` is readable, after an odd one `b`.
        readable = "ab"[(token.offset - first) // 2 % 2]
        assert [each.verdict.allowed for each in found] == [name == readable for name in ("a", "b") * 3]
        for each in found:
            assert (each.smallest_acl is None) is each.verdict.allowed


@pytest.mark.usefixtures("breathless")
@in_virtual_time
async def test_a_store_that_never_rests_does_not_keep_the_answer_away(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        never_rests(authorizer, monkeypatch)
        found, token = await explain(authorizer, ALICE, ALICE, "a", "b")
        assert ([each.verdict.allowed for each in found], token) == ([True, False], authorizer.image.token)


@pytest.mark.usefixtures("breathless")
@in_virtual_time
async def test_a_long_search_gives_way_to_others() -> None:
    store = FakeStore()
    store.commit([create(*(f"t{number:04}" for number in range(200)))])
    async with authorizer_on(store, OPTIONS) as authorizer:
        task = asyncio.create_task(explain(authorizer, ALICE, ALICE, "t", "u"))
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 3
        found, _ = await task
        assert [len(each.near_misses) for each in found] == [3, 3]


@pytest.mark.usefixtures("breathless")
@in_virtual_time
async def test_a_fresh_image_in_the_middle_of_a_search_begins_it_anew() -> None:
    store, other = FakeStore(), FakeStore()
    store.commit([create(*(f"t{number:04}" for number in range(200)))])
    other.commit([create("today")])
    async with authorizer_on(store, OPTIONS) as authorizer, authorizer_on(other, OPTIONS) as second:
        task = asyncio.create_task(explain(authorizer, ALICE, ALICE, "t"))
        await asyncio.sleep(0)
        authorizer._loader._publish(second.image)
        found, token = await task
        assert [each.acl.binding.resource_name for each in found[0].near_misses] == ["today"]
        assert token == second.image.token


@pytest.mark.usefixtures("breathless")
@in_virtual_time
async def test_an_image_that_is_lost_in_the_middle_of_a_search_ends_it() -> None:
    store = FakeStore()
    store.commit([create(*(f"t{number:04}" for number in range(200)))])
    async with authorizer_on(store, OPTIONS) as authorizer:
        task = asyncio.create_task(explain(authorizer, ALICE, ALICE, "t"))
        await asyncio.sleep(0)
        authorizer._loader._publish(unopened(store).image)
        with pytest.raises(AuthorizerNotReadyException):
            await task


@pytest.mark.usefixtures("breathless")
@in_virtual_time
async def test_a_right_that_goes_while_it_is_searched_is_gone() -> None:
    store = FakeStore()
    store.commit([create(*(f"t{number:04}" for number in range(200)))])
    store.commit([CreateAcls(new([cluster_acl(DESCRIBE, "User:bob")]), "User:admin")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        task = asyncio.create_task(explain(authorizer, BOB, ALICE, "t"))
        await asyncio.sleep(0)
        authorizer.image.index.remove(cluster_acl(DESCRIBE, "User:bob"))
        with pytest.raises(ClusterAuthorizationException):
            await task


@pytest.mark.parametrize("restless", [True, False])
@in_virtual_time
async def test_acls_of_others_that_were_found_before_the_right_went_are_not_shown(
    monkeypatch: pytest.MonkeyPatch,
    restless: bool,  # noqa: FBT001 - parametrized
) -> None:
    store = FakeStore()
    right = cluster_acl(DESCRIBE, "User:bob")
    others = [acl("a", "User:carol"), acl("a", "User:dave"), acl("b", "User:*"), acl("b", "User:bob")]
    store.commit([CreateAcls(new([right, *others]), "User:admin")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        found, first = await explain(authorizer, BOB, BOB, "a")
        assert "User:carol" in {each.acl.binding.principal for each in found[0].near_misses}
        breaths = 0

        async def breathe(_: pace.Pace) -> None:
            # So little takes no breath while it is searched: the first one is taken when the first has been found.
            nonlocal breaths
            breaths += 1
            if breaths == 1:
                store.commit([delete("kafka-cluster")])
                await until(lambda: authorizer.image.token != first)
            if restless:
                authorizer._loader._publish(replace(authorizer.image))

        monkeypatch.setattr(pace.Pace, "breathe", breathe)
        found, token = await explain(authorizer, BOB, BOB, "a", "a")
        assert breaths > 1
        assert token == authorizer.image.token != first
        for each in found:
            assert {miss.acl.binding.principal for miss in each.near_misses} == {"User:*", "User:bob"}
            assert (each.matching_acls, each.matching_acl_count, each.denying_acl_count) == ((), 0, 0)


def spelled(count: int) -> CreateAcls:
    """So many DENYs on `a` for everybody, each a spelling of one range."""
    deny = acl("a", "User:*", allow=False)
    return CreateAcls(new([deny._replace(host=f"10.{n >> 8}.{n & 255}.0/8") for n in range(count)]), "User:admin")


@in_virtual_time
async def test_thousands_that_match_give_way_to_others_and_are_all_of_one_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = FakeStore()
    store.commit([spelled(4_000)])
    async with authorizer_on(store, OPTIONS) as authorizer:
        breaths, change_at = 0, 0
        first = authorizer.image.token

        async def breathe(_: pace.Pace) -> None:
            nonlocal breaths
            breaths += 1
            if breaths == change_at:
                store.commit([create("a")])
                await until(lambda: authorizer.image.token != first)

        monkeypatch.setattr(pace.Pace, "breathe", breathe)
        found, token = await explain(authorizer, ALICE, ALICE, "a", "a")
        assert ([each.matching_acl_count for each in found], token) == ([4_000, 4_000], first)
        once = breaths
        assert once > 2 * 4_000 // 100
        breaths, change_at = 0, once // 2 + 10
        found, token = await explain(authorizer, ALICE, ALICE, "a", "a")
        assert ([each.matching_acl_count for each in found], token) == ([4_001, 4_001], authorizer.image.token)
        # What was looked at before the change is looked at again.
        assert breaths > once + 4_000 // 100


@pytest.mark.usefixtures("breathless")
@pytest.mark.parametrize("matching", [40, 4_000])
@in_virtual_time
async def test_where_the_store_never_rests_so_much_is_looked_at_in_one_step_and_no_more(
    monkeypatch: pytest.MonkeyPatch, matching: int
) -> None:
    store = FakeStore()
    store.commit([spelled(matching)])
    async with authorizer_on(store, OPTIONS) as authorizer:
        never_rests(authorizer, monkeypatch)
        if matching <= 1_000:
            found, token = await explain(authorizer, ALICE, ALICE, *"ab" * 50)
            assert [each.matching_acl_count for each in found] == [matching, 0] * 50
            assert token == authorizer.image.token
        else:
            with pytest.raises(OffsetNotAvailableException, match="ask about fewer actions at once, or try again"):
                await explain(authorizer, ALICE, ALICE, "a")


@in_virtual_time
async def test_who_may_not_see_others_acls_is_not_told_that_a_deny_hides_some() -> None:
    """The whole of it: tests/gate/unit/core/test_explain_secrecy.py."""
    store = FakeStore()
    deny, opened = acl("a", ALICE.principal, allow=False), ("allow.everyone.if.no.acl.found", "true")
    # Without an ACL on it the cluster would be everybody's to describe.
    closing = cluster_acl(DESCRIBE, "User:carol")
    store.commit([CreateAcls(new([deny, closing]), "User:admin"), AlterConfigs([opened], "User:admin")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        alone, _ = await explain(authorizer, ALICE, ALICE, "a")
        seen_by_root, _ = await explain(authorizer, ROOT, ALICE, "a")
        assert (seen_by_root[0].acl_needed_besides, alone[0].acl_needed_besides is None) == (None, False)
        store.commit([CreateAcls(new([acl("a", "User:carol")]), "User:admin")])
        await until(lambda: authorizer.image.acl_count == 3)
        assert (await explain(authorizer, ALICE, ALICE, "a"))[0] == alone
        (found,), _ = await explain(authorizer, ROOT, ALICE, "a")
        assert found.acl_needed_besides == alone[0].acl_needed_besides


@pytest.mark.usefixtures("breathless")
@in_virtual_time
async def test_many_small_questions_give_way_to_others_too() -> None:
    store = FakeStore()
    store.commit([create("a")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        task = asyncio.create_task(explain(authorizer, ALICE, ALICE, *"ab" * 50))
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        # One after each search, each answer and each telling.
        assert turns >= 3 * 100
        assert len((await task)[0]) == 100
