"""Since when ACLs have existed, and who made them, if the last changes of their resource don't tell."""

import asyncio
from collections.abc import Iterable

from app.client.http.replies import parse_acl
from app.console.api import PATIENCE_S, ApiRefusedError
from app.console.timeline import Timeline
from app.console.visits import Json, Visit
from app.core.kafka.codes import WILDCARD_PRINCIPAL
from app.formats.acl_bodies import binding_body

_MOST = 100
"""How many ACLs of a page the records are asked about, each in a separate question."""
_CHANGES = 100
"""How many of an ACL's last changes are searched for the one that created it."""


async def mark_since(visit: Visit, acls: Iterable[Json], past: Timeline, token: str) -> int:
    """Marks each ACL with the change that `made` it, or with the time that it is `older` than if no record tells.

    At the state `token`. Returns how many have neither, as a page asks only so many questions, and only for so long.
    """
    left: dict[str, list[Json]] = {}
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
            # Those of `User:*` last, as they may have the most records to search.
            for acl_id in sorted(left, key=lambda each: left[each][0]["principal"] == WILDCARD_PRINCIPAL)[:_MOST]:
                acl_filter = binding_body(parse_acl(left[acl_id][0]).binding)
                asked = {"filter": acl_filter, "until": token, "limit": _CHANGES}
                if _mark(left[acl_id], await visit.api.post("/v1/history", asked)):
                    del left[acl_id]
    except (ApiRefusedError, TimeoutError):
        pass
    return len(left)


def _mark(same: Iterable[Json], found: Json) -> bool:
    """Whether these changes tell all that can be known of the ACL."""
    for each in same:
        of_it = (one for one in found["changes"] if one["change"] == "CREATED" and one["acl"]["id"] == each["id"])
        each["made"] = next(of_it, None)
        if each["made"] is None:
            if found["next_cursor"] is not None:
                return False
            each["older"] = found["known_since"]["recorded_at"]
    return True
