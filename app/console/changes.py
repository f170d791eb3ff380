"""A change: what it would grant and revoke, then the change itself, if nothing has changed meanwhile.

Changes are read in threads, as a form may hold a megabyte.
"""

import asyncio
from typing import Any

from app.console.api import ApiRefusedError
from app.console.difference import Change, difference_of, ends_at, make
from app.console.pages import HOME, Pages, page, safe_target, to
from app.console.shown import address_of
from app.console.visits import Visit
from app.core.kafka.bindings import NewAcl
from app.core.kafka.errors import Errors
from app.formats.command_errors import UsageError
from app.rest.http.edge import Reply

pages = Pages()


_STALE = "nothing was done: ACLs have changed since this was planned. The plan below is for the current ACLs"


@pages.post("/plan", for_changes=True)
async def plan(visit: Visit) -> Reply:
    """Redirects to the page that shows what the change would do. It changes nothing."""
    try:
        change = await asyncio.to_thread(_change, visit)
    except UsageError as wrong:
        return await page(visit, "refused", 400, title="No such change", why=str(wrong))
    return await to_plan(visit, change, visit.form.get("fields", ""))


@pages.get("/plan", for_changes=True)
async def planned(visit: Visit) -> Reply:
    """Shows what the change would do."""
    try:
        change = await asyncio.to_thread(Change.of_packed, visit.query.get("change", ""))
    except UsageError as wrong:
        return await page(visit, "refused", 400, title="No such change", why=str(wrong))
    return await _show(visit, change, visit.query.get("fields", ""), planned_on=visit.query.get("planned_on"))


@pages.post("/apply", for_changes=True)
async def apply(visit: Visit) -> Reply:
    """INVARIANT: the change is guarded by its token, so sending the same form twice makes it once."""
    fields = visit.form.get("fields", "")
    try:
        change = await asyncio.to_thread(Change.of_json, visit.form.get("change", ""))
    except UsageError as wrong:
        return await page(visit, "refused", 400, title="No such change", why=str(wrong))
    token = visit.form.get("token", "")
    if not token:
        # INVARIANT: no update is made without a token, which guards it.
        fault = "the form does not say which state it was planned on; review the plan again"
        return await _show(visit, change, fields, fault=fault)
    try:
        reached = await make(visit.api, change, token, visit.form.get("comment", "").strip())
    except ApiRefusedError as refusal:
        if refusal.code in (Errors.INVALID_UPDATE_VERSION.value, Errors.TOKEN_EPOCH_MISMATCH.value):
            return await to_plan(visit, change, fields, planned_on=token)
        return await _show(visit, change, fields, fault=refusal.detail)
    return to(safe_target(visit.form.get("back")), reached, token)


def _change(visit: Visit) -> Change:
    """Raises UsageError."""
    change = Change.of_json(visit.form.get("change", ""))
    ends = visit.form.get("ends")
    if ends:
        end = ends_at(ends)
        change = Change(tuple(NewAcl(each.binding, end, each.owner) for each in change.create), change.delete)
    return change


async def to_plan(visit: Visit, change: Change, fields: str = "", planned_on: str | None = None) -> Reply:
    """Redirects to the plan's own address, so that going back to it, or loading it again, sends nothing twice.

    `fields` are those of the form that it was made from, as in an address. A plan that is too long for an address is
    shown at once.
    """
    kept = {"comment": visit.form.get("comment", ""), "back": safe_target(visit.form.get("back")), "fields": fields}
    packed = await asyncio.to_thread(change.packed)
    address = address_of(f"{HOME}/plan", {"change": packed, **kept, "planned_on": planned_on})
    if packed is not None and address is not None:
        return to(address)
    return await _show(visit, change, fields, planned_on=planned_on)


async def _show(
    visit: Visit, change: Change, fields: str, *, fault: str | None = None, planned_on: str | None = None
) -> Reply:
    difference = await difference_of(visit.api, change)
    if planned_on and planned_on != difference.token:
        fault = _STALE
    shown: dict[str, Any] = {"change": change, "difference": difference, "fault": fault, "fields": fields}
    return await page(
        visit,
        "plan",
        200 if fault is None else 409,
        **shown,
        as_json=change.to_json(),
        comment=visit.said.get("comment", ""),
        back=safe_target(visit.said.get("back")),
        can_be_made=difference.token is not None,
    )
