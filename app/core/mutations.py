"""What the writer is asked to do to the store, and what came of it (KIP-140; createAcls, deleteAcls, alterConfigs)."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.core.bindings import AclBinding, StandardAcl
from app.core.errors import ApiException
from app.core.filters import AclBindingFilter

MAX_RECORDS_PER_USER_OP = 10_000
"""More new ACLs, or more removals, than this in one call are refused whole (Kafka's own bound)."""


@dataclass(frozen=True, slots=True)
class CreateAcls:
    """Valid bindings of one createAcls call, in request order (duplicates allowed)."""

    bindings: Sequence[AclBinding]
    actor: str


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    """Valid filters of one deleteAcls call, in request order; each lists what it matches before the call."""

    filters: Sequence[AclBindingFilter]
    actor: str


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Valid changes of one alterConfigs call: (name, value), None meaning back to the start-up value."""

    changes: Sequence[tuple[str, str | None]]
    actor: str


Mutation = CreateAcls | DeleteAcls | AlterConfigs


@dataclass(frozen=True, slots=True)
class CreatedAcl:
    """The ACL's id, and whether this call made it (an existing ACL keeps its id)."""

    id: UUID
    created: bool


@dataclass(frozen=True, slots=True)
class CreateAclsOutcome:
    """One entry a binding, in order."""

    results: Sequence[CreatedAcl]


@dataclass(frozen=True, slots=True)
class DeleteAclsOutcome:
    """One list of deleted ACLs a filter, in order; overlapping filters list the same ACL again."""

    matches: Sequence[Sequence[StandardAcl]]


@dataclass(frozen=True, slots=True)
class AlterConfigsOutcome:
    """The changes stand in the feed."""


Outcome = CreateAclsOutcome | DeleteAclsOutcome | AlterConfigsOutcome


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """What one committed transaction did: an outcome or a refusal a mutation, in order, and the head after it."""

    outcomes: Sequence[Outcome | ApiException]
    epoch: UUID
    last_offset: int


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What one committed batch of a bulk load did, and the head after it.

    Each ACL of the batch is told by the offset that created it: in `created` if it is the batch's own, made now or by
    an earlier try whose outcome was unknown, else in `found`.
    """

    created: Sequence[int]
    found: Sequence[int]
    epoch: UUID
    last_offset: int
