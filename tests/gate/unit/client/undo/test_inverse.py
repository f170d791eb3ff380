"""Inverses against a model: random histories, of which a random stretch is undone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.client.http.replies import ServiceError
from app.client.undo.inverse import Inverse, Json, Subject, inverse_of, subject_of, terms_before
from app.core.kafka.bindings import NO_TERMS, AclBinding, AclTerms, NewAcl
from app.formats.acl_bodies import acl_body, terms_body
from tests.updates import topic

NOW = datetime(2026, 11, 23, tzinfo=UTC)
ACLS = [topic(each) for each in "abcd"]
PROPERTIES = ["super.users", "audit.level"]
TERMS = [NO_TERMS, AclTerms(None, "team"), AclTerms(NOW + timedelta(days=1), None)]
ENDED = AclTerms(NOW, "team")

State = dict[Subject, AclTerms | str]
"""What is there: ACLs with their terms, properties with the values that were set."""


@dataclass
class Store:
    """A model that records as the service's history tells it, oldest first."""

    state: State = field(default_factory=dict)
    changes: list[Json] = field(default_factory=list)

    def become(self, subject: Subject, wanted: AclTerms | str | None) -> None:
        """Nothing is recorded of what is so already."""
        before = self.state.get(subject)
        if before == wanted:
            return
        self.changes.append({"token": str(len(self.changes)), **_told(subject, before, wanted)})
        if wanted is None:
            del self.state[subject]
        else:
            self.state[subject] = wanted

    def inverse(self, first: int, last: int) -> Inverse:
        since = {subject_of(each): each for each in self.changes[last:]}
        acls = {each: terms for each, terms in self.state.items() if isinstance(terms, AclTerms)}
        values = {name: value for name, value in self.state.items() if isinstance(value, str)}
        return inverse_of(self.changes[first:last][::-1], since, _acls(acls), _names(values), NOW)


def _acls(some: Mapping[Any, AclTerms]) -> dict[AclBinding, AclTerms]:
    return dict(some)


def _names(some: Mapping[Any, str]) -> dict[str, str]:
    return dict(some)


def _told(subject: Subject, before: Any, wanted: Any) -> Json:  # noqa: ANN401 - terms or values
    if isinstance(subject, str):
        return {
            "change": "CONFIGURED",
            "acl": None,
            "config": {"name": subject, "value": wanted, "prior_value": before},
        }
    word = "DELETED" if wanted is None else "CREATED" if before is None else "CHANGED"
    acl = {"id": str(UUID(int=1)), **acl_body(NewAcl(subject, *(before if wanted is None else wanted)))}
    return {"change": word, "acl": acl, "prior": terms_body(before) if word == "CHANGED" else None, "config": None}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(ACLS), st.sampled_from([None, *TERMS])),
        st.tuples(st.sampled_from(PROPERTIES), st.sampled_from([None, "x", "y"])),
    ),
    max_size=25,
)


@given(STEPS, st.data())
def test_what_nobody_changed_since_is_as_before_and_the_rest_is_not_touched(
    steps: list[tuple[Subject, Any]], data: st.DataObject
) -> None:
    store = Store()
    states: list[State] = [{}]
    for subject, wanted in steps:
        count = len(store.changes)
        store.become(subject, wanted)
        if len(store.changes) > count:
            states.append(dict(store.state))
    first = data.draw(st.integers(0, len(store.changes)))
    last = data.draw(st.integers(first, len(store.changes)))
    touched = {subject_of(each) for each in store.changes[first:last]}
    since = {subject_of(each) for each in store.changes[last:]}
    now = dict(store.state)
    inverse = store.inverse(first, last)
    todo: dict[Any, Any] = {**inverse.acls, **inverse.properties}
    for each, former in todo.items():
        assert now.get(each) != former
        store.become(each, former)
    for subject in {*now, *states[first], *touched}:
        undone = subject in touched and subject not in since
        assert store.state.get(subject) == (states[first] if undone else now).get(subject)
    shown = {subject_of(each) for each in inverse.changed_since}
    assert shown == {each for each in touched & since if now.get(each) != states[first].get(each)}
    assert all(each in store.changes[last:] for each in inverse.changed_since)
    assert not inverse.ended


@pytest.mark.parametrize(
    "make", [lambda store: store.become(ACLS[0], None), lambda store: store.become(ACLS[0], TERMS[2])]
)
def test_what_would_have_ended_is_gone(make: Callable[[Store], None]) -> None:
    store = Store()
    store.become(ACLS[0], ENDED)
    make(store)
    inverse = store.inverse(1, 2)
    assert inverse.ended == [ACLS[0]]
    assert inverse.acls == ({} if ACLS[0] not in store.state else {ACLS[0]: None})


def test_what_somebody_has_put_back_already_is_done() -> None:
    store = Store()
    store.become(ACLS[0], TERMS[1])
    store.become(ACLS[0], None)
    store.become(ACLS[0], TERMS[1])
    inverse = store.inverse(1, 2)
    assert inverse.is_empty
    assert not inverse.changed_since


def test_a_change_of_a_kind_that_is_not_known_is_no_reason_to_guess() -> None:
    with pytest.raises(ServiceError, match="none of CREATED"):
        terms_before({"change": "MOVED", "acl": None})
