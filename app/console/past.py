"""What changed, by whom and why; and a plan that takes a change back."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.client.http.replies import parse_acl
from app.client.undo.inverse import terms_before
from app.console.api import ApiRefusedError
from app.console.difference import Change
from app.console.pages import HOME, Pages, here, page
from app.console.shown import query
from app.console.visits import Visit
from app.core.kafka.bindings import NewAcl
from app.rest.http.edge import Reply

pages = Pages()

_ROWS = 50
_RECENT = 10
_PATIENCE_S = 2.0
"""With a store that does not answer, where the page can do without."""
_FILTERS = ("resource_type", "resource_name", "pattern_type", "principal")
_FIELDS = ("actor", "comment", "since", "until")

Json = dict[str, Any]


class Shown(NamedTuple):
    change: Json
    undo: str | None
    """The plan that takes it back, as a form carries it; None where a property changed."""


@pages.get("/history")
async def history(visit: Visit) -> Reply:
    asked = {name: value for name in (*_FILTERS, *_FIELDS) if (value := visit.query.get(name, "").strip())}
    shown: Json = {"asked": asked, "rows": None, "fault": None, "next": None, "known_since": None, "token": None}
    status = 200
    if visit.reads:
        body: Json = {name: asked[name] for name in _FIELDS if name in asked}
        acl_filter = {name: asked[name] for name in _FILTERS if name in asked}
        body |= {"limit": _ROWS, **({"filter": acl_filter} if acl_filter else {})}
        if visit.query.get("cursor"):
            body["cursor"] = visit.query["cursor"]
        try:
            found = await visit.api.post("/v1/history", body)
        except ApiRefusedError as refusal:
            shown["fault"], status = refusal.detail, refusal.status
        else:
            shown |= {"rows": _shown(found["changes"]), "known_since": found["known_since"], "token": found["token"]}
            cursor = found["next_cursor"]
            shown["next"] = cursor and f"{HOME}/history?{query({**asked, 'cursor': cursor})}"
    return await page(visit, "history_rows" if visit.is_fragment else "history", status, back=here(visit), **shown)


async def recent(visit: Visit, acl_filter: Mapping[str, str], **more: str) -> Sequence[Json]:
    """The last changes of these ACLs; none where they can't be had: the rest of the page is shown all the same."""
    until = {} if visit.at is None else {"until": visit.at}
    try:
        async with asyncio.timeout(_PATIENCE_S):
            found = await visit.api.post("/v1/history", {"filter": acl_filter, "limit": _RECENT, **until, **more})
    except (ApiRefusedError, TimeoutError):
        return []
    return list(found["changes"])


async def moments(visit: Visit, acl_filter: Mapping[str, str]) -> Mapping[str, object]:
    """The states after the last changes of these ACLs, newest first, and those next to the state that is shown."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            found = await visit.api.post("/v1/history", {"filter": acl_filter, "limit": _ROWS})
    except (ApiRefusedError, TimeoutError):
        found = {"changes": ()}
    by_token = {each["transaction"]: each for each in reversed(found["changes"])}
    tokens = list(reversed(by_token))
    at = tokens.index(visit.at) if visit.at in by_token else (-1 if visit.at is None else None)
    # The newest change is what there is now.
    earlier = None if at is None else next(iter(tokens[max(at, 0) + 1 :]), None)
    return {
        "moments": [by_token[each] for each in tokens],
        "earlier": earlier,
        "later": tokens[at - 1] if at is not None and at > 0 else None,
    }


def _shown(changes: Sequence[Json]) -> list[Shown]:
    return [Shown(each, _undo(each)) for each in changes]


def _undo(change: Json) -> str | None:
    if change["acl"] is None:
        return None
    binding, terms = parse_acl(change["acl"]).binding, terms_before(change)
    if terms is None:
        return Change(delete=(binding,)).to_json()
    return Change((NewAcl(binding, *terms),)).to_json()
