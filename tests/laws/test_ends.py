"""ALLOWs that end: at any time an image answers as a plain scan of the ACLs that are alive then."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from math import inf
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.access.what import WhatCan, WhatQuestion
from app.core.access.who import WhoCan, WhoQuestion
from app.core.authorize import Authorization
from app.core.explain.misses import Question
from app.core.explain.why import Explaining, Explanation, near_misses_of
from app.core.grouped import GroupedAuthorization
from app.core.groups import Groups
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.core.kafka.operations import from_bit_field, supported_operations
from app.core.records import AccessControlEntryRecord, Record, RemoveAccessControlEntryRecord
from app.core.verdicts import Verdict
from tests.budgets import budget
from tests.chains import ACTOR, WHEN, transaction
from tests.dumps import dump
from tests.images import image_of, numbered
from tests.reference import Reference
from tests.staged import in_steps
from tests.strategies import ASKED_NAMES, binding_lists, callers, configs
from tests.updates import topic

BEGAN = 1_700_000_000
READ, TOPIC = AclOperation.READ, ResourceType.TOPIC
Caller = tuple[str, str]

ends = st.none() | st.integers(0, 6)
"""Seconds after `BEGAN`; times are asked about in the same range."""

changes = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(("go", "end")), ends), max_size=12)
"""Of which ACL (by its place), and what happens to it: it goes or comes back, or ends at another time."""

NESTED = [
    topic("a" * length, pattern_type=PatternType.PREFIXED)._replace(host=host, operation=operation)
    for length in range(1, 200, 7)
    for host, operation in (("*", READ), ("10.0.0.0/8", AclOperation.WRITE), ("10.0.0.1", AclOperation.ALL))
]
"""More prefixes of one name than are looked up one by one: what a name meets on the way is remembered."""
SPELLED = [topic("a")._replace(host=f"10.{n}.0.0/8") for n in range(12)]
"""One range in many spellings, whose result is remembered for an address."""


def at(second: float) -> float:
    return BEGAN + second


def ending(acl: StandardAcl, second: int | None) -> StandardAcl:
    return replace(acl, expires_at=None if second is None else datetime.fromtimestamp(at(second), UTC))


def is_alive(acl: StandardAcl, now: float) -> bool:
    denies = acl.binding.permission_type is AclPermissionType.DENY
    return denies or acl.expires_at is None or acl.expires_at.timestamp() > now


def assert_equals_plain_scan(
    image: AuthorizerImage, there: Iterable[StandardAcl], caller: Caller, names: Sequence[str] = ASKED_NAMES
) -> None:
    stored, config = list(there), image.config
    alive = [acl for acl in stored if is_alive(acl, image.now)]
    reference = Reference(
        [acl.binding for acl in alive],
        config.super_users,
        config.allow_everyone_if_no_acl_found,
        ended=[acl.binding for acl in stored if acl not in alive],
    )
    principal, host = caller[0], parse_address(caller[1]).text
    asked = Authorization(image, principal, parse_address(caller[1]))
    for operation, name in product((READ, AclOperation.WRITE, AclOperation.DESCRIBE), names):
        allowed = reference.authorize(principal, host, operation, TOPIC, name)
        decision = asked.decision(operation, TOPIC, name)
        assert decision.verdict.allowed is allowed, (operation, name)
        if decision.verdict in (Verdict.ALLOWED_BY_ACL, Verdict.DENIED_BY_ACL):
            assert decision.acl in alive
    for operation in (READ, AclOperation.DESCRIBE):
        allowed = reference.authorize_by_resource_type(principal, host, operation, TOPIC)
        assert asked.authorize_by_resource_type(operation, TOPIC).allowed is allowed
    for name in names:
        supported = supported_operations(TOPIC)
        wanted = reference.authorized_operations(principal, host, (TOPIC, name), supported)
        assert list(from_bit_field(asked.authorized_operations(TOPIC, name))) == wanted


def assert_alive_alone_decide(
    acls: Sequence[AclBinding], seconds: Sequence[int | None], config: AuthorizerConfig, caller: Caller
) -> None:
    stored = [ending(acl, second) for acl, second in zip(numbered(acls), seconds, strict=False)]
    image = image_of(stored, config)
    for second in (-1, 0, 0.5, 1, 2, 3, 4, 5, 6):
        image = image.as_of(at(second))
        assert_equals_plain_scan(image, stored, caller)


@given(binding_lists, st.lists(ends, min_size=25, max_size=25), configs, callers)
def test_at_any_time_those_decide_that_are_alive(
    acls: list[AclBinding], seconds: list[int | None], config: AuthorizerConfig, caller: Caller
) -> None:
    assert_alive_alone_decide(acls, seconds, config, caller)


class Changing:
    """ACLs that change by records, with the image that follows them."""

    def __init__(self, acls: Sequence[StandardAcl]) -> None:
        self._acls = list(acls)
        self.there = {acl.binding: acl for acl in acls}
        self.image = image_of(acls, AuthorizerConfig(allow_everyone_if_no_acl_found=True))

    def change(self, wanted: Sequence[tuple[int, str, int | None]], *, staged: bool) -> None:
        drafts = [draft for each in wanted if self._acls for draft in self._draft(*each)]
        if drafts:
            records = transaction(self.image.offset, self.image.hash, drafts)
            self.image = in_steps(self.image, records) if staged else self.image.apply(records)

    def _draft(self, place: int, what: str, second: int | None) -> list[Record]:
        acl = self._acls[place % len(self._acls)]
        known = self.there.get(acl.binding)
        if what == "go" and known is not None:
            del self.there[acl.binding]
            return [RemoveAccessControlEntryRecord(0, 0, known, WHEN, ACTOR, b"")]
        changed = ending(acl, second)
        if changed == known:
            return []
        self.there[acl.binding] = changed
        return [AccessControlEntryRecord(0, 0, changed, WHEN, ACTOR, b"")]


@given(binding_lists, st.lists(ends, min_size=25, max_size=25), st.lists(changes, max_size=4), callers, st.booleans())
@settings(max_examples=budget("law of several steps"))
def test_changes_come_in_between(
    acls: list[AclBinding],
    seconds: list[int | None],
    wanted: list[list[tuple[int, str, int | None]]],
    caller: Caller,
    staged: bool,  # noqa: FBT001 - hypothesis draws it
) -> None:
    changing = Changing([ending(acl, second) for acl, second in zip(numbered(acls), seconds, strict=False)])
    for second, some in enumerate(wanted):
        changing.image = changing.image.as_of(at(second + 0.5))
        assert_equals_plain_scan(changing.image, changing.there.values(), caller)
        changing.change(some, staged=staged)
        assert_equals_plain_scan(changing.image, changing.there.values(), caller)
    assert dump(changing.image.index) == dump(image_of(changing.there.values()).index)


def test_what_masks_remember_of_an_address_ends_too(subtests: pytest.Subtests) -> None:
    for acls in [NESTED, SPELLED, [*NESTED, *SPELLED]]:
        for caller in [("User:alice", "10.0.0.1"), ("User:alice", "11.0.0.1")]:
            with subtests.test(acls=acls, caller=caller):
                stored = [ending(acl, number % 5) for number, acl in enumerate(numbered(acls))]
                image = image_of(stored)
                names = ["a" * length for length in (1, 2, 64, 65, 128, 200)]
                for second in (-1, 0, 1, 2, 3, 4):
                    image = image.as_of(at(second))
                    for _ in range(2):
                        assert_equals_plain_scan(image, stored, caller, names)


def test_an_acl_ends_at_its_second_and_not_before() -> None:
    image = image_of([ending(acl, 5) for acl in numbered([topic("a")])])

    def may_read(second: float) -> bool:
        asked = Authorization(image.as_of(at(second)), "User:alice", parse_address("10.0.0.1"))
        return asked.decide(READ, TOPIC, "a").allowed

    assert [may_read(each) for each in (0, 4.999, 5, 5.001, inf)] == [True, True, False, False, False]


def test_an_image_whose_time_nobody_has_said_allows_nothing_that_ends() -> None:
    stored = [ending(acl, 5) for acl in numbered([topic("a"), topic("a")._replace(principal="User:bob")])]
    stored[1] = replace(stored[1], expires_at=None)
    image = image_of(stored)
    assert image.now == inf
    verdicts = [
        Authorization(image, each, parse_address("10.0.0.1")).decide(READ, TOPIC, "a")
        for each in ("User:alice", "User:bob")
    ]
    assert verdicts == [Verdict.DEFAULT_DENY, Verdict.ALLOWED_BY_ACL]


def test_a_deny_holds_beyond_its_end() -> None:
    deny = topic("a")._replace(permission_type=AclPermissionType.DENY)
    stored = [StandardAcl(UUID(int=1), topic("a")), ending(StandardAcl(UUID(int=2), deny), 1)]
    image = image_of(stored).as_of(at(100))
    assert Authorization(image, "User:alice", parse_address("10.0.0.1")).decide(READ, TOPIC, "a") is (
        Verdict.DENIED_BY_ACL
    )


def test_ten_thousand_acls_that_end_at_once_cost_nothing_when_they_do() -> None:
    stored = [ending(acl, n % 3) for n, acl in enumerate(numbered(topic(f"t{n}") for n in range(10_000)))]
    image = image_of(stored).as_of(at(-1))
    assert image.index.ends.first == at(0)
    image.index.ends.passed(at(1))
    assert image.index.ends.first == at(2)
    image = image.as_of(at(1))
    asked = Authorization(image, "User:alice", parse_address("10.0.0.1"))
    allowed = [asked.decide(READ, TOPIC, f"t{n}").allowed for n in range(10_000)]
    assert allowed == [n % 3 == 2 for n in range(10_000)]


@given(
    binding_lists,
    st.lists(ends, min_size=25, max_size=25),
    configs,
    callers,
    st.tuples(st.integers(-1, 6), st.integers(-1, 6)),
)
@settings(max_examples=budget("law of whole stores"))
def test_what_has_ended_stays_so_when_the_time_goes_back_and_nothing_else_does(
    acls: list[AclBinding], seconds: list[int | None], config: AuthorizerConfig, caller: Caller, times: tuple[int, int]
) -> None:
    earlier, later = sorted(times)
    stored = [ending(acl, second) for acl, second in zip(numbered(acls), seconds, strict=False)]
    image = image_of(stored, config).as_of(at(later))
    for _ in image.end_for_good():
        assert_equals_plain_scan(image, stored, caller)
    image = image.set_back(at(earlier))
    assert image.now == at(earlier)
    ended = [acl for acl in stored if not is_alive(acl, at(later))]
    as_if = [ending(acl, -9) if acl in ended else acl for acl in stored]
    for second in range(earlier, 7):
        image = image.as_of(at(second))
        assert_equals_plain_scan(image, as_if, caller)
    # As it is stored, it is listed.
    assert {acl.binding: image.index.find(acl.binding) for acl in stored} == {acl.binding: acl for acl in stored}
    changing = Changing(stored)
    changing.image = image.as_of(at(earlier))
    for number, acl in enumerate(stored):
        # Other terms of it are news of the store, whose time it is now.
        if acl in ended:
            changing.change([(number, "end", 30)], staged=bool(number % 2))
    assert_equals_plain_scan(changing.image, changing.there.values(), caller)


def test_groups_have_not_back_what_had_ended_either() -> None:
    acls = numbered([topic("a", "Group:g"), topic("a", "Group:h"), topic("b", "Group:g")])
    image = image_of(ending(acl, second) for acl, second in zip(acls, (5, 5, 9), strict=True)).as_of(at(4))
    groups = Groups(["g", "h"])

    def may_read(name: str) -> bool:
        asked = GroupedAuthorization(image, "User:alice", parse_address("10.0.0.1"), groups)
        return asked.decide(READ, TOPIC, name).allowed

    assert (may_read("a"), may_read("b")) == (True, True)
    image = image.as_of(at(6))
    assert (may_read("a"), may_read("b")) == (False, True)
    for _ in image.end_for_good():
        pass
    image = image.set_back(at(4))
    assert (may_read("a"), may_read("b")) == (False, True)


def explained(image: AuthorizerImage, name: str) -> Explanation:
    question = Question("User:alice", parse_address("10.0.0.1"), READ, TOPIC, name)
    asked = Authorization(image, question.principal, question.address)
    search = near_misses_of(image, asked, question, of_others=True)
    for _ in () if search is None else search.steps():
        pass
    explaining = Explaining(image, asked, question, () if search is None else search.found())
    for _ in explaining.steps():
        pass
    return explaining.found()


def test_explain_says_what_has_ended_and_when() -> None:
    prefix = topic("a", pattern_type=PatternType.PREFIXED)
    stored = [
        ending(acl, second)
        for acl, second in zip(numbered([topic("ab"), prefix, topic("abc")]), (5, 9, 5), strict=True)
    ]
    image = image_of(stored)
    before, between, after = (explained(image.as_of(at(each)), "ab") for each in (4, 5, 9))

    assert (before.acl, before.matching_acls) == (stored[0], tuple(stored[:2]))
    assert (between.acl, between.matching_acls, between.near_misses) == (stored[1], (stored[1],), ())
    assert (after.verdict, after.acl, after.matching_acls) == (Verdict.DEFAULT_DENY, None, ())
    assert [(each.acl, each.missed) for each in after.near_misses] == [
        (stored[0], ("expiry",)),
        (stored[1], ("expiry",)),
    ]
    assert "ended at 2023-11-14T22:13:25Z" in after.near_misses[0].detail
    assert after.smallest_acl is not None


def test_who_and_what_can_leave_out_what_has_ended() -> None:
    stored = [
        ending(acl, second)
        for acl, second in zip(numbered([topic("a"), topic("a", "User:bob")]), (5, None), strict=True)
    ]
    deny = topic("a", "User:carol")._replace(permission_type=AclPermissionType.DENY)
    image = image_of([*stored, ending(StandardAcl(UUID(int=7), deny), 5)])

    def who(now: float) -> list[tuple[str, int, int]]:
        search = WhoCan(image.as_of(at(now)), WhoQuestion(TOPIC, "a", 1 << READ))
        for _ in search.steps():
            pass
        return [(each.principal, each.operations, each.denied) for each in search.rows]

    def what(now: float) -> list[str]:
        search = WhatCan(image.as_of(at(now)), WhatQuestion("User:alice"))
        for _ in search.steps():
            pass
        return [each.resource_name for each in search.rows]

    bob, carol = ("User:bob", 1 << READ, 0), ("User:carol", 0, 1 << READ)
    assert (who(4), what(4)) == ([("User:alice", 1 << READ, 0), bob, carol], ["a"])
    assert (who(5), what(5)) == ([bob, carol], [])
    for _ in image.as_of(at(5)).end_for_good():
        pass
    image = image.set_back(at(4))
    assert (who(4), what(4)) == ([bob, carol], [])
    assert explained(image, "a").near_misses[0].missed == ("expiry",)
