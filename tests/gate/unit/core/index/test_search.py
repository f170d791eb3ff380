"""Search beyond what tests/laws/test_laws.py draws: many rows, bounded steps, and an index that moves beneath."""

from dataclasses import replace

import pytest

from app.core.index.search import search
from app.core.index.table import sort_key
from app.core.index.tree import AclIndex
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from tests.images import index_of, numbered
from tests.updates import topic

MANY_NAMES = [topic(f"t{n:05d}", f"User:{n % 7}") for n in range(3_000)]
ONE_NAME = [topic("orders", f"User:{n:05d}") for n in range(3_000)]
BOTH_PATTERNS = [
    acl._replace(pattern_type=each) for acl in ONE_NAME for each in (PatternType.LITERAL, PatternType.PREFIXED)
]
ONE_PRINCIPAL = [topic(f"t{n:05d}") for n in range(4_500)]


def flat(index: AclIndex, acl_filter: AclBindingFilter) -> list[StandardAcl]:
    return [acl for step in search(index, acl_filter) for acl in step]


def scan(stored: list[StandardAcl], acl_filter: AclBindingFilter) -> list[StandardAcl]:
    return sorted((acl for acl in stored if acl_filter.matches(acl.binding)), key=lambda acl: sort_key(acl.binding))


FILTERS = [
    AclBindingFilter(),
    AclBindingFilter(operation=AclOperation.WRITE),
    AclBindingFilter(principal="User:3"),
    AclBindingFilter(principal="User:00003"),
    AclBindingFilter(principal="User:alice"),
    AclBindingFilter(pattern_type=PatternType.MATCH),
    AclBindingFilter(pattern_type=PatternType.PREFIXED),
    AclBindingFilter(resource_name="orders"),
    AclBindingFilter(resource_name="orders", principal="User:02999"),
    AclBindingFilter(resource_type=ResourceType.GROUP),
]


def test_thousands_are_listed_in_order_and_in_bounded_steps(subtests: pytest.Subtests) -> None:
    for acls in [MANY_NAMES, ONE_NAME, ONE_PRINCIPAL]:
        with subtests.test(acls=acls):
            stored = numbered(acls)
            index = index_of(stored)
            for acl_filter in FILTERS:
                steps = list(search(index, acl_filter))
                assert [acl for step in steps for acl in step] == scan(stored, acl_filter), acl_filter
                assert max(map(len, steps)) <= 1_000
                assert len(steps) <= len(stored) // 100


def test_a_search_that_finds_nothing_still_yields_now_and_then() -> None:
    index = index_of(numbered(ONE_PRINCIPAL))
    steps = list(search(index, AclBindingFilter(host="10.0.0.1")))
    assert len(steps) > 4_500 // 1_000
    assert not any(steps)


@pytest.mark.parametrize("acls", [MANY_NAMES, BOTH_PATTERNS[:3_000]], ids=["names", "principals"])
def test_every_place_is_a_good_place_to_go_on_from(acls: list[AclBinding]) -> None:
    stored = numbered(acls)
    index = index_of(stored)
    everything = scan(stored, AclBindingFilter())
    for at in (0, 1, 399, 400, 401, 1_500, 2_998, 2_999):
        after = sort_key(everything[at].binding)
        assert [acl for step in search(index, AclBindingFilter(), after) for acl in step] == everything[at + 1 :]


@pytest.mark.parametrize("acls", [MANY_NAMES, ONE_NAME], ids=["names", "principals"])
def test_what_stays_is_listed_once_while_others_come_and_go(acls: list[AclBinding]) -> None:
    stored = numbered(acls)
    index = index_of(stored)
    going = stored[::2]
    found: list[StandardAcl] = []
    waiting = list(going)
    for step in search(index, AclBindingFilter()):
        found += step
        for acl in waiting[:100]:
            index.remove(acl.binding)
        # Rows that were freed are used again at once, for ACLs that sort anywhere.
        for n, acl in enumerate(waiting[:50]):
            index.add(replace(acl, binding=acl.binding._replace(principal=f"User:new{n}{acl.id}")).row)
        del waiting[:100]
    staying = stored[1::2]
    stays = set(staying)
    assert [acl for acl in found if acl in stays] == scan(staying, AclBindingFilter())
    assert [sort_key(acl.binding) for acl in found] == sorted({sort_key(acl.binding) for acl in found})


def test_a_pattern_that_empties_while_it_is_listed_ends_quietly() -> None:
    stored = numbered(ONE_NAME)
    index = index_of(stored)
    steps = search(index, AclBindingFilter())
    first = next(steps)
    assert first
    for acl in stored:
        index.remove(acl.binding)
    assert [acl for step in steps for acl in step] == []


def test_a_prefix_that_covers_the_name_is_found_among_many_types_and_lengths() -> None:
    acls = [topic("o" * n, pattern_type=PatternType.PREFIXED) for n in range(1, 40)]
    acls += [acl._replace(resource_type=ResourceType.GROUP) for acl in acls]
    index = index_of(numbered(acls))
    wanted = AclBindingFilter(ResourceType.TOPIC, "ooo", PatternType.MATCH)
    assert [acl.binding.resource_name for acl in flat(index, wanted)] == ["o", "oo", "ooo"]
