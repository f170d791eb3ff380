"""What changed, by whom and why; and a plan that undoes a change."""

from collections.abc import Mapping, Sequence

from app.console.api import ApiRefusedError, if_in_time
from app.console.made import undo_of
from app.console.pages import HOME, Pages, here, page
from app.console.shown import query
from app.console.visits import Json, Visit
from app.rest.http.edge import Reply

pages = Pages()

_ROWS = 50
_RECENT = 10
_FILTERS = ("resource_type", "resource_name", "pattern_type", "principal")
_FIELDS = ("actor", "comment", "since", "until")


@pages.get("/history", has_past=True)
async def history(visit: Visit) -> Reply:
    asked = visit.given(*_FILTERS, *_FIELDS)
    shown: Json = {"asked": asked, "rows": None, "fault": None, "next": None, "known_since": None, "token": None}
    status = 200
    if visit.at is not None and "until" in asked:
        shown["fault"], status = "`at` and `until` both say where the list ends; leave one of them out", 400
    elif visit.reads:
        body: Json = {name: asked[name] for name in _FIELDS if name in asked}
        acl_filter = {name: asked[name] for name in _FILTERS if name in asked}
        body |= {
            "limit": _ROWS,
            **({} if visit.at is None else {"until": visit.at}),
            **({"filter": acl_filter} if acl_filter else {}),
        }
        if visit.query.get("cursor"):
            body["cursor"] = visit.query["cursor"]
        try:
            found = await visit.api.post("/v1/history", body)
        except ApiRefusedError as refusal:
            shown["fault"], status = refusal.detail, refusal.status
        else:
            # Each with the plan that undoes it; None if a property changed.
            shown["rows"] = [(each, undo_of([each])) for each in found["changes"]]
            shown |= {"known_since": found["known_since"], "token": found["token"]}
            cursor = found["next_cursor"]
            shown["next"] = cursor and f"{HOME}/history?{query({**asked, 'at': visit.at, 'cursor': cursor})}"
    return await page(visit, "history_rows" if visit.is_fragment else "history", status, back=here(visit), **shown)


async def recent(visit: Visit, acl_filter: Mapping[str, str], **more: str) -> Sequence[Json]:
    """The last changes of these ACLs; none if they can't be had, as the rest of the page is shown anyway."""
    until = {} if visit.at is None else {"until": visit.at}
    asked = {"filter": acl_filter, "limit": _RECENT, **until, **more}
    found = await if_in_time(visit.api.post("/v1/history", asked))
    return list(found["changes"]) if found else []
