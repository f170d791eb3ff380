"""ACLs that could go or be narrower, by the pipeline's last nightly run; each with a plan that mends it."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from app.console.api import ApiRefusedError
from app.console.difference import Change
from app.console.findings import Finding, FindingsError, Found, found_by, in_time, last_found
from app.console.pages import HOME, Pages, here, page
from app.console.shown import query
from app.console.visits import Visit, number_in
from app.core.kafka.bindings import AclBinding, NewAcl
from app.rest.http.edge import Reply

_ROWS = 25
_NOT_FOUND = 404
_FIELDS = AclBinding._fields
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "VOID": "a single DENY forbids everything that these ACLs allow",
        "REDUNDANT": "another ACL already covers everything that these ACLs say",
        "OVER_BROAD": "only few of the resources that these ACLs cover were used",
        "UNUSED": "these ACLs decided nothing in the decision log",
        "DETACHED": "no existing resource has a name that these ACLs cover",
    }
)


class Shown(NamedTuple):
    finding: Finding
    acl: Mapping[str, str | None]
    show: str
    """The address of the ACL in the table."""
    mend: str | None
    """The plan that mends it, as a form carries it; None if none is proposed."""
    is_gone: bool


def hygiene_pages(home: str | None) -> Pages:
    """`home` is the pipeline's, None if `pipeline.home` is not set."""
    pages = Pages()
    pages.get("/hygiene")(partial(_hygiene, home))
    return pages


async def _hygiene(home: str | None, visit: Visit) -> Reply:
    kind = visit.query.get("kind", "")
    shown: dict[str, Any] = {"home": home, "kinds": KINDS, "kind": kind, "found": None, "fault": None, "rows": ()}
    run = visit.query.get("run", "").strip()
    shown |= {"next": None, "is_remote": home is not None and "://" in home, "back": here(visit), "run": run}
    if home is None or shown["is_remote"] or not visit.reads:
        return await page(visit, "hygiene", **shown)
    try:
        found = await in_time(home, partial(_read, home, run))
    except FindingsError as fault:
        return await page(visit, "hygiene", **{**shown, "fault": str(fault)})
    if found is None and run:
        return await page(visit, "hygiene", _NOT_FOUND, **shown)
    if found is not None:
        shown |= {"found": found, **await _window(visit, found, kind)}
    return await page(visit, "hygiene", **shown)


def _read(home: str, run: str) -> Found | None:
    """Blocks while it reads. Raises FindingsError."""
    if not run:
        return last_found(home)
    number = number_in(run)
    return None if number is None else found_by(home, number)


async def _window(visit: Visit, found: Found, kind: str) -> Mapping[str, Any]:
    chosen = [each for each in found.findings if kind in ("", each.kind)]
    begin = number_in(visit.query.get("after", "")) or 0
    end = begin + _ROWS
    rows = [await _shown(visit, each) for each in chosen[begin:end]]
    following = f"{HOME}/hygiene?{query({'run': visit.query.get('run'), 'kind': kind, 'after': end})}"
    return {"rows": rows, "next": following if end < len(chosen) else None}


async def _shown(visit: Visit, finding: Finding) -> Shown:
    acl: dict[str, str | None] = {**dict(zip(_FIELDS, finding.acl, strict=True)), "expires_at": None, "owner": None}
    address = f"{HOME}/acls?{query({name: acl[name] for name in _FIELDS})}"
    try:
        acl |= await visit.api.get(f"/v1/acls/{finding.acl_id}")
        is_gone = False
    except ApiRefusedError as refusal:
        is_gone = refusal.status == _NOT_FOUND
    mend = _mend(finding) if finding.is_mended and not is_gone else None
    return Shown(finding, acl, address, mend, is_gone)


def _mend(finding: Finding) -> str | None:
    try:
        narrower = tuple(NewAcl(AclBinding.from_words(each)) for each in finding.narrower)
        return Change(narrower, (AclBinding.from_words(finding.acl),)).to_json()
    except (KeyError, ValueError):
        # A later release may have written a word that this one doesn't know.
        return None
