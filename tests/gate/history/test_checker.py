"""The checker of histories finds nothing in a true one, and sees each fault that is planted in it."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from app.core.epochs import Epoch, Epochs
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.records import GENESIS_HASH, FeedHead, Record
from app.core.token import Token
from tests import chains
from tests.history.checker import Store, faults_of
from tests.history.observed import Creation, Decision, Deletion, Observed, Refusal

EPOCH = UUID(int=7)
ALICE, HOST = "User:alice", "10.0.0.1"


def acl_on(name: str) -> AclBinding:
    pattern = ResourceType.TOPIC, name, PatternType.LITERAL
    return AclBinding(*pattern, ALICE, "*", AclOperation.READ, AclPermissionType.ALLOW)


ORDERS, PAYMENTS, REFUNDS = acl_on("orders"), acl_on("payments"), acl_on("refunds")
ORDERS_ONLY = AclBindingFilter(resource_name="orders", principal=ALICE)


def at(offset: int) -> Token:
    return Token(EPOCH, offset)


def asked(began: float, offset: int, said: str, replica: str = "one", at_least: int | None = None) -> Decision:
    """`said` is A or D for orders, and for payments."""
    questions = tuple((AclOperation.READ, ResourceType.TOPIC, name) for name in ("orders", "payments"))
    least = None if at_least is None else at(at_least)
    return Decision(
        replica=replica,
        began=began,
        ended=began + 0.5,
        token=at(offset),
        questions=questions,
        principal=ALICE,
        host=HOST,
        allowed=tuple(letter == "A" for letter in said),
        at_least=least,
    )


def created(began: float, offset: int, binding: AclBinding, number: int, *, new: bool = True) -> Creation:
    told = ((UUID(int=number), new),)
    return Creation(replica="one", began=began, ended=began + 0.5, bindings=(binding,), token=at(offset), acls=told)


def a_true_history() -> tuple[Store, Observed]:
    """orders came, payments and a super user came, orders went; an outcome stayed unknown, an update was refused."""
    first = chains.transaction(0, GENESIS_HASH, [chains.put(ORDERS, 1)])
    second = chains.transaction(1, first[-1].hash, [chains.put(PAYMENTS, 2), chains.config("super.users", "User:root")])
    third = chains.transaction(3, second[-1].hash, [chains.gone(ORDERS, 1)])
    records: list[Record] = [*first, *second, *third]
    head = FeedHead("cluster", EPOCH, 4, records[-1].hash, 1)
    store = Store(head, records, {UUID(int=2): PAYMENTS}, frozenset({"User:admin"}))
    removal = Deletion(replica="one", began=5, ended=6, acl_filter=ORDERS_ONLY, token=at(4), ids=(UUID(int=1),))
    return store, Observed(
        decisions=[
            asked(0, 0, "DD"),
            asked(2, 1, "AD", at_least=1),
            asked(3.5, 1, "AD", replica="behind"),
            asked(4, 3, "AA"),
            asked(7, 4, "DA"),
        ],
        creations=[
            created(1, 1, ORDERS, 1),
            created(1.8, 1, ORDERS, 1, new=False),
            Creation(replica="two", began=2, ended=3, bindings=(PAYMENTS,)),
        ],
        deletions=[removal],
        refusals=[Refusal(replica="one", began=2, ended=3, bindings=(REFUNDS,))],
    )


def test_a_true_history_has_no_fault() -> None:
    assert faults_of(*a_true_history()) == []


def test_a_token_of_an_earlier_epoch_is_true_up_to_where_the_next_one_began() -> None:
    store, seen = a_true_history()
    earlier = UUID(int=6)
    epochs = Epochs((Epoch(earlier, 0), Epoch(EPOCH, 1)))
    store = replace(store, head=replace(store.head, known_epochs=epochs))
    seen.decisions[1] = replace(seen.decisions[1], token=Token(earlier, 1))
    assert faults_of(store, seen) == []

    seen.decisions[3] = replace(seen.decisions[3], token=Token(earlier, 3))
    assert faults_of(store, seen) == [f"one named the token {earlier}:3, and the store is at {EPOCH}:4"]


def _flipped(store: Store, seen: Observed) -> Store:
    seen.decisions[3] = replace(seen.decisions[3], allowed=(True, False))
    return store


def _old(store: Store, seen: Observed) -> Store:
    seen.decisions.append(asked(8, 3, "AA"))
    return store


def _too_old(store: Store, seen: Observed) -> Store:
    seen.decisions.append(asked(8, 3, "AA", replica="behind", at_least=4))
    return store


def _from_the_future(store: Store, seen: Observed) -> Store:
    seen.decisions.append(asked(8, 5, "DA"))
    return store


def _without_row(store: Store, _: Observed) -> Store:
    return replace(store, acls={})


def _with_row(store: Store, _: Observed) -> Store:
    return replace(store, acls={**store.acls, UUID(int=9): REFUNDS})


def _without_record(store: Store, _: Observed) -> Store:
    return replace(store, records=store.records[:-1])


def _with_changed_record(store: Store, _: Observed) -> Store:
    changed = replace(store.records[0], actor="User:mallory")
    return replace(store, records=[changed, *store.records[1:]])


def _lost(store: Store, seen: Observed) -> Store:
    seen.creations.append(created(5, 4, REFUNDS, 3))
    seen.refusals.clear()
    return store


def _made_twice(store: Store, seen: Observed) -> Store:
    seen.creations.append(created(0.9, 1, ORDERS, 1))
    return store


def _acknowledged_before_it_was(store: Store, seen: Observed) -> Store:
    seen.creations[0] = created(1, 0, ORDERS, 1)
    return store


def _written_before_it_was_asked(store: Store, seen: Observed) -> Store:
    seen.creations[0] = created(9, 4, ORDERS, 1)
    return store


def _refused_and_there(store: Store, seen: Observed) -> Store:
    seen.creations.pop()
    seen.refusals.append(Refusal(replica="one", began=2, ended=3, bindings=(PAYMENTS,)))
    return store


def _made_up(store: Store, seen: Observed) -> Store:
    seen.creations.pop()
    return store


def _outlived(store: Store, seen: Observed) -> Store:
    wanted = AclBindingFilter(principal=ALICE)
    seen.deletions.append(Deletion(replica="one", began=8, ended=9, acl_filter=wanted, token=at(4), ids=()))
    return store


def _removed_by_two(store: Store, seen: Observed) -> Store:
    seen.deletions.append(replace(seen.deletions[0], replica="two", began=5.1))
    return store


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (_flipped, "answered (True, False)"),
        (_old, "after it had named offset 4"),
        (_too_old, "to whom asked for"),
        (_from_the_future, "and the store is at"),
        (_without_row, "is only in the records"),
        (_with_row, "is only in the table"),
        (_without_record, "the feed is damaged"),
        (_with_changed_record, "the feed is damaged"),
        (_lost, "is not in the records"),
        (_made_twice, "two calls were told that they made"),
        (_acknowledged_before_it_was, "was acknowledged at"),
        (_written_before_it_was_asked, "was acknowledged at"),
        (_refused_and_there, "was refused, and is there"),
        (_made_up, "nobody asked for"),
        (_outlived, "outlived its removal"),
        (_removed_by_two, "two calls were told that they removed"),
    ],
)
def test_a_planted_fault_is_seen(plant: Callable[[Store, Observed], Store], words: str) -> None:
    store, seen = a_true_history()
    found = faults_of(plant(store, seen), seen)
    assert any(words in each for each in found), found
