"""From the ACLs that are there to those that a file wants: what is created and what goes, and how much may go."""

from collections.abc import Iterable
from dataclasses import dataclass

from app.client.words import counted
from app.core.index.table import sort_key
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclPermissionType

DEFAULT_MAX_DELETES = 100
DEFAULT_MAX_DELETE_PERCENT = 50


@dataclass(frozen=True, slots=True)
class Prune:
    """Which ACLs go if the file does not have them: those of these principals, on names that begin so.

    No principals, or no prefixes, stand for all. Without `wanted` none go.
    """

    wanted: bool = False
    principals: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def holds(self, acl: AclBinding) -> bool:
        """Whether it is for this file to say if the ACL stays."""
        return (
            self.wanted
            and (not self.principals or acl.principal in self.principals)
            and (not self.prefixes or acl.resource_name.startswith(self.prefixes))
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What makes of the ACLs as of `token` those that are wanted; sorted as lists are."""

    token: str
    prune: Prune
    create: tuple[AclBinding, ...]
    delete: tuple[AclBinding, ...]
    unchanged: int
    left_alone: int
    """How many ACLs are not wanted and stay."""
    prunable: int
    """How many ACLs the file has a say about, wanted or not."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.create and not self.delete

    @property
    def creates_in_order(self) -> list[AclBinding]:
        """DENY first: nobody is allowed for a moment what neither the old ACLs nor the new ones allow."""
        return sorted(self.create, key=lambda acl: acl.permission_type is not AclPermissionType.DENY)

    @property
    def deletes_in_order(self) -> list[AclBinding]:
        """ALLOW first, for the same reason."""
        return sorted(self.delete, key=lambda acl: acl.permission_type is AclPermissionType.DENY)

    def after(self, acls: frozenset[AclBinding]) -> frozenset[AclBinding]:
        """What these ACLs become."""
        return (acls | frozenset(self.create)) - frozenset(self.delete)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many ACLs a plan may delete: so many, and so many in a hundred of those that it has a say about."""

    max_deletes: int = DEFAULT_MAX_DELETES
    max_delete_percent: int = DEFAULT_MAX_DELETE_PERCENT

    def refusal(self, plan: Plan) -> str | None:
        """Why so many are not deleted, with the way out; None if they may go."""
        count = len(plan.delete)
        if count > self.max_deletes:
            return (
                f"{counted(count)} would be deleted, more than --max-deletes {self.max_deletes}; "
                f"if that is meant, say --max-deletes {count}"
            )
        # INVARIANT: what goes is among what pruning looks at, so the part is of something, and never more than all.
        whole = max(plan.prunable, count)
        if count * 100 > self.max_delete_percent * whole:
            percent = -(-count * 100 // whole)
            return (
                f"{count} of {whole} ACLs would be deleted ({percent} %), more than --max-delete-percent "
                f"{self.max_delete_percent}; if that is meant, say --max-delete-percent {percent}"
            )
        return None


def make_plan(desired: frozenset[AclBinding], there: frozenset[AclBinding], token: str, prune: Prune) -> Plan:
    """What is to be done so that the desired ACLs are there, and of those in `prune` no others."""
    unwanted = there - desired
    delete = [acl for acl in unwanted if prune.holds(acl)]
    return Plan(
        token=token,
        prune=prune,
        create=_sorted(desired - there),
        delete=_sorted(delete),
        unchanged=len(desired & there),
        left_alone=len(unwanted) - len(delete),
        prunable=sum(map(prune.holds, there)),
    )


def _sorted(acls: Iterable[AclBinding]) -> tuple[AclBinding, ...]:
    return tuple(sorted(acls, key=sort_key))
