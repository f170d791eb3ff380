"""Plans: which ACLs to create and delete, how many may be deleted, and the files that keep a plan for later."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from app.client.acl_filters import denies
from app.client.whole_files import target_of, write_whole
from app.client.words import counted
from app.core.index.table import sort_key
from app.core.kafka.bindings import NO_TERMS, AclBinding, AclTerms, NewAcl
from app.formats.acl_bodies import acl_body, terms_body
from app.formats.command_errors import UsageError
from app.formats.saved_plans import COUNTS, SavedPlanFault, parse_saved_plan, seal

SAVE = "--save"
DEFAULT_MAX_DELETES = 100
DEFAULT_MAX_DELETE_PERCENT = 50
_MAX_FILE_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prune:
    """Which ACLs are deleted if they are not in the files. No principals, or no prefixes, mean all."""

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
class TermsChange:
    """An ACL that stays but gets another end or owner."""

    binding: AclBinding
    before: AclTerms
    after: AclTerms

    @property
    def acl(self) -> NewAcl:
        return NewAcl(self.binding, *self.after)


@dataclass(frozen=True, slots=True)
class Plan:
    """Turns the ACLs as of `token` into the wanted ones. The lists are sorted, and their ACLs say all their terms."""

    token: str
    prune: Prune
    create: tuple[NewAcl, ...]
    change: tuple[TermsChange, ...]
    delete: tuple[NewAcl, ...]
    unchanged: int
    left_alone: int
    """How many ACLs are kept although they are not in the files."""
    prunable: int
    """How many ACLs `prune` covers, wanted or not."""

    @property
    def is_empty(self) -> bool:
        return not (self.create or self.change or self.delete)

    @property
    def creates_in_order(self) -> list[NewAcl]:
        """DENY first, so that nobody is allowed in between what neither the old nor the new ACLs allow."""
        return sorted(self.create, key=denies, reverse=True)

    @property
    def changes_in_order(self) -> list[NewAcl]:
        return sorted((each.acl for each in self.change), key=denies, reverse=True)

    @property
    def deletes_in_order(self) -> list[NewAcl]:
        """ALLOW first, for the same reason."""
        return sorted(self.delete, key=denies)

    @property
    def limits_words(self) -> list[str]:
        """The further flags that `klamm apply` needs to delete this many."""
        count, percent = len(self.delete), -(-len(self.delete) * 100 // max(self.prunable, 1))
        most = ["--max-deletes", str(count)] if count > DEFAULT_MAX_DELETES else []
        return [*most, *(["--max-delete-percent", str(percent)] if percent > DEFAULT_MAX_DELETE_PERCENT else [])]

    def after(self, acls: Mapping[AclBinding, AclTerms]) -> frozenset[AclBinding]:
        return frozenset(acls) - {each.binding for each in self.delete} | {each.binding for each in self.create}


@dataclass(frozen=True, slots=True)
class Limits:
    max_deletes: int = DEFAULT_MAX_DELETES
    max_delete_percent: int = DEFAULT_MAX_DELETE_PERCENT
    """The most to delete, in percent of the prunable ACLs."""

    def refusal(self, plan: Plan) -> str | None:
        count = len(plan.delete)
        if count > self.max_deletes:
            return (
                f"{counted(count)} would be deleted, more than --max-deletes {self.max_deletes}; if that is "
                f"intended, add --max-deletes {count}"
            )
        # INVARIANT: what is deleted is prunable, so it is never a share of nothing, and never more than all.
        whole = max(plan.prunable, count)
        if count * 100 > self.max_delete_percent * whole:
            percent = -(-count * 100 // whole)
            return (
                f"{count} of {whole} ACLs would be deleted ({percent} %), more than --max-delete-percent "
                f"{self.max_delete_percent}; if that is intended, add --max-delete-percent {percent}"
            )
        return None


def make_plan(
    desired: Mapping[AclBinding, NewAcl], there: Mapping[AclBinding, AclTerms], token: str, prune: Prune
) -> Plan:
    """A desired ACL that exists keeps the terms that are not given."""
    unwanted = there.keys() - desired.keys()
    delete = sorted(filter(prune.holds, unwanted), key=sort_key)
    create = sorted(desired.keys() - there.keys(), key=sort_key)
    kept = sorted(desired.keys() & there.keys(), key=sort_key)
    change = [TermsChange(each, there[each], desired[each].terms_over(there[each])) for each in kept]
    change = [each for each in change if each.after != each.before]
    return Plan(
        token=token,
        prune=prune,
        create=tuple(NewAcl(each, *desired[each].terms_over(NO_TERMS)) for each in create),
        change=tuple(change),
        delete=tuple(NewAcl(each, *there[each]) for each in delete),
        unchanged=len(kept) - len(change),
        left_alone=len(unwanted) - len(delete),
        prunable=sum(map(prune.holds, there)),
    )


def changes_body(plan: Plan) -> dict[str, object]:
    """The ACLs with all their terms; those that change also with their terms `before`."""
    return {
        "create": [acl_body(each) for each in plan.create],
        "change": [{**acl_body(each.acl), "before": terms_body(each.before)} for each in plan.change],
        "delete": [acl_body(each) for each in plan.delete],
    }


def save_plan(path: str, url: str, plan: Plan, *, force: bool) -> None:
    """Writes the whole file or none of it; over one that exists only with `force`. Raises UsageError."""
    fields = {
        "url": url,
        "token": plan.token,
        "prune": {
            "wanted": plan.prune.wanted,
            "principals": sorted(plan.prune.principals),
            "prefixes": list(plan.prune.prefixes),
        },
        **{name: getattr(plan, name) for name in COUNTS},
        **changes_body(plan),
    }

    def write(file: TextIO) -> None:
        json.dump(seal(fields), file, indent=1)
        file.write("\n")

    write_whole(SAVE, target_of(SAVE, path, force=force), write, force=force, mode=0o600)


def load_plan(path: str) -> tuple[str, Plan]:
    """The service's URL and the plan. Raises UsageError."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--plan: `{path}` can't be read ({error.strerror})") from None
    if len(raw) > _MAX_FILE_BYTES:
        raise UsageError(f"--plan: `{path}` is longer than {_MAX_FILE_BYTES} bytes; name a plan that klamm has saved")
    try:
        saved = parse_saved_plan(raw)
    except SavedPlanFault as fault:
        raise UsageError(f"--plan: `{path}` {fault}") from None
    prune = Prune(saved.prune_wanted, saved.prune_principals, saved.prune_prefixes)
    counts = (getattr(saved, name) for name in COUNTS)
    change = tuple(TermsChange(acl.binding, before, acl.terms_over(before)) for acl, before in saved.change)
    return saved.url, Plan(saved.token, prune, saved.create, change, saved.delete, *counts)


def check_plan(path: str, plan: Plan, acls: Mapping[AclBinding, AclTerms]) -> None:
    """Raises UsageError unless this plan can have been made from these ACLs, which are those at its token."""
    wrong = next(_misfits(plan, acls), None)
    if wrong is not None:
        raise UsageError(f"--plan: `{path}` does not match the ACLs that it was made from: {wrong}; plan again")


def _misfits(plan: Plan, acls: Mapping[AclBinding, AclTerms]) -> Iterator[str]:
    if any(each.binding not in acls for each in plan.delete):
        yield "it deletes ACLs that do not exist"
    if any(each.binding in acls for each in plan.create):
        yield "it creates ACLs that exist already"
    if any(acls.get(each.binding) != each.before for each in plan.change):
        yield "it changes ACLs that do not exist, or that have another end or owner"
    if not all(plan.prune.holds(each.binding) for each in plan.delete):
        yield "it deletes ACLs that its `prune` leaves alone"
    prunable = sum(map(plan.prune.holds, acls))
    if plan.prunable != prunable:
        yield f"its `prunable` is not {prunable}"
    if plan.unchanged + plan.left_alone + len(plan.change) + len(plan.delete) != len(acls):
        yield f"its `unchanged`, `left_alone`, changes and deletes do not make up {len(acls)} ACLs"
