"""Since when ACLs are there, and by whom, where the last changes of their resource do not tell."""

import asyncio
from collections.abc import Iterable, MutableMapping
from typing import Any

from app.client.http.replies import parse_acl
from app.console.api import PATIENCE_S, ApiRefusedError
from app.console.timeline import Timeline
from app.console.visits import Json, Visit
from app.core.kafka.codes import WILDCARD_PRINCIPAL
from app.formats.acl_bodies import binding_body

_MOST = 100
"""ACLs of a page that the records are asked about, each by a question of its own."""
_CHANGES = 100
"""The last changes of one ACL that are looked through for the one that created it."""

Acl = MutableMapping[str, Any]


async def mark_since(visit: Visit, acls: Iterable[Acl], past: Timeline, token: str) -> int:
    """Marks each ACL with the change that `made` it, or with the time that it is `older` than if no record tells.

    Of the state `token`. Returns how many have neither, as a page asks only so much, and only for so long.
    """
    left: dict[str, list[Acl]] = {}
    for each in acls:
        each["made"], each["older"] = past.made.get(each["id"]), None
        if each["made"] is None:
            left.setdefault(each["id"], []).append(each)
    if past.known is None:
        return len(left)
    if past.known["next_cursor"] is None:
        for same in left.values():
            _mark(same, past.known)
        return 0
    try:
        async with asyncio.timeout(PATIENCE_S):
            # Those of everybody last: of no other principal there may be as many records to look through.
            for acl_id in sorted(left, key=lambda each: left[each][0]["principal"] == WILDCARD_PRINCIPAL)[:_MOST]:
                acl_filter = binding_body(parse_acl(left[acl_id][0]).binding)
                asked = {"filter": acl_filter, "until": token, "limit": _CHANGES}
                if _mark(left[acl_id], await visit.api.post("/v1/history", asked)):
                    del left[acl_id]
    except (ApiRefusedError, TimeoutError):
        pass
    return len(left)


def _mark(same: Iterable[Acl], found: Json) -> bool:
    """Whether these changes tell of the ACL all that can be known."""
    for each in same:
        of_it = (one for one in found["changes"] if one["change"] == "CREATED" and one["acl"]["id"] == each["id"])
        each["made"] = next(of_it, None)
        if each["made"] is None:
            if found["next_cursor"] is not None:
                return False
            each["older"] = found["known_since"]["recorded_at"]
    return True
