"""Who may do what on a resource, and what a principal may do."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from app.client.http.replies import parse_acl
from app.client.reach.what import join_rows
from app.client.words import principal_named
from app.console.difference import MAX_CHANGES, Change
from app.console.pages import Pages, here, page
from app.console.past import recent
from app.console.questions import groups_in
from app.console.since import mark_since
from app.console.timeline import covering, timeline
from app.console.trees import trees
from app.console.usage import last_uses
from app.console.visits import Json, Visit
from app.core.kafka.codes import CLUSTER_NAME, AclOperation, ResourceType
from app.core.kafka.operations import supported_operations
from app.formats.command_errors import UsageError
from app.rest.http.edge import Reply

_ROWS = 100
_SAMPLE = 1_000
_SHOWN = 60
TYPES = [each.name for each in ResourceType if each > ResourceType.ANY]
OPERATIONS = [each.name for each in AclOperation if each > AclOperation.ANY]


def access_pages(home: str | None) -> Pages:
    """`home` is the pipeline's, None if `pipeline.home` is not set."""
    pages = Pages()
    pages.get("/resource", has_past=True)(partial(_resource, home))
    pages.get("/principal", has_past=True)(partial(_principal, home))
    return pages


async def _resource(home: str | None, visit: Visit) -> Reply:
    """A matrix of principals by operations; without a name, the resources that ACLs name."""
    type_word, name = visit.query.get("type", "TOPIC").upper(), visit.query.get("name", "")
    resource_type = ResourceType.__members__.get(type_word, ResourceType.TOPIC)
    if resource_type is ResourceType.CLUSTER:
        name = CLUSTER_NAME
    shown: Json = {"type": resource_type.name, "name": name, "types": TYPES, "back": here(visit)}
    if not visit.reads or not name:
        known = await _names(visit, "resource_type", "resource_name") if visit.reads else []
        return await page(visit, "resource", **shown, rows=None, known=known)
    question = {"resource": {"resource_type": resource_type.name, "resource_name": name}, **_paged(visit)}
    found = await visit.api.post("/v1/who-can", visit.then(question))
    meant = covering(resource_type, name)
    patterns = await visit.api.post("/v1/acls/search", visit.then({"filter": meant, "limit": _ROWS}))
    shown["changes"] = await recent(visit, meant)
    shown["past"] = await timeline(visit, meant, found["token"])
    acls = (*patterns["acls"], *_of_rows(found))
    shown["uses"] = await last_uses(visit, home, acls)
    shown["unsaid"] = await mark_since(visit, acls, shown["past"], found["token"])
    operations = [each.name for each in supported_operations(resource_type)]
    rows = [{**each, "cells": _cells(each, operations)} for each in found["rows"]]
    shown |= {"rows": rows, "operations": operations, "found": found, "patterns": patterns, "known": ()}
    return await page(visit, "resource", **shown)


def _cells(row: Json, operations: Sequence[str]) -> list[tuple[str, str]]:
    """For each operation `yes`, `no` or nothing, and its explanation."""
    words = {**dict.fromkeys(row["operations"], "yes"), **dict.fromkeys(row["denied"], "no")}
    return [(each, words.get(each, "")) for each in operations]


async def _principal(home: str | None, visit: Visit) -> Reply:
    """What one principal may do, by pattern, and its own ACLs; without one, the principals that ACLs name."""
    asked = visit.query.get("principal", "")
    shown: Json = {"asked": asked, "fault": None, "rows": None, "known": (), "back": here(visit), "groups": ()}
    if asked.strip():
        try:
            principal_named(asked)
            shown["groups"] = groups_in(visit.query.get("groups", ""), "In groups")
        except UsageError as fault:
            return await page(visit, "principal", 400, **{**shown, "fault": str(fault)})
    if not visit.reads or not asked.strip():
        known = await _names(visit, "principal") if visit.reads else []
        return await page(visit, "principal", **{**shown, "known": known})
    question = {"principal": asked, **({"groups": shown["groups"]} if shown["groups"] else {}), **_paged(visit)}
    found = await visit.api.post("/v1/what-can", visit.then(question))
    own = await visit.api.post("/v1/acls/search", visit.then({"filter": {"principal": asked}, "limit": MAX_CHANGES}))
    shown["changes"] = await recent(visit, {"principal": asked})
    is_whole = own["next_cursor"] is None
    away = Change(delete=tuple(parse_acl(each).binding for each in own["acls"])) if is_whole else Change()
    found["rows"] = join_rows(found["rows"])
    shown |= {"rows": found["rows"], "found": found, "own": own, "is_whole": is_whole}
    shown["uses"] = await last_uses(visit, home, (*own["acls"], *_of_rows(found)), asked)
    shown["trees"] = trees(found["rows"]) if visit.query.get("view") == "tree" else None
    return await page(visit, "principal", **shown, away=away.to_json())


def _of_rows(found: Json) -> Iterable[Json]:
    return (acl for row in found["rows"] for acl in row["acls"])


def _paged(visit: Visit) -> Json:
    return {"limit": _ROWS, **visit.given("host", "cursor")}


async def _names(visit: Visit, *fields: str) -> list[Mapping[str, str]]:
    """Names from the first ACLs, each once, as a start."""
    reply = await visit.api.post("/v1/acls/search", {"filter": {}, "limit": _SAMPLE})
    found: dict[tuple[str, ...], Mapping[str, str]] = {}
    for each in reply["acls"]:
        is_one = each["principal"] != "User:*" if "principal" in fields else each["resource_name"] != "*"
        if is_one and ("principal" in fields or each["pattern_type"] == "LITERAL"):
            found[tuple(each[field] for field in fields)] = each
    return [found[key] for key in sorted(found)][:_SHOWN]
