"""A plan carried out: creates and then deletes, each call guarded by the state that the one before has left."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.client.http.replies import ServiceError, binding_body
from app.client.http.service import Service
from app.client.plan.planning import Plan
from app.client.words import counted
from app.core.kafka.bindings import AclBinding
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import MAX_RECORDS_PER_USER_OP
from app.formats.acl_entries import shown

MAX_CALL_BYTES = 6 * 1024 * 1024
"""Of ACLs in one call; the service takes bodies of 8 MiB."""

_CHANGED_SINCE = ("INVALID_UPDATE_VERSION", "TOKEN_EPOCH_MISMATCH")
_REFUSED_SHOWN = 5


@dataclass(slots=True)
class Done:
    """How far a plan has come. `token` is the state that it has left."""

    plan: Plan
    token: str
    created: int = 0
    deleted: int = 0

    def __str__(self) -> str:
        create, delete = len(self.plan.create), len(self.plan.delete)
        return f"{self.created} of {create} ACLs created and {self.deleted} of {delete} deleted"


def carry_out(service: Service, plan: Plan, tell: Callable[[Done], None]) -> Done:
    """Do what the plan says; where that takes many calls, `tell` hears of each.

    Raises ServiceError, which says how far it came, as soon as anything is refused or somebody else has changed
    anything: what is left is for another plan.
    """
    done = Done(plan, plan.token)
    creates, deletes = list(_chunks(plan.creates_in_order)), list(_chunks(plan.deletes_in_order))
    calls = [(_create, "create", some) for some in creates] + [(_delete, "delete", some) for some in deletes]
    under_way = "nothing"
    try:
        for call, what, some in calls:
            under_way = f"{counted(len(some))} to {what}"
            call(service, some, done)
            if max(len(creates), len(deletes)) > 1:
                tell(done)
    except ServiceError as error:
        raise _stopped(error, under_way, done) from None
    except KeyboardInterrupt:
        sys.stderr.write(
            f"interrupted with {under_way} under way; {done} for certain; plan again to see what is left\n"
        )
        raise
    return done


def _create(service: Service, some: Sequence[AclBinding], done: Done) -> None:
    results, token = service.create_acls(some, if_unchanged_since=done.token)
    done.token = token
    done.created += sum(each.created for each in results)
    _check(
        [(acl, str(each.refusal)) for acl, each in zip(some, results, strict=True) if each.refusal is not None],
        "create",
    )


def _delete(service: Service, some: Sequence[AclBinding], done: Done) -> None:
    results, token = service.delete_acls([_filter(each) for each in some], if_unchanged_since=done.token)
    done.token = token
    done.deleted += sum(len(each.matches) for each in results)
    refused = [(acl, str(each.refusal)) for acl, each in zip(some, results, strict=True) if each.refusal is not None]
    # The guard holds what the plan has seen; but a saved plan may have been written by somebody else's hand.
    refused += [
        (acl, "there is no such ACL")
        for acl, each in zip(some, results, strict=True)
        if each.refusal is None and not each.matches
    ]
    _check(refused, "delete")


def _check(refused: Sequence[tuple[AclBinding, str]], what: str) -> None:
    if refused:
        named = "; ".join(f"{shown(acl)} ({why})" for acl, why in refused[:_REFUSED_SHOWN])
        more = f"; and {len(refused) - _REFUSED_SHOWN} more" if len(refused) > _REFUSED_SHOWN else ""
        raise ServiceError(f"the service refused to {what} {counted(len(refused))}: {named}{more}")


def _stopped(error: ServiceError, under_way: str, done: Done) -> ServiceError:
    why = str(error)
    if error.code in _CHANGED_SINCE:
        why = "somebody else has changed the ACLs or the configuration since the plan, so nothing more was done"
    elif error.outcome_unknown:
        why = f"{why} (under way: {under_way})"
    return ServiceError(
        f"{why}; {done}; plan again to see what is left",
        code=error.code,
        status=error.status,
        outcome_unknown=error.outcome_unknown,
    )


def _chunks(acls: Sequence[AclBinding]) -> Iterator[list[AclBinding]]:
    """As many together as one call takes, in ACLs and in bytes."""
    some: list[AclBinding] = []
    size = 0
    for acl in acls:
        weight = len(json.dumps(binding_body(acl))) + 1
        if some and (len(some) == MAX_RECORDS_PER_USER_OP or size + weight > MAX_CALL_BYTES):
            yield some
            some, size = [], 0
        some.append(acl)
        size += weight
    if some:
        yield some


def _filter(acl: AclBinding) -> AclBindingFilter:
    """The filter that meets this very ACL."""
    return AclBindingFilter(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )
