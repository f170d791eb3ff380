"""Whose changes are undone: nobody's change is undone along with those of others without being asked for."""

from collections import Counter
from collections.abc import Collection, Sequence

from app.client.http.replies import ServiceError, parse_text
from app.client.undo.inverse import Json, Subject, subject_of
from app.client.words import counted
from app.core.mutations import EXPIRY_ACTOR
from app.core.readable import readable

_ACTORS_SHOWN = 10


def changes_by(actors: Collection[str], changes: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """The changes by these actors, and those by others, both in their order. No actors mean the only one.

    Raises ServiceError if the changes are by several actors and none is given, or if there are none by those given.
    """
    # The removal of ACLs that have ended is no act of anybody, and is never undone: they would have ended by now.
    counts = Counter(actor for each in changes if (actor := _actor(each)) != EXPIRY_ACTOR)
    if not actors and len(counts) < 2:  # noqa: PLR2004 - one actor, or none
        return list(changes), []
    own = [each for each in changes if _actor(each) in actors]
    if not own:
        raise ServiceError(_refusal(counts, is_narrowed=bool(actors)))
    return own, [each for each in changes if _actor(each) not in actors]


def changed_meanwhile(changes: Sequence[Json], by_others: Sequence[Json]) -> dict[Subject, Json]:
    """The last change by others of each subject that one of `changes` had changed before. All come newest first."""
    own = {id(each) for each in changes} - {id(each) for each in by_others}
    last: dict[Subject, Json] = {}
    meanwhile: dict[Subject, Json] = {}
    for each in changes:
        subject = subject_of(each)
        if id(each) not in own:
            last.setdefault(subject, each)
        elif subject in last:
            meanwhile[subject] = last[subject]
    return meanwhile


def _refusal(counts: Counter[str], *, is_narrowed: bool) -> str:
    named = [f"{readable(actor)} ({counted(count, 'change')})" for actor, count in counts.most_common(_ACTORS_SHOWN)]
    more = f" and {len(counts) - len(named)} more" if len(counts) > len(named) else ""
    by = f"the changes are by {', '.join(named)}{more}"
    if is_narrowed:
        return f"none of the changes is by the --actor given: {by}"
    return f"{by}; nothing was undone: say whose changes to undo with --actor PRINCIPAL, which may be repeated"


def _actor(change: Json) -> str:
    return parse_text(change, "actor")
