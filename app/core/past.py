"""Questions about the past, and how a past state follows from the present one and the records since.

A moment is a token or a time of the store. The state at a token is the one right after it, at the time of its record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from app.core.epochs import Epochs, Standing
from app.core.index.table import SortKey
from app.core.kafka.bindings import NO_TERMS, AclTerms, StandardAcl
from app.core.kafka.errors import (
    InvalidRequestException,
    OffsetNotAvailableException,
    TokenEpochInvalidException,
    TokenEpochMismatchException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.records import Record
from app.core.times import NotATimeError, parse_time
from app.core.token import Token

Moment = Token | datetime


def moment_of(text: str, name: str) -> Moment:
    """Raises InvalidRequestException, which names the field, for anything but a token or a time."""
    try:
        return Token.parse(text, name)
    except InvalidRequestException:
        pass
    try:
        return parse_time(text).astimezone(UTC)
    except NotATimeError as fault:
        raise InvalidRequestException(
            f"`{name}` is neither a token of this service nor a time; send a token from an earlier reply, or "
            f"{fault.expected}"
        ) from None
    except OverflowError:
        raise InvalidRequestException(f"`{name}` must be within the years 1 to 9999") from None


@dataclass(frozen=True, slots=True)
class PriorState:
    """What an ACL or a property was before a record: the ACL's terms, or the value."""

    terms: AclTerms = NO_TERMS
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A record, and what was there before it. None: nothing; for a property also: unknown."""

    record: Record
    prior: PriorState | None


@dataclass(frozen=True, slots=True)
class KnownSince:
    """The oldest state that is known; `recorded_at` is None before the store's first record, when it was empty."""

    token: Token
    recorded_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesQuestion:
    """Which changes: those behind `since` up to `until`, and below offset `before` if given, newest first.

    A time as `since` includes the changes at that exact time. `comment` is a part of the comment. Changes of properties
    match no filter that names anything of ACLs.
    """

    acl_filter: AclBindingFilter = field(default_factory=AclBindingFilter)
    actor: str | None = None
    comment: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    before: int | None = None
    with_configs: bool = True
    limit: int = 100


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """`before` is for the next page; None: this is the last one. A page may be short and yet not be the last."""

    changes: Sequence[Change]
    before: int | None
    known_since: KnownSince
    head: Token
    epochs: Epochs

    def token_of(self, offset: int) -> Token:
        """The token of the record at this offset."""
        return self.epochs.token_of(offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastScope:
    """Which ACLs a question needs: those that any of the filters meets.

    Those of `if_few` are left out if they are many: an answer is better with them, and right without.
    """

    filters: Sequence[AclBindingFilter] = ()
    if_few: Sequence[AclBindingFilter] = ()


@dataclass(frozen=True, slots=True)
class PastState:
    """Every ACL within a scope, and the stored properties, at a past moment.

    INVARIANT: none within the scope is missing, so that an image of it gets the same answers from core as then.
    """

    cluster_id: str
    token: Token
    now: float
    """The time then, in seconds since 1970: ALLOWs that had ended by then are among the ACLs, and have ended."""
    acls: Sequence[StandardAcl]
    overrides: Mapping[str, str]
    upto: SortKey | None = None
    """For a stretch: where the next one begins; None: it reaches the end."""


@dataclass(frozen=True, slots=True)
class StoreHead:
    """Which state the store is in, and where its records begin. `is_of_primary`: it was not read on a standby."""

    cluster_id: str
    epochs: Epochs
    last_offset: int
    log_start_offset: int
    store_time: datetime
    is_of_primary: bool

    @property
    def token(self) -> Token:
        return Token(self.epochs.last, self.last_offset)

    def check(self, token: Token, name: str) -> None:
        """Raises unless the token, which the field `name` has, is a part of the store's history.

        TokenEpochMismatchException for one that is lost, TokenEpochInvalidException for one of an epoch that no store
        has begun, OffsetNotAvailableException for one that lies ahead, and on a standby, which proves nothing.
        """
        standing = self.epochs.judge(token, self.last_offset, self.store_time)
        if standing is Standing.PART:
            return
        if standing is Standing.AHEAD:
            raise OffsetNotAvailableException(f"`{name}` is in the future: the store is at `{self.token}`")
        if not self.is_of_primary:
            raise OffsetNotAvailableException(
                f"`{name}` is not part of what this standby holds, which is at `{self.token}`; ask a service on the "
                "primary"
            )
        if standing is Standing.INVALID:
            raise TokenEpochInvalidException(
                f"`{name}` is of an epoch that lies more than a day ahead of the store's clock, so no store has begun "
                "it; send a time, or a token from a reply"
            )
        raise TokenEpochMismatchException(
            f"`{name}` is not part of the store's history, which is at `{self.token}`: its changes were lost when the "
            "store was restored or failed over, or are another store's; send a time, or a token of this history"
        )
