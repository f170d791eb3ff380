"""Mutations that the writer makes in the store, and their outcomes (KIP-140; createAcls, deleteAcls, alterConfigs)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from app.core.epochs import Epochs, Standing
from app.core.groups import Groups
from app.core.kafka.bindings import NO_TERMS, NewAcl, StandardAcl
from app.core.kafka.errors import (
    ApiException,
    InvalidUpdateVersionException,
    PolicyViolationException,
    TokenEpochMismatchException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.hosts import ClientAddress
from app.core.records import MAX_TRANSACTION_BYTES
from app.core.token import Token

MAX_RECORDS_PER_USER_OP = 10_000
"""More new ACLs, or more removals, than this in one call are refused whole (Kafka's own bound)."""


def size_refusal(size: int, way_out: str) -> PolicyViolationException:
    """Why a call is not written whose records have so many bytes, or more: no transaction holds them."""
    return PolicyViolationException(
        f"this call would write at least {size:,} bytes of records, but one transaction holds at most "
        f"{MAX_TRANSACTION_BYTES:,}, so nothing was written; {way_out}"
    )


@dataclass(frozen=True, slots=True)
class CreateAcls:
    """Valid ACLs of one createAcls call, in request order (duplicates allowed).

    An existing one gets the terms given here. `guard`: written only if the store is at this token when this mutation's
    turn comes. `comment` goes into each record. `client_address` is where the actor calls from; None: this process
    itself. `timeout_s` is how long it waits in all; None: it did not say. `groups` are the actor's.
    """

    acls: Sequence[NewAcl]
    actor: str
    guard: Token | None = None
    comment: str | None = None
    client_address: ClientAddress | None = None
    timeout_s: float | None = None
    groups: Groups | None = None


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    """Valid filters of one deleteAcls call, in request order; each lists what it matches before the call."""

    filters: Sequence[AclBindingFilter]
    actor: str
    guard: Token | None = None
    comment: str | None = None
    client_address: ClientAddress | None = None
    timeout_s: float | None = None
    groups: Groups | None = None


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Valid changes of one alterConfigs call: (name, value), None meaning back to the start-up value."""

    changes: Sequence[tuple[str, str | None]]
    actor: str
    guard: Token | None = None
    comment: str | None = None
    client_address: ClientAddress | None = None
    timeout_s: float | None = None
    groups: Groups | None = None


EXPIRY_ACTOR = "klamm:expiry"


@dataclass(frozen=True, slots=True)
class ExpireAcls:
    """Removes ACLs that have ended by the store's clock, the first to end first.

    At most this many, and no more than one transaction holds.
    """

    at_most: int
    actor: str = EXPIRY_ACTOR
    guard: None = None
    comment: None = None


Mutation = CreateAcls | DeleteAcls | AlterConfigs | ExpireAcls


def guard_refusal(guard: Token, current: Token, epochs: Epochs) -> ApiException | None:
    """Why a mutation with this guard is not written to a store that stands at `current`; None: it may be.

    `current` counts what mutations before it in the same transaction have written, `epochs` are the history's.
    """
    is_part = epochs.judge(guard, current.offset) is Standing.PART
    if is_part and guard.offset == current.offset:
        return None
    if not is_part and guard.epoch != epochs.last:
        return TokenEpochMismatchException(
            f"`if_unchanged_since` is not a part of the history that leads to `{current}`, so nothing was written; "
            "read again, and send the token of that reply"
        )
    return InvalidUpdateVersionException(
        f"the store is at `{current}`, not at `{guard}`: it has changed since, so nothing was written; read again, "
        "and send the token of that reply"
    )


@dataclass(frozen=True, slots=True)
class CreatedAcl:
    """The ACL's id, and whether this call made it (an existing ACL keeps its id)."""

    id: UUID
    created: bool


@dataclass(frozen=True, slots=True)
class CreateAclsOutcome:
    """One entry an ACL, in order; one that would have ended already is refused. The rest as in `DeleteAclsOutcome`."""

    results: Sequence[CreatedAcl | ApiException]
    token: Token | None = None
    records: int = 0


@dataclass(frozen=True, slots=True)
class DeleteAclsOutcome:
    """One list of deleted ACLs a filter, in order; overlapping filters list the same ACL again.

    `token`, of a guarded mutation, is the state right after it, before anything else in the transaction: a mutation
    that is guarded by it is refused if anything else has been written. A mutation that another service has
    written has that service's token; all others have none. `records` is how many it has written here, 0 if another
    service has.
    """

    matches: Sequence[Sequence[StandardAcl] | ApiException]
    token: Token | None = None
    records: int = 0


@dataclass(frozen=True, slots=True)
class AlterConfigsOutcome:
    """The changes are in the feed, except those that another service has refused: an entry a change, in order.

    The rest as in `DeleteAclsOutcome`.
    """

    refusals: Sequence[ApiException | None] = ()
    token: Token | None = None
    records: int = 0


@dataclass(frozen=True, slots=True)
class ExpireAclsOutcome:
    records: int
    token: None = None


Outcome = CreateAclsOutcome | DeleteAclsOutcome | AlterConfigsOutcome | ExpireAclsOutcome


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """What one committed transaction did, and the head after it.

    `outcomes` has an outcome or a refusal for each of the first mutations, in order, and for at least one. Those behind
    them did not fit in the transaction: nothing of them was written or decided, so they belong in the next one.
    """

    outcomes: Sequence[Outcome | ApiException]
    epoch: UUID
    last_offset: int


class BulkAcl(NamedTuple):
    """An ACL of a bulk load, and the id that it gets if it is new."""

    id: UUID
    acl: NewAcl

    @property
    def stored(self) -> StandardAcl:
        return StandardAcl(self.id, self.acl.binding, *self.acl.terms_over(NO_TERMS))


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What one committed batch of a bulk load did, and the head after it, in the last of these epochs.

    Each ACL of the batch is listed by the offset that created it: in `created` if it is the batch's own, made now or by
    an earlier try whose outcome was unknown, else in `found`. Of those found, `changed` were given other terms.
    """

    created: Sequence[int]
    found: Sequence[int]
    changed: int
    epochs: Epochs
    """Of the history since the batch before, at least."""
    last_offset: int

    @property
    def token(self) -> Token:
        return Token(self.epochs.last, self.last_offset)
