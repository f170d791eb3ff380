"""What a change did: shown on the page that the browser is sent to after it, with the plan that undoes it."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from app.client.http.replies import parse_acl
from app.client.plan.apply import BETWEEN
from app.client.undo.inverse import terms_before
from app.console.api import PATIENCE_S, ApiRefusedError
from app.console.difference import MAX_CHANGES, Change
from app.console.shown import query
from app.console.visits import Json, Made, Visit
from app.core.kafka.bindings import AclBinding, NewAcl

MAX_SHOWN = 10


async def made_by(visit: Visit) -> Made | None:
    """What changed behind the token `made` of the address up to its `at_least`; None if the address names no change.

    A change is guarded by the token that it was planned on, so nothing else changed between the two.
    """
    since, reached = visit.query.get("made"), visit.query.get("at_least")
    if not since or not reached or visit.is_fragment or visit.principal is None:
        return None
    between = {"since": since, "until": reached}
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = await visit.api.post("/v1/history", {**between, "limit": MAX_CHANGES})
    except TimeoutError:
        return Made()
    except ApiRefusedError as refusal:
        # A visitor that may change ACLs but not read them is told that it is done.
        is_known = refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR or refusal.status == HTTPStatus.FORBIDDEN
        return Made() if is_known else None
    changes = list(found["changes"])
    is_whole = bool(changes) and found["next_cursor"] is None
    undo = undo_of(changes) if is_whole else None
    transactions = f"{changes[-1]['token']}{BETWEEN}{reached}" if is_whole else None
    shown = changes[:MAX_SHOWN]
    return Made(shown, len(changes) - len(shown), undo, transactions, query(between))


def undo_of(changes: Sequence[Json]) -> str | None:
    """The plan that undoes these changes, which come newest first; None if none of them is of an ACL."""
    # For each ACL the oldest change decides.
    oldest: dict[AclBinding, Json] = {parse_acl(each["acl"]).binding: each for each in changes if each["acl"]}
    create: list[NewAcl] = []
    delete: list[AclBinding] = []
    for binding, change in oldest.items():
        terms = terms_before(change)
        if terms is None:
            delete.append(binding)
        else:
            create.append(NewAcl(binding, *terms))
    return Change(tuple(create), tuple(delete)).to_json() if oldest else None
