"""A transaction prepared in steps: unseen until its commit, and then the same as one applied at once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import app.core.image
from app.core.authorize import Authorization
from app.core.image import AuthorizerImage, StagedTransaction
from app.core.index.search import search
from app.core.index.staging import StagedIndex
from app.core.index.table import sort_key
from app.core.index.tree import AclIndex
from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.errors import PoisonedRecordException
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import parse_address
from app.core.records import AccessControlEntryRecord, Record
from tests.budgets import budget
from tests.dumps import dump
from tests.images import image_of, index_of, numbered
from tests.staged import DENIALS, LARGE, STARTUP, Held, chained, in_steps, overlays_in, whole
from tests.strategies import ASKED_NAMES, CONCRETE_TYPES, binding_lists, bindings, callers, filters
from tests.updates import topic

bases = st.tuples(
    binding_lists, st.sampled_from(([], LARGE, [*LARGE, topic("*"), topic("*")._replace(host="::1")]))
).map(lambda both: list(dict.fromkeys([*both[0], *both[1]])))
toggles = st.lists(bindings | st.sampled_from(LARGE[:3] + LARGE[-4:] + DENIALS) | st.integers(0, 400), max_size=30)
"""What comes if it is not there and goes if it is: a binding, or the one of this number in the base."""


@pytest.fixture(autouse=True)
def _a_step_is_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.core.image, "_AT_ONCE", 1)


def answers(image: AuthorizerImage, caller: tuple[str, str], acl_filter: AclBindingFilter) -> list[Any]:
    """What readers of an image can ask, of one caller and with one filter."""
    asked = Authorization(image, caller[0], parse_address(caller[1]))
    said: list[Any] = []
    for name, operation in product(ASKED_NAMES, (AclOperation.READ, AclOperation.DESCRIBE)):
        decision = asked.decision(operation, ResourceType.TOPIC, name)
        said.append((decision.verdict, decision.acl))
        said.append(image.index.covers(ResourceType.TOPIC, name))
    said += [asked.authorize_by_resource_type(AclOperation.READ, each) for each in CONCRETE_TYPES]
    said += [acl for step in search(image.index, acl_filter) for acl in step]
    return [*said, len(image.index), image.acl_count, image.token]


def findable(image: AuthorizerImage, ids: Sequence[UUID]) -> list[StandardAcl | None]:
    return [image.index.get(each.bytes) for each in ids]


@given(bases, toggles, callers, filters)
@settings(max_examples=budget("law of whole stores"))
def test_nothing_is_seen_before_the_commit_and_everything_after(
    base: list[AclBinding], wanted: list[AclBinding | int], caller: tuple[str, str], acl_filter: AclBindingFilter
) -> None:
    assert_unseen_and_then_whole(base, wanted, caller, acl_filter)


def assert_unseen_and_then_whole(
    base: list[AclBinding], wanted: list[AclBinding | int], caller: tuple[str, str], acl_filter: AclBindingFilter
) -> None:
    stored = numbered(base)
    held = Held(base)
    drafts, left = held.toggled(wanted), held.acls
    before, direct = image_of(stored, STARTUP), image_of(stored, STARTUP)
    records = chained(before, drafts)
    direct = direct.apply(records)
    ids = [acl.id for acl in stored] + [each.acl.id for each in records if isinstance(each, AccessControlEntryRecord)]

    staged = StagedTransaction(before, records)
    old, old_answers, old_ids = whole(before), answers(before, caller, acl_filter), findable(before, ids)
    for _ in staged.steps():
        assert dump(before.index) == old[0]
        assert findable(before, ids) == old_ids
    assert whole(before) == old
    assert answers(before, caller, acl_filter) == old_answers

    after = staged.commit()
    new, rebuilt = whole(direct), index_of(left)
    for _ in staged.tidy():
        assert dump(after.index) == new[0]
    assert whole(after) == new
    assert new[0] == dump(rebuilt)
    assert answers(after, caller, acl_filter) == answers(direct, caller, acl_filter)
    assert findable(after, ids) == findable(direct, ids)
    expected = sorted((acl for acl in left if acl_filter.matches(acl.binding)), key=lambda acl: sort_key(acl.binding))
    assert [acl for step in search(after.index, acl_filter) for acl in step] == expected
    assert after.index is before.index
    assert not overlays_in(after)


def test_nested_prefixes_part_and_join_beside_the_image_as_in_it() -> None:
    """A node of the base gets another label for as long as a prefix parts it."""
    long = "q" * 200
    every_length = [topic("p" * length, pattern_type=PatternType.PREFIXED) for length in range(1, 20)]
    base = [*every_length, topic(long, pattern_type=PatternType.PREFIXED), topic(long + "r" * 40)]
    parting = topic(f"{long[:120]}{'z' * 40}", pattern_type=PatternType.PREFIXED)
    steps, at_once, held = image_of(numbered(base), STARTUP), image_of(numbered(base), STARTUP), Held(base)
    for _ in range(2):
        records = chained(at_once, held.toggled([parting]))
        at_once, steps = at_once.apply(records), in_steps(steps, records)
        assert whole(steps) == whole(at_once)
        assert dump(steps.index) == dump(index_of(held.acls))


@given(bases, st.lists(toggles, min_size=2, max_size=4))
def test_transaction_follows_transaction(base: list[AclBinding], turns: list[list[AclBinding | int]]) -> None:
    """What one leaves behind, rows to be used again among it, is sound for the next."""
    steps, at_once = image_of(numbered(base), STARTUP), image_of(numbered(base), STARTUP)
    held = Held(base)
    for wanted in turns:
        drafts = held.toggled(wanted)
        records = chained(at_once, drafts)
        at_once, steps = at_once.apply(records), in_steps(steps, records)
        assert whole(steps) == whole(at_once)
        assert len(steps.index.table.codes) - len(steps.index.table.free_rows) == len(steps.index)


@given(bases, toggles)
def test_the_index_in_the_making_is_an_index_like_any_other(
    base: list[AclBinding], wanted: list[AclBinding | int]
) -> None:
    """Its containers are whole dictionaries and lists, so that no rule of the index has to know of it."""
    held = Held(base)
    staged = StagedIndex(index_of(numbered(base)))
    for draft in held.toggled(wanted):
        if isinstance(draft, AccessControlEntryRecord):
            staged.add(draft.acl.row)
        else:
            staged.remove(draft.acl.binding)
    assert dump(staged) == dump(index_of(held.acls))


def mixed() -> tuple[AuthorizerImage, list[Record]]:
    """An image with large patterns, and a transaction that goes everywhere."""
    base = [*LARGE, topic("x"), topic("x")._replace(host="10.0.0.1"), topic("*"), topic("y", "User:*")]
    base.append(topic("*")._replace(host="::1"))
    wanted: list[AclBinding | int] = [
        topic("new"),
        topic("x", "User:new"),
        topic("a", "User:new"),
        topic("a", "User:*"),
        topic("ab", pattern_type=PatternType.PREFIXED)._replace(host="10.9.9.9"),
        topic("ab", pattern_type=PatternType.PREFIXED)._replace(host="10.9.0.0/16"),
        topic("*")._replace(host="10.0.0.1", permission_type=AclPermissionType.DENY),
        topic("g")._replace(resource_type=ResourceType.GROUP),
        *LARGE[::3],
        topic("x"),
        topic("y", "User:*"),
        topic("y", "User:*"),
    ]
    image = image_of(numbered(base), STARTUP)
    return image, chained(image, Held(base).toggled(wanted))


def steps_of_mixed() -> int:
    image, records = mixed()
    return sum(1 for _ in StagedTransaction(image, records).steps())


def test_abandoned_at_any_step_it_has_changed_nothing_and_cost_no_rows() -> None:
    image, records = mixed()
    before, rows = whole(image), 0
    for taken in (*range(0, steps_of_mixed(), 3), steps_of_mixed()):
        staged = StagedTransaction(image, records)
        steps = staged.steps()
        for _ in range(taken):
            next(steps)
        staged.abandon()
        assert whole(image) == before
        rows = rows or len(image.index.table.codes)
    expected = mixed()[0].apply(records)
    after = in_steps(image, records)
    assert whole(after) == whole(expected)
    assert not overlays_in(after)
    table = after.index.table
    assert len(table.codes) - len(table.free_rows) == len(table)
    assert len(table.codes) <= rows + len(records)


@pytest.mark.parametrize("where", ["_compile", "share"])
def test_a_fault_while_it_is_prepared_changes_nothing(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    image, records = mixed()
    before = whole(image)
    good = getattr(AclIndex, where)
    for strikes_at in range(1, 30):
        calls = iter(range(strikes_at))

        def fault(*arguments: Any, calls: Iterator[int] = calls) -> Any:  # noqa: ANN401 (stands in for any method)
            if next(calls, None) is None:
                raise ZeroDivisionError("planted")
            return good(*arguments)

        with monkeypatch.context() as planted:
            planted.setattr(StagedIndex, where, fault)
            staged = StagedTransaction(image, records)
            with pytest.raises(ZeroDivisionError):
                list(staged.steps())
            staged.abandon()
        assert whole(image) == before
    assert whole(in_steps(image, records)) == whole(mixed()[0].apply(records))


def test_a_poisoned_transaction_changes_nothing() -> None:
    image, records = mixed()
    before = whole(image)
    staged = StagedTransaction(image, [*records[:-1], replace(records[-1], actor="User:mallory")])
    with pytest.raises(PoisonedRecordException, match="the hash chain is broken"):
        list(staged.steps())
    staged.abandon()
    assert whole(image) == before


def test_there_is_no_commit_before_the_last_step() -> None:
    image, records = mixed()
    before = whole(image)
    staged = StagedTransaction(image, records)
    steps = staged.steps()
    while True:
        with pytest.raises(RuntimeError, match="not all steps have been taken"):
            staged.commit()
        if next(steps, "end") == "end":
            break
    assert whole(image) == before
    assert whole(staged.commit()) == whole(mixed()[0].apply(records))


def test_the_last_acl_of_everything_goes_and_comes_back_within_one_transaction() -> None:
    only = [topic("a"), topic("*", "User:*"), topic("p", pattern_type=PatternType.PREFIXED)._replace(host="10.0.0.1")]
    for base in ([*only], [*only, *LARGE]):
        image = image_of(numbered(base), STARTUP)
        held = Held(base)
        after = in_steps(image, chained(image, held.toggled([*base, *base])))
        assert dump(after.index) == dump(index_of(held.acls))
        nothing = in_steps(after, chained(after, held.toggled(base)))
        assert dump(nothing.index) == dump(AclIndex())


def test_rows_of_removed_acls_are_used_again_once_the_commit_has_passed() -> None:
    base = [*(topic(f"t{n}") for n in range(40)), *LARGE]
    image, held = image_of(numbered(base), STARTUP), Held(base)
    rows = len(image.index.table.codes)
    for _ in range(6):
        image = in_steps(image, chained(image, held.toggled(base)))
    assert len(image.index.table.codes) == rows
    assert dump(image.index) == dump(index_of(held.acls))


def test_what_is_prepared_is_as_large_as_the_transaction_whatever_the_image_holds() -> None:
    base = [topic(f"t{n}") for n in range(3_000)]
    base += [topic("orders", f"User:{n}") for n in range(3_000)]
    base += [topic("hosts")._replace(host=f"10.0.{n // 250}.{n % 250}") for n in range(3_000)]
    index = index_of(numbered(base))
    staged = StagedIndex(index)
    for number, binding in enumerate((topic("new"), topic("orders", "User:new"), topic("hosts")._replace(host="::1"))):
        staged.add(StandardAcl(UUID(int=number + 1), binding).row)
    staged.remove(topic("t7"))
    for _ in staged.settle():
        pass
    changes = staged._changes
    assert sum(len(entries) for _, entries in changes._updates) < 20
    assert sum(len(keys) for _, keys in changes._deletions) < 5
    assert len(changes._slots) + len(changes._attributes) < 20
    assert sum(1 for _ in staged.tidy()) < 60


def test_what_readers_remember_of_an_address_ends_with_the_commit() -> None:
    """Ten spellings of one range are worth remembering; a DENY on one of them, and its end, are seen at once."""
    spelled = [topic("a")._replace(host=f"10.{n}.0.0/8") for n in range(10)]
    denial = spelled[0]._replace(permission_type=AclPermissionType.DENY)
    held = Held(spelled)
    image = image_of(numbered(spelled), STARTUP)
    for allowed in (True, False, True):
        asked = Authorization(image, "User:alice", parse_address("10.0.0.1"))
        for _ in range(2):
            assert asked.decide(AclOperation.READ, ResourceType.TOPIC, "a").allowed is allowed
        image = in_steps(image, chained(image, held.toggled([denial])))
