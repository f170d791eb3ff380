"""The ACLs: a window over any number of them, which follows changes."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.types import Message

from app.client.http.replies import parse_acl
from app.console.access import OPERATIONS, TYPES
from app.console.api import ApiRefusedError
from app.console.difference import Change
from app.console.pages import HOME, Pages, here, page
from app.console.shown import query
from app.console.visits import Visit, headers_of
from app.core.kafka.bindings import AclBinding
from app.rest.bodies.watch import MAX_BOOKMARK_MS
from app.rest.http.edge import Reply
from app.rest.routes import watch

pages = Pages()

_ROWS = 100
_PATTERNS = ("LITERAL", "PREFIXED", "MATCH")


@pages.get("/acls", has_past=True)
async def acls(visit: Visit) -> Reply:
    asked = visit.given(*AclBinding._fields)
    shown: dict[str, Any] = {"asked": asked, "rows": None, "fault": None, "next": None, "count": None, "token": None}
    shown |= {"types": TYPES, "operations": OPERATIONS, "patterns": _PATTERNS, "back": here(visit)}
    status = 200
    if visit.reads:
        body: dict[str, object] = {"filter": asked, "limit": _ROWS}
        if visit.query.get("cursor"):
            body["cursor"] = visit.query["cursor"]
        try:
            found = await visit.api.post("/v1/acls/search", visit.then(body))
            shown["count"] = (await visit.api.get("/v1/acls/count"))["acl_count"]
        except ApiRefusedError as refusal:
            shown["fault"], status = refusal.detail, refusal.status
        else:
            shown |= {"rows": [(each, _removal(each)) for each in found["acls"]], "token": found["token"]}
            cursor = found["next_cursor"]
            shown["next"] = cursor and f"{HOME}/acls?{query({**asked, 'at': visit.at, 'cursor': cursor})}"
    if visit.is_fragment:
        return await page(visit, "acl_rows", **shown)
    return await page(visit, "acls", status, **shown)


def _removal(acl: Mapping[str, str]) -> str:
    return Change(delete=(parse_acl(acl).binding,)).to_json()


@pages.get("/events")
async def events(visit: Visit) -> Reply:
    """The feed as watch streams it, for htmx; it passes watch's own edge with the visitor's credentials."""
    route = watch.routes.named("watch")
    wanted = {"after": visit.query.get("after", ""), "bookmark_ms": str(MAX_BOOKMARK_MS)}
    last_id = headers_of(visit.scope).get(b"last-event-id")
    headers = {b"accept": b"text/event-stream", **({} if last_id is None else {b"last-event-id": last_id})}
    scope = visit.api.scope_of("/v1/watch", urlencode(wanted).encode(), headers)
    return await route.answer(visit.services, scope, _no_body)


async def _no_body() -> Message:
    return {"type": "http.request"}
