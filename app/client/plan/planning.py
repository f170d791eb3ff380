"""Plans: which ACLs to create and delete, how many may be deleted, and the files that keep a plan for later."""

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.client.http.replies import binding_body
from app.client.words import counted
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclPermissionType
from app.formats.command_errors import UsageError
from app.formats.saved_plans import COUNTS, VERSION, parse_saved_plan

DEFAULT_MAX_DELETES = 100
DEFAULT_MAX_DELETE_PERCENT = 50
_MAX_FILE_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prune:
    """Which ACLs are deleted if the files do not have them. No principals, or no prefixes, mean all."""

    wanted: bool = False
    principals: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def holds(self, acl: AclBinding) -> bool:
        return (
            self.wanted
            and (not self.principals or acl.principal in self.principals)
            and (not self.prefixes or acl.resource_name.startswith(self.prefixes))
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Turns the ACLs as of `token` into the wanted ones. Both lists are sorted."""

    token: str
    prune: Prune
    create: tuple[AclBinding, ...]
    delete: tuple[AclBinding, ...]
    unchanged: int
    left_alone: int
    """How many ACLs are kept though the files do not have them."""
    prunable: int
    """How many ACLs `prune` holds, wanted or not."""

    @property
    def is_empty(self) -> bool:
        return not self.create and not self.delete

    @property
    def creates_in_order(self) -> list[AclBinding]:
        """DENY first, so that nobody is allowed in between what neither the old nor the new ACLs allow."""
        return sorted(self.create, key=lambda acl: acl.permission_type is not AclPermissionType.DENY)

    @property
    def deletes_in_order(self) -> list[AclBinding]:
        """ALLOW first, for the same reason."""
        return sorted(self.delete, key=lambda acl: acl.permission_type is AclPermissionType.DENY)

    def after(self, acls: frozenset[AclBinding]) -> frozenset[AclBinding]:
        return (acls | frozenset(self.create)) - frozenset(self.delete)


@dataclass(frozen=True, slots=True)
class Limits:
    max_deletes: int = DEFAULT_MAX_DELETES
    max_delete_percent: int = DEFAULT_MAX_DELETE_PERCENT
    """Of the prunable ACLs."""

    def refusal(self, plan: Plan) -> str | None:
        count = len(plan.delete)
        if count > self.max_deletes:
            return (
                f"{counted(count)} would be deleted, more than --max-deletes {self.max_deletes}; "
                f"if that is meant, say --max-deletes {count}"
            )
        # INVARIANT: what is deleted is prunable, so this is never a part of nothing, and never more than all.
        whole = max(plan.prunable, count)
        if count * 100 > self.max_delete_percent * whole:
            percent = -(-count * 100 // whole)
            return (
                f"{count} of {whole} ACLs would be deleted ({percent} %), more than --max-delete-percent "
                f"{self.max_delete_percent}; if that is meant, say --max-delete-percent {percent}"
            )
        return None


def make_plan(desired: frozenset[AclBinding], there: frozenset[AclBinding], token: str, prune: Prune) -> Plan:
    unwanted = there - desired
    delete = [acl for acl in unwanted if prune.holds(acl)]
    return Plan(
        token=token,
        prune=prune,
        create=tuple(sorted(desired - there, key=sort_key)),
        delete=tuple(sorted(delete, key=sort_key)),
        unchanged=len(desired & there),
        left_alone=len(unwanted) - len(delete),
        prunable=sum(map(prune.holds, there)),
    )


def save_plan(path: str, url: str, plan: Plan) -> None:
    """Writes the whole file or none of it. Raises UsageError."""
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
    """The service's URL and the plan. Raises UsageError."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--plan: `{path}` can't be read ({error.strerror})") from None
    saved = parse_saved_plan(raw) if len(raw) <= _MAX_FILE_BYTES else None
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
