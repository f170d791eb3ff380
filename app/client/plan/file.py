"""Saved plans: JSON that `apply --plan` takes, so that what was looked at is what is done."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from app.client.http.replies import binding_body
from app.client.plan.planning import Plan, Prune
from app.core.kafka.bindings import AclBinding
from app.formats.command_errors import UsageError
from app.formats.saved_plans import COUNTS, VERSION, parse_saved_plan

_MAX_BYTES = 512 * 1024 * 1024


def save_plan(path: str, url: str, plan: Plan) -> None:
    """Write the plan; whoever reads the file meets all of it or none. Raises UsageError if it can't be written."""
    body = {
        "klamm_plan": VERSION,
        "url": url,
        "token": plan.token,
        "prune": {
            "wanted": plan.prune.wanted,
            "principals": sorted(plan.prune.principals),
            "prefixes": list(plan.prune.prefixes),
        },
        **{name: getattr(plan, name) for name in COUNTS},
        "create": [binding_body(each) for each in plan.create],
        "delete": [binding_body(each) for each in plan.delete],
    }
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(body, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"--save: `{path}` can't be written ({error.strerror})") from None


def load_plan(path: str) -> tuple[str, Plan]:
    """The service's URL and the plan. Raises UsageError for what is no saved plan of this version."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--plan: `{path}` can't be read ({error.strerror})") from None
    saved = parse_saved_plan(raw) if len(raw) <= _MAX_BYTES else None
    if saved is None:
        raise UsageError(f"--plan: `{path}` is no plan that this version of klamm has saved; make it with plan --save")
    prune = Prune(saved.prune_wanted, saved.prune_principals, saved.prune_prefixes)
    counts = (getattr(saved, name) for name in COUNTS)
    return saved.url, Plan(saved.token, prune, saved.create, saved.delete, *counts)


def check_plan(path: str, plan: Plan, acls: frozenset[AclBinding]) -> None:
    """Raises UsageError unless this plan can have been made of these ACLs, which are those as of its token."""
    wrong = next(_misfits(plan, acls), None)
    if wrong is not None:
        raise UsageError(f"--plan: `{path}` does not fit the ACLs that it was made of: {wrong}; plan again")


def _misfits(plan: Plan, acls: frozenset[AclBinding]) -> Iterator[str]:
    if not acls.issuperset(plan.delete):
        yield "it deletes what is not there"
    if not acls.isdisjoint(plan.create):
        yield "it creates what is there"
    if not all(map(plan.prune.holds, plan.delete)):
        yield "it deletes what its `prune` leaves alone"
    prunable = sum(map(plan.prune.holds, acls))
    if plan.prunable != prunable:
        yield f"its `prunable` is not {prunable}"
    if plan.unchanged + plan.left_alone + len(plan.delete) != len(acls):
        yield f"its `unchanged`, `left_alone` and deletes do not make up {len(acls)} ACLs"
