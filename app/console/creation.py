"""Forms for new and existing ACLs. Their fields are in the address, so that it can be sent to somebody."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from app.client.http.replies import parse_acl
from app.console.access import OPERATIONS, TYPES
from app.console.api import ApiRefusedError
from app.console.changes import to_plan
from app.console.difference import Change, binding_of, ends_at
from app.console.pages import HOME, Pages, page, to
from app.console.presets import PRESETS, acls_of
from app.console.shown import address_of
from app.console.visits import Visit
from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.core.kafka.errors import InvalidRequestException
from app.formats.command_errors import UsageError
from app.rest.http.edge import Reply

pages = Pages()

_NOT_FOUND = 404
_MAX_FIELDS = 100_000
"""Characters of all fields together."""
_OF_THE_FORM = ("form_token", "back", "linked", "wrong")
"""What is sent along with the fields."""

Fields = Mapping[str, str]


class _FieldsError(Exception):
    """No ACLs can be made from these fields; the text says why."""

    def __init__(self, why: str, status: int, fields: Fields) -> None:
        super().__init__(why)
        self.status = status
        self.fields = fields


@pages.get("/create", for_changes=True)
async def create(visit: Visit) -> Reply:
    fields = _fields_of(visit)
    if visit.query.get("wrong"):
        try:
            await _change(visit, fields)
        except _FieldsError as wrong:
            return await _form(visit, wrong.fields, str(wrong), wrong.status)
    elif fields.get("instead") and fields.keys().isdisjoint(AclBinding._fields):
        acl = await _acl(visit, fields["instead"])
        kept = {name: str(acl[name]) for name in AclBinding._fields} | {
            "owner": acl["owner"] or "",
            "ends": acl["expires_at"],
        }
        fields = {**kept, "instead": acl["id"]}
    return await _form(visit, fields)


@pages.post("/create", for_changes=True)
async def creation(visit: Visit) -> Reply:
    """Makes ACLs from the form, and redirects to the plan."""
    fields = _fields_of(visit)
    if visit.form.get("linked"):
        fault = "these fields are too long for a link; they are kept in the form below"
        return _at(fields) or await _form(visit, fields, fault, 400)
    try:
        change = await _change(visit, fields)
    except _FieldsError as wrong:
        # Shown at its own address, so that reloading the page sends nothing again.
        return _at({**fields, "wrong": "yes"}) or await _form(visit, wrong.fields, str(wrong), wrong.status)
    return await to_plan(visit, change, (address_of("", fields) or "").removeprefix("?"))


def _at(fields: Fields) -> Reply | None:
    """Redirects to the form with these fields; None if they are too long for an address."""
    address = address_of(f"{HOME}/create", fields)
    return None if address is None else to(address)


def _fields_of(visit: Visit) -> Fields:
    """Raises InvalidRequestException if they are too long to be shown again."""
    fields = {name: str(value) for name, value in visit.said.items() if name not in _OF_THE_FORM}
    length = sum(map(len, fields.values()))
    if length > _MAX_FIELDS:
        raise InvalidRequestException(
            f"the fields have {length:,} characters, and {_MAX_FIELDS:,} are the most; use `klamm plan` with a file"
        )
    return fields


async def _change(visit: Visit, fields: Fields) -> Change:
    """Raises _FieldsError."""
    preset, instead = PRESETS.get(fields.get("preset", "")), fields.get("instead")
    try:
        bindings = [binding_of(fields)] if preset is None else acls_of(preset, fields)
        end = ends_at(fields.get("ends", "never"))
        # A form for an existing ACL shows its owner, so an empty field removes it.
        owner = fields.get("owner", "") if fields.get("owner", "").strip() else None if instead else KEEP
        old = parse_acl(await _acl(visit, instead)).binding if instead else None
        gone = () if old is None or old in bindings else (old,)
        return Change(tuple(NewAcl(each, end, owner) for each in bindings), gone).checked()
    except UsageError as fault:
        raise _FieldsError(str(fault), 400, fields) from None
    except ApiRefusedError as refusal:
        if refusal.status != _NOT_FOUND:
            raise
        # The fields stay as typed, and are now for a new ACL.
        why = f"{refusal.detail}: the ACL was removed in the meantime; `Review` creates a new one"
        raise _FieldsError(why, refusal.status, {**fields, "instead": ""}) from None


async def _acl(visit: Visit, acl_id: str) -> Mapping[str, Any]:
    """Raises ApiRefusedError if it is gone."""
    try:
        known = UUID(acl_id)
    except ValueError:
        raise InvalidRequestException("`instead` is not the id of an ACL; go back and choose the ACL again") from None
    found: Mapping[str, Any] = await visit.api.get(f"/v1/acls/{known}")
    return found


async def _form(visit: Visit, fields: Fields, fault: str | None = None, status: int = 200) -> Reply:
    name = fields.get("preset", "")
    return await page(
        visit,
        "create",
        status,
        presets=PRESETS,
        preset=PRESETS.get(name),
        preset_name=name if name in PRESETS else "",
        fields=fields,
        fault=fault,
        types=TYPES,
        operations=OPERATIONS,
    )
