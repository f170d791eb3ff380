"""Whose changes are undone."""

import pytest

from app.client.http.replies import ServiceError
from app.client.undo.actors import changed_meanwhile, changes_by
from app.client.undo.inverse import Json
from app.core.kafka.bindings import NO_TERMS, NewAcl
from app.core.mutations import EXPIRY_ACTOR
from app.formats.acl_bodies import acl_body
from tests.updates import topic

ID = "4f3e2d1c-6b7a-4859-9c0d-1e2f3a4b5c55"
A, B = "User:a", "User:b"


def change(name: str, actor: str, token: int) -> Json:
    return {
        "acl": {"id": ID, **acl_body(NewAcl(topic(name), *NO_TERMS))},
        "config": None,
        "actor": actor,
        "token": str(token),
    }


def test_changes_of_one_actor_need_no_flag_and_ended_acls_are_nobodys() -> None:
    changes = [change("y", EXPIRY_ACTOR, 2), change("x", A, 1)]
    assert changes_by((), changes) == (changes, [])
    assert changes_by((), changes[:1]) == (changes[:1], [])
    assert changes_by((A,), changes) == (changes[1:], changes[:1])


@pytest.mark.parametrize(
    ("actors", "says"),
    [
        (
            (),
            r"^the changes are by User:a \(2 changes\), User:b \(1 change\); nothing was undone: .* --actor PRINCIPAL",
        ),
        (("User:c",), r"^none of the changes is by the --actor given: the changes are by User:a"),
        (("user:a",), r"^none of the changes"),
    ],
)
def test_changes_of_several_are_refused_with_their_names(actors: tuple[str, ...], says: str) -> None:
    changes = [change("x", B, 3), change("y", A, 2), change("x", A, 1)]
    with pytest.raises(ServiceError, match=says):
        changes_by(actors, changes)


def test_many_actors_are_counted_and_odd_names_are_quoted() -> None:
    changes = [change("x", f"User:{number}\n", number) for number in range(30)]
    with pytest.raises(ServiceError) as refused:
        changes_by((), changes)
    assert "\n" not in str(refused.value)
    assert " and 20 more; " in str(refused.value)


def test_a_subject_that_others_changed_between_is_told_with_their_last_change() -> None:
    before, first, between, last, after = (change("x", who, at) for at, who in enumerate((B, A, B, A, B)))
    for changes, expected in (
        ([first, before], None),
        ([last, first, before], None),
        ([last, between, first, before], between),
        ([after, last, between, first, before], after),
        ([after, last], after),
    ):
        _, by_others = changes_by((A,), changes)
        assert list(changed_meanwhile(changes, by_others).values()) == ([] if expected is None else [expected])
    own, by_others = changes_by((A, B), [after, last])
    assert (own, changed_meanwhile(own, by_others)) == ([after, last], {})
