import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.index.table import sort_key
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclOperation
from app.core.kafka.errors import AuthorizerNotReadyException, InvalidRequestException
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import CreateAcls
from app.runtime.authorizer import Authorizer
from app.runtime.listing import MAX_LIMIT
from tests.budgets import budget
from tests.fakes import FakeStore
from tests.updates import new
from tests.virtual_time import in_virtual_time
from tests.world import OPTIONS, ROOT, acl, authorizer_on, create, delete, named, unopened

EVERY = AclBindingFilter()


async def every_page(authorizer: Authorizer, acl_filter: AclBindingFilter, limit: int) -> list[list[StandardAcl]]:
    pages, cursor = [], None
    while True:
        page = await authorizer.acls(ROOT, acl_filter, limit, cursor)
        pages.append(page.acls)
        cursor = page.next_cursor
        if cursor is None:
            return pages


@settings(max_examples=budget("law of whole stores"))
@given(st.sets(st.sampled_from("abcdefgh"), max_size=8), st.integers(1, 9), st.booleans())
def test_pages_put_together_are_the_whole_in_order(names: set[str], limit: int, both: bool) -> None:  # noqa: FBT001 - drawn
    @in_virtual_time
    async def run() -> None:
        store = FakeStore()
        bindings = [acl(name) for name in names]
        if both:
            bindings += [each._replace(operation=AclOperation.WRITE, principal="User:bob") for each in bindings]
        store.commit([CreateAcls(new(bindings), "User:admin")])
        async with authorizer_on(store, OPTIONS) as authorizer:
            pages = await every_page(authorizer, EVERY, limit)
            found = [each for page in pages for each in page]
            assert found == sorted(store.tables.acls.values(), key=lambda each: sort_key(each.binding))
            assert all(len(page) == limit for page in pages[:-1])
            assert pages[-1] or not names

    run()


@in_virtual_time
async def test_a_page_says_the_offset_it_stands_on_and_whether_there_is_more() -> None:
    store = FakeStore()
    store.commit([create("a", "b", "c")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        page = await authorizer.acls(ROOT, EVERY, 3, None)
        assert (len(page.acls), page.next_cursor, page.token) == (3, None, authorizer.image.token)
        page = await authorizer.acls(ROOT, EVERY, 2, None)
        assert (len(page.acls), page.next_cursor is None) == (2, False)
        assert [len(each) for each in await every_page(authorizer, named("b"), 1)] == [1]
        assert (await authorizer.acls(ROOT, named("zzz"), 1, None)).acls == []


@pytest.mark.parametrize("limit", [0, -1, MAX_LIMIT + 1])
@in_virtual_time
async def test_a_limit_out_of_bounds_is_refused(limit: int) -> None:
    async with authorizer_on(FakeStore(), OPTIONS) as authorizer:
        with pytest.raises(InvalidRequestException, match="`limit`"):
            await authorizer.acls(ROOT, EVERY, limit, None)
        with pytest.raises(InvalidRequestException, match="`cursor`"):
            await authorizer.acls(ROOT, EVERY, 1, "garbage")


@in_virtual_time
async def test_an_acl_that_goes_between_two_pages_takes_no_other_with_it() -> None:
    store = FakeStore()
    store.commit([create("a", "b", "c", "d")])
    async with authorizer_on(store, OPTIONS) as authorizer:
        page = await authorizer.acls(ROOT, EVERY, 2, None)
        await authorizer.updates.delete_acls(ROOT, [named("b"), named("c")], None)
        rest = await authorizer.acls(ROOT, EVERY, 2, page.next_cursor)
        assert [each.binding.resource_name for each in rest.acls] == ["d"]


@in_virtual_time
async def test_a_long_search_gives_way_to_others_and_holds_all_that_stays() -> None:
    store = FakeStore()
    store.commit([create(*(f"t{number:04}" for number in range(4000)))])
    async with authorizer_on(store, OPTIONS) as authorizer:
        token = authorizer.image.token
        task = asyncio.create_task(authorizer.acls(ROOT, AclBindingFilter(principal="User:nobody"), 10, None))
        other = asyncio.create_task(authorizer.acls(ROOT, AclBindingFilter(host="10.0.0.1"), 10, None))
        store.commit([delete("t0001"), create("t9999")])
        turns = 0
        while not (task.done() and other.done()):
            await asyncio.sleep(0)
            turns += 1
        assert turns > 5
        assert (await other).acls == (await task).acls == []
        # The token is the state at the beginning: all changes up to it are in the page.
        assert (await other).token == token


@in_virtual_time
async def test_a_fresh_image_in_the_middle_of_a_search_begins_it_anew() -> None:
    store = FakeStore()
    store.commit([create(*(f"t{number:04}" for number in range(4000)))])
    other = FakeStore()
    other.commit([CreateAcls(new([acl("new")._replace(host="10.0.0.1")]), "User:admin")])
    async with authorizer_on(store, OPTIONS) as authorizer, authorizer_on(other, OPTIONS) as second:
        search = asyncio.create_task(authorizer.acls(ROOT, AclBindingFilter(host="10.0.0.1"), 10, None))
        await asyncio.sleep(0)
        authorizer._loader._publish(second.image)
        page = await search
        assert [each.binding.resource_name for each in page.acls] == ["new"]
        assert page.token == second.image.token


@in_virtual_time
async def test_an_image_that_is_lost_in_the_middle_of_a_search_ends_it() -> None:
    store = FakeStore()
    store.commit([create(*(f"t{number:04}" for number in range(4000)))])
    async with authorizer_on(store, OPTIONS) as authorizer:
        search = asyncio.create_task(authorizer.acls(ROOT, AclBindingFilter(host="10.0.0.1"), 10, None))
        await asyncio.sleep(0)
        authorizer._loader._publish(unopened(store).image)
        with pytest.raises(AuthorizerNotReadyException):
            await search
