"""Near misses: those that a plain scan finds, in its order, and the same work at many ACLs as at few."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.explain.misses import Question, distance
from app.core.explain.near_misses import MAX_NEAR_MISSES, MAX_OF_A_KIND, NearMiss, NearMissSearch, still_there
from app.core.index.table import SortKey, sort_key
from app.core.index.tree import AclIndex
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import WILDCARD_PRINCIPAL, AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.hosts import parse_address
from tests.images import index_of, numbered
from tests.reference import Reference, _allows, _covers, _denies
from tests.strategies import ASKED_NAMES, CONCRETE_OPERATIONS, binding_lists, callers
from tests.updates import topic

READ, WRITE = AclOperation.READ, AclOperation.WRITE
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP

questions = st.builds(
    lambda caller, operation, resource_type, name: Question(
        caller[0], parse_address(caller[1]), operation, resource_type, name
    ),
    callers,
    st.sampled_from((READ, READ, *CONCRETE_OPERATIONS)),
    st.sampled_from((TOPIC, TOPIC, GROUP, ResourceType.CLUSTER)),
    st.sampled_from(ASKED_NAMES),
)


def question(name: str = "orders", principal: str = "User:alice", address: str = "10.0.0.1") -> Question:
    return Question(principal, parse_address(address), READ, TOPIC, name)


def near(
    index: AclIndex, asked: Question, permission: AclPermissionType = ALLOW, *, others: bool = True
) -> list[NearMiss]:
    search = NearMissSearch(index, asked, permission, of_others=others)
    for _ in search.steps():
        pass
    return search.found()


def near_among(*acls: AclBinding, asked: Question | None = None) -> list[tuple[AclBinding, tuple[str, ...], str]]:
    found = near(index_of(numbered(acls)), asked or question())
    return [(each.acl.binding, each.missed, each.detail) for each in found]


def dimensions_missed(acl: AclBinding, asked: Question) -> tuple[str, ...]:
    """By the documented rules, one by one."""
    matches = {
        "principal": acl.principal in (asked.principal, WILDCARD_PRINCIPAL),
        "host": Reference([])._matches_host(acl.host, asked.address.text),
        "operation": (_allows if acl.permission_type is ALLOW else _denies)(acl, asked.operation),
        "resource": acl.resource_type is asked.resource_type and _covers(acl, asked.resource_name),
    }
    return tuple(name for name, holds in matches.items() if not holds)


def scanned(acls: Sequence[AclBinding], asked: Question, permission: AclPermissionType) -> list[AclBinding]:
    """The near misses, by a look at every ACL."""
    kinds: dict[tuple[str, ...], list[tuple[int, AclBinding]]] = {}
    for acl in acls:
        missed = dimensions_missed(acl, asked)
        far = distance(asked, sort_key(acl), asked.missed_by(sort_key(acl)))
        strangers = {"principal", "resource"} <= set(missed)
        elsewhere = acl.resource_type is not asked.resource_type and acl.resource_name != asked.resource_name
        assert (far is None) is (not 1 <= len(missed) <= 2 or strangers or elsewhere)
        if far is not None and acl.permission_type is permission:
            kinds.setdefault(missed, []).append((far, acl))
    order = [
        each
        for kind in kinds.values()
        for each in sorted(kind, key=lambda miss: (miss[0], sort_key(miss[1])))[:MAX_OF_A_KIND]
    ]
    return [acl for _, acl in sorted(order, key=lambda miss: (miss[0], sort_key(miss[1])))][:MAX_NEAR_MISSES]


def assert_equals_a_plain_scan(acls: list[AclBinding], asked: Question, permission: AclPermissionType) -> None:
    found = near(index_of(numbered(acls)), asked, permission)
    assert [each.acl.binding for each in found] == scanned(acls, asked, permission)
    for each in found:
        assert each.missed == dimensions_missed(each.acl.binding, asked)
        assert each.detail.startswith("would match if ")
        assert each.detail.count(" and ") >= len(each.missed) - 1


@given(binding_lists, questions, st.sampled_from((ALLOW, DENY)))
def test_near_misses_are_those_of_a_plain_scan(
    acls: list[AclBinding], asked: Question, permission: AclPermissionType
) -> None:
    assert_equals_a_plain_scan(acls, asked, permission)


@given(binding_lists, questions)
def test_whoever_may_not_see_others_sees_no_acl_of_theirs(acls: list[AclBinding], asked: Question) -> None:
    index = index_of(numbered(acls))
    for each in near(index, asked, others=False):
        assert each.acl.binding.principal in (asked.principal, WILDCARD_PRINCIPAL)
        assert "principal" not in each.missed


ORDERS = topic("orders")


def test_what_would_have_to_be_so_is_said(subtests: pytest.Subtests) -> None:
    for acl, missed, condition in [
        (topic("orders", "User:carol"), ("principal",), "the principal were `User:carol`"),
        (ORDERS._replace(host="10.0.0.2"), ("host",), "the client's address were `10.0.0.2`"),
        (ORDERS._replace(host="10.9.0.0/16"), ("host",), "the client's address were in `10.9.0.0/16`"),
        (ORDERS._replace(host="10.0.0/8"), ("host",), "its host `10.0.0/8` were a valid range of addresses"),
        (ORDERS._replace(operation=WRITE), ("operation",), "the operation were WRITE"),
        (topic("payments"), ("resource",), "the resource were `payments`"),
        (topic("order"), ("resource",), "its pattern type were PREFIXED"),
        (
            topic("ord*"),
            ("resource",),
            "its pattern were PREFIXED `ord`, because `*` within a name is not a wildcard",
        ),
        (topic("orders-", pattern_type=PREFIXED), ("resource",), "the resource's name began with `orders-`"),
        (
            topic("*", pattern_type=PREFIXED),
            ("resource",),
            "its pattern type were LITERAL, because PREFIXED `*` covers only names that begin with `*`",
        ),
        (ORDERS._replace(resource_type=GROUP), ("resource",), "the resource were a GROUP, not a TOPIC"),
        (
            ORDERS._replace(host="10.0.0.2", operation=WRITE),
            ("host", "operation"),
            "the client's address were `10.0.0.2` and the operation were WRITE",
        ),
        (
            topic("orders", "User:carol")._replace(operation=WRITE),
            ("principal", "operation"),
            "the principal were `User:carol` and the operation were WRITE",
        ),
    ]:
        with subtests.test(acl=acl, missed=missed, condition=condition):
            assert near_among(acl) == [(acl, missed, f"would match if {condition}")]


def test_an_address_in_another_spelling_is_told_the_one_that_counts() -> None:
    acl = ORDERS._replace(host="2001:db8::1")
    ((_, missed, detail),) = near_among(acl, asked=question(address="2001:db8::1"))
    assert missed == ("host",)
    assert detail == "would match if its host were spelled `2001:db8:0:0:0:0:0:1`"
    write = ORDERS._replace(operation=WRITE)
    assert [each[0] for each in near_among(write, acl, asked=question(address="2001:db8::1"))] == [acl, write]


@pytest.mark.parametrize(
    "acl",
    [
        topic("payments", "User:carol"),
        topic("payments")._replace(host="10.0.0.2", operation=WRITE),
        topic("payments")._replace(resource_type=GROUP),
        ORDERS._replace(permission_type=DENY, operation=WRITE),
    ],
    ids=["a stranger's elsewhere", "three dimensions", "another type and name", "the other permission"],
)
def test_what_is_too_far_is_no_near_miss(acl: AclBinding) -> None:
    assert near_among(acl) == []


def test_the_nearest_come_first() -> None:
    order = [
        topic("Orders"),
        topic("ord*"),
        topic("order"),
        ORDERS._replace(operation=WRITE),
        ORDERS._replace(host="10.0.0.2"),
        topic("orders", "User:alicia"),
        topic("orders", "Robot:x"),
        ORDERS._replace(host="10.0.0.2", operation=WRITE),
    ]
    farther = [ORDERS._replace(resource_type=GROUP), topic("zebra")]
    assert [acl for acl, _, _ in near_among(*farther, *reversed(order))] == order
    assert [acl for acl, _, _ in near_among(*reversed(farther))] == farther


def test_one_kind_does_not_hide_the_others() -> None:
    many = [topic(f"orders{n}") for n in range(50)]
    other = topic("orders", "User:zoe")
    found = [acl for acl, _, _ in near_among(*many, other)]
    assert found == [*many[:MAX_OF_A_KIND], other]


def test_no_more_are_shown_than_can_be_read() -> None:
    acls = [
        acl._replace(**change)
        for n in range(9)
        for acl in (topic("orders", f"User:{n}"), topic(f"orders{n}"), ORDERS)
        for change in (
            {"host": f"10.0.1.{n}"},
            {"operation": tuple(AclOperation)[4 + n]},
            {"host": f"10.0.1.{n}", "operation": tuple(AclOperation)[4 + n]},
        )
    ]
    assert len(near_among(*acls)) == MAX_NEAR_MISSES


def test_what_has_gone_meanwhile_is_not_shown() -> None:
    stored = numbered([topic("orders", "User:carol"), topic("orders", "User:dave")])
    index = index_of(stored)
    found = near(index, question())
    assert len(still_there(index, found)) == 2
    index.remove(stored[0].binding)
    assert [each.acl for each in still_there(index, found)] == [stored[1]]
    # The same seven fields again are another ACL.
    index.add(StandardAcl(stored[1].id, stored[0].binding).row)
    assert [each.acl for each in still_there(index, found)] == [stored[1]]


def crowded() -> Iterator[tuple[str, list[AclBinding], AclBinding, Question]]:
    """Many ACLs, one near miss among them that must not be lost, and who asks."""
    names = [topic(f"t{n:05d}") for n in range(3_000)]
    yield "names", names, topic("Orders"), question()
    yield "a glob among names", names, topic("ord*"), question()
    yield "a neighbour among names", names, topic("orders-eu", pattern_type=PREFIXED), question()
    people = [topic("orders", f"User:p{n:05d}") for n in range(3_000)]
    yield "people", people, topic("orders", "User:Alice"), question()
    yield "a neighbour among people", people, topic("orders", "User:alicia"), question()
    hosts = [ORDERS._replace(host=f"10.1.{n // 250}.{n % 250}") for n in range(3_000)]
    yield "hosts", hosts, ORDERS._replace(operation=WRITE), question()
    anybody = [topic(f"t{n:05d}", "User:*") for n in range(3_000)]
    yield "everybody's names", anybody, topic("orders2", "User:*"), question()


CROWDS = list(crowded())


class Counted(NearMissSearch):
    """Counts the rows that it looks at."""

    def __init__(self, index: AclIndex, asked: Question) -> None:
        super().__init__(index, asked, ALLOW)
        self.looked_at = 0

    def _consider(self, key: SortKey, acl_id: bytes) -> None:
        self.looked_at += 1
        super()._consider(key, acl_id)


def test_the_nearest_is_found_among_thousands_in_short_steps_and_few_of_them(subtests: pytest.Subtests) -> None:
    for acls, expected, asked in [each[1:] for each in CROWDS]:
        with subtests.test(acls=acls, expected=expected, asked=asked):
            search = Counted(index_of(numbered([*acls, expected])), asked)
            before = 0
            for _ in search.steps():
                assert search.looked_at - before <= 500
                before = search.looked_at
            assert search.looked_at <= 1_000
            assert expected in [each.acl.binding for each in search.found()]


def test_an_index_that_changes_between_the_steps_is_searched_to_the_end() -> None:
    stored = numbered(
        [topic("orders", f"User:p{n:05d}") for n in range(200)] + [topic(f"orders{n}") for n in range(200)]
    )
    index = index_of(stored)
    search = NearMissSearch(index, question(), ALLOW)
    gone = list(stored)
    for _ in search.steps():
        for acl in gone[:40]:
            index.remove(acl.binding)
        for n, acl in enumerate(gone[:20]):
            index.add(replace(acl, binding=acl.binding._replace(resource_name=f"new{n}{acl.id}")).row)
        del gone[:40]
    for each in still_there(index, search.found()):
        assert index.get(each.acl.id.bytes) == each.acl


def around(name: str) -> list[AclBinding]:
    """Near misses of every kind around this topic, more than are looked at one and all."""
    rare = topic(name)._replace(operation=WRITE, host="10.0.0.0/8")
    return [
        *(topic(name, f"User:p{n:04}") for n in range(300)),
        *(topic(f"{name}-{n:04}") for n in range(300)),
        *(topic(name)._replace(host=f"10.1.{n % 250}.{n // 250}") for n in range(400)),
        *(topic(name)._replace(host=f"10.2.0.{n}", operation=WRITE) for n in range(200)),
        *(topic("*", "User:*")._replace(host=f"10.{n % 200}.9.0/{24 + n % 3}") for n in range(300)),
        rare,
    ]


def rebuilt(acls: Sequence[StandardAcl], seed: int) -> AclIndex:
    """The same ACLs, come in another order, with others among them that have gone again."""
    drawn = Random(seed)
    churn = [
        StandardAcl(UUID(int=1 << 100 | n), acl.binding._replace(operation=AclOperation.ALTER))
        for n, acl in enumerate(acls)
    ]
    shuffled = drawn.sample([*acls, *churn], 2 * len(acls))
    index = AclIndex()
    for acl in shuffled:
        index.add(acl.row)
    for acl in drawn.sample(churn, len(churn)):
        index.remove(acl.binding)
    return index


@pytest.mark.parametrize("kept", [1.0, 0.5, 0.15, 0.04])
@pytest.mark.parametrize("others", [True, False])
def test_two_replicas_and_two_calls_find_the_same(kept: float, others: bool) -> None:  # noqa: FBT001 - parametrized
    """However their ACLs have come: what grew hot stays so, and a dictionary keeps the order that it was filled in."""
    for seed in range(4):
        acls = numbered([acl for acl in around("orders") if Random(f"{acl}{seed}").random() < kept])
        index = index_of(acls)
        for asked in (question(), question(name="orders-0100"), question(address="10.1.3.1")):
            found = near(index, asked, others=others)
            assert found
            assert near(index, asked, others=others) == found
            assert near(rebuilt(acls, seed), asked, others=others) == found


def test_of_very_many_hosts_those_around_the_callers_address_are_found() -> None:
    crowd = [ORDERS._replace(host=f"10.{n // 62_500}.{n // 250 % 250}.{n % 250}") for n in range(1_000, 6_000)]
    ranges = [ORDERS._replace(host=host, operation=WRITE) for host in ("10.0.0.0/8", "10.0.0.1")]
    next_to_it = ORDERS._replace(host="10.0.0.3")
    found = [acl for acl, _, _ in near_among(*crowd, *ranges, next_to_it)]
    assert set(found) == {next_to_it, *ranges}


def test_a_search_ends_however_much_there_is_to_look_at() -> None:
    """Every prefix of the name with hundreds of principals on it, each with hundreds of hosts, would take seconds."""
    name = "orders" * 20
    acls = [
        topic(name[:length], f"User:p{n:03}", pattern_type=PREFIXED) for length in range(1, 120) for n in range(250)
    ]
    search = Counted(index_of(numbered(acls)), question(name))
    for _ in search.steps():
        pass
    assert 20_000 <= search.looked_at <= 20_250
    assert len(search.found()) == MAX_OF_A_KIND


@pytest.mark.parametrize("length", [2_000, 30_000])
def test_long_names_are_looked_at_a_few_at_a_time(length: int) -> None:
    acls = [topic("o" * length + f"{n:04}") for n in range(300)]
    search = Counted(index_of(numbered(acls)), question("o" * length))
    before = 0
    for _ in search.steps():
        assert search.looked_at - before <= max(1, 60_000 // length)
        before = search.looked_at
    assert search.looked_at > 30


def test_the_more_of_its_beginning_a_name_shares_the_nearer_it_is(subtests: pytest.Subtests) -> None:
    for name in ["", "o", "x", "orders", "order", "orderz", "ordres", "orders-eu", "orderorders", "Zorders"]:
        with subtests.test(name=name):
            key = sort_key(topic(name, pattern_type=PREFIXED))
            asked = question("orders-today")
            shared = max(n for n in range(len(name) + 1) if asked.resource_name.startswith(name[:n]))
            expected = (
                None if asked.resource_name.startswith(name) else 1_400 - 100 * shared // len(asked.resource_name)
            )
            assert distance(asked, key, asked.missed_by(key)) == expected
