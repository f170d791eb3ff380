"""Bodies of history."""

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from app.rest.bodies.acls import Acl, AclBindingFilter, Cursor, UtcTime
from app.rest.bodies.examples import ADMIN, EPOCH, TOKEN, Example, acl_example
from app.rest.bodies.fields import AtLeast, AuthorizableRequestContext, Reply, Request, Text, Token, check_lengths, doc
from app.runtime.listing import DEFAULT_LIMIT, MAX_LIMIT

_SINCE = "A token: changes after this state. Or a time such as `2026-11-30T18:00:00Z`: changes from then on."
_UNTIL = "A token: changes up to this state. Or a time: changes up to that time."


class HistoryRequest(Request):
    """Selects changes, and the page of them to return."""

    context: AuthorizableRequestContext
    filter: Annotated[
        AclBindingFilter | UnsetType | None,
        doc("Changes of ACLs that match this filter; if absent or empty, changes of properties as well."),
    ] = UNSET
    actor: Annotated[Text, doc("Changes by exactly this principal; expired ACLs are removed by `klamm:expiry`.")] = (
        UNSET
    )
    comment: Annotated[Text, doc("Changes whose comment contains exactly this text.")] = UNSET
    since: Annotated[Text, doc(_SINCE)] = UNSET
    until: Annotated[Text, doc(_UNTIL)] = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Maximum number of changes per page.")] = DEFAULT_LIMIT
    cursor: Cursor = UNSET
    at_least: AtLeast = UNSET

    def __post_init__(self) -> None:
        check_lengths((("/actor", self.actor), ("/comment", self.comment)))


class AclTerms(Reply):
    """What an ACL has besides its seven fields."""

    expires_at: Annotated[
        UtcTime | None, doc("When the ACL was set to expire, in UTC and whole seconds; null means never.")
    ]
    owner: Annotated[str | None, doc("The owner of the ACL; null if none was recorded.")]


class AlteredConfig(Reply):
    """A property with its new and its previous value."""

    name: Annotated[str, doc("As in describeConfigs.")]
    value: Annotated[str | None, doc("The new value; null means the start-up value.")]
    prior_value: Annotated[str | None, doc("The previous value; null if it was the start-up value or is unknown.")]


class Change(Reply):
    """One change."""

    token: Annotated[str, doc("The state right after this change.")]
    transaction: Annotated[str, doc("The state after all changes of the same transaction.")]
    recorded_at: Annotated[UtcTime, doc("When it was written, by the store's clock.")]
    change: Annotated[str, doc("CREATED, CHANGED (end or owner) or DELETED for an ACL; CONFIGURED for a property.")]
    actor: Annotated[str, doc("Who made the change; `klamm:expiry` removes expired ACLs.")]
    comment: Annotated[str | None, doc("The comment that was sent with the change.")]
    acl: Annotated[Acl | None, doc("The ACL after the change, or as it was when deleted; null if a property changed.")]
    prior: Annotated[AclTerms | None, doc("If CHANGED, the previous end and owner; otherwise null.")]
    config: Annotated[AlteredConfig | None, doc("The property; null if an ACL changed.")]


class KnownSince(Reply):
    """How far back the history is known."""

    token: Annotated[str, doc("The oldest known state.")]
    recorded_at: Annotated[datetime | None, doc("When that state was written; null if the whole history is known.")]


class HistoryResponse(Reply):
    """One page, newest first."""

    changes: list[Change]
    shows_configs: Annotated[
        bool,
        doc("False if changes of properties are left out because the principal lacks DESCRIBE_CONFIGS on the cluster."),
    ]
    known_since: Annotated[
        KnownSince, doc("The oldest state that `at` accepts; the list of older changes may be incomplete.")
    ]
    next_cursor: Annotated[
        str | None,
        doc("Null on the last page. A page with fewer changes than `limit`, even with none, need not be the last."),
    ]
    token: Token


HISTORY_EXAMPLE = Example(
    request={
        "context": ADMIN,
        "filter": {"resource_name": "payments.results.v3", "principal": "User:svc-checkout"},
        "limit": 1,
    },
    reply={
        "changes": [
            {
                "token": f"{EPOCH}:8",
                "transaction": TOKEN,
                "recorded_at": "2026-01-01T00:00:00.000348Z",
                "change": "CREATED",
                "actor": "User:admin",
                "comment": None,
                "acl": acl_example(
                    "TOPIC payments.results.v3 LITERAL User:svc-checkout * READ ALLOW",
                    "5b0c7a52-7c0e-4f8b-8d63-6f2f6d0c9a11",
                ),
                "prior": None,
                "config": None,
            }
        ],
        "shows_configs": True,
        "known_since": {"token": f"{EPOCH}:0", "recorded_at": None},
        "next_cursor": None,
        "token": TOKEN,
    },
)
