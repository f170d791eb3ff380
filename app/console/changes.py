"""A change: what it would give and take, and then the change itself, if nothing has changed meanwhile."""

from typing import Any

from app.console.api import ApiRefusedError
from app.console.difference import Change, difference_of, ends_at, make
from app.console.pages import Pages, page, safe_target, to
from app.console.visits import Visit
from app.core.kafka.bindings import NewAcl
from app.core.kafka.errors import ClusterAuthorizationException, Errors
from app.formats.command_errors import UsageError
from app.rest.http.edge import Reply

pages = Pages()


@pages.post("/plan")
async def plan(visit: Visit) -> Reply:
    """Shows what the change would do. It changes nothing."""
    check_may_change(visit)
    try:
        change = _change(visit)
    except UsageError as wrong:
        return await page(visit, "refused", 400, title="No such change", why=str(wrong))
    return await show_plan(visit, change)


@pages.post("/apply")
async def apply(visit: Visit) -> Reply:
    check_may_change(visit)
    try:
        change = Change.of_json(visit.form.get("change", ""))
    except UsageError as wrong:
        return await page(visit, "refused", 400, title="No such change", why=str(wrong))
    token = visit.form.get("token", "")
    if not token:
        # INVARIANT: an update without a token would be guarded by nothing.
        return await show_plan(visit, change, fault="the form did not say what it was planned on; look at it once more")
    try:
        reached = await make(visit.api, change, token, visit.form.get("comment", "").strip())
    except ApiRefusedError as refusal:
        if refusal.code in (Errors.INVALID_UPDATE_VERSION.value, Errors.TOKEN_EPOCH_MISMATCH.value):
            fault = "nothing was done: ACLs have changed since this was planned. This is the plan as things stand now"
            return await show_plan(visit, change, fault=fault)
        return await show_plan(visit, change, fault=refusal.detail)
    return to(safe_target(visit.form.get("back")), reached)


def check_may_change(visit: Visit) -> None:
    """The routes refuse it too; here it is said before anybody fills in a form."""
    if not visit.changes:
        raise ClusterAuthorizationException(
            f"`{visit.principal}` may look at ACLs here, but needs ALTER on the cluster to change them"
        )


def _change(visit: Visit) -> Change:
    """Raises UsageError."""
    change = Change.of_json(visit.form.get("change", ""))
    ends = visit.form.get("ends")
    if ends:
        end = ends_at(ends)
        change = Change(tuple(NewAcl(each.binding, end, each.owner) for each in change.create), change.delete)
    if change.is_empty:
        raise UsageError("the form does not say which ACLs are meant; go back and begin anew")
    return change


async def show_plan(visit: Visit, change: Change, fault: str | None = None) -> Reply:
    difference = await difference_of(visit.api, change)
    shown: dict[str, Any] = {"change": change, "difference": difference, "fault": fault}
    return await page(
        visit,
        "plan",
        200 if fault is None else 409,
        **shown,
        as_json=change.to_json(),
        comment=visit.form.get("comment", ""),
        back=safe_target(visit.form.get("back")),
        can_be_made=difference.token is not None,
    )
