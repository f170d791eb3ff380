"""Bodies of history."""

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from app.rest.bodies.acls import Acl, AclBindingFilter, UtcTime
from app.rest.bodies.examples import ADMIN, EPOCH, TOKEN, Example, acl_example
from app.rest.bodies.fields import AtLeast, AuthorizableRequestContext, Reply, Request, Text, Token, check_lengths, doc
from app.runtime.listing import DEFAULT_LIMIT, MAX_LIMIT

_SINCE = "A token: changes behind this state. Or a time, such as `2026-11-30T18:00:00Z`: changes from then on."
_UNTIL = "A token: changes up to this state. Or a time: changes up to then."


class HistoryRequest(Request):
    """Which changes, and which page of them."""

    context: AuthorizableRequestContext
    filter: Annotated[
        AclBindingFilter | UnsetType | None,
        doc("Changes of the ACLs that this filter meets; none or an empty one: changes of properties as well."),
    ] = UNSET
    actor: Annotated[Text, doc("Changes that this principal made, to the letter; expiry's is `klamm:expiry`.")] = UNSET
    comment: Annotated[Text, doc("Changes whose comment has this in it, to the letter.")] = UNSET
    since: Annotated[Text, doc(_SINCE)] = UNSET
    until: Annotated[Text, doc(_UNTIL)] = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Changes on a page.")] = DEFAULT_LIMIT
    cursor: Annotated[Text, doc("`next_cursor` of the page before.")] = UNSET
    at_least: AtLeast = UNSET

    def __post_init__(self) -> None:
        check_lengths((("/actor", self.actor), ("/comment", self.comment)))


class AclTerms(Reply):
    """What an ACL has beside its seven fields."""

    expires_at: Annotated[UtcTime | None, doc("When the ACL ended, in UTC and whole seconds; null: never.")]
    owner: Annotated[str | None, doc("Whom the ACL belonged to; null: nobody said.")]


class AlteredConfig(Reply):
    """A property, and its values."""

    name: Annotated[str, doc("As in describeConfigs.")]
    value: Annotated[str | None, doc("The new value; null: that of the start-up.")]
    prior_value: Annotated[str | None, doc("The value before; null: that of the start-up, or nobody knows.")]


class Change(Reply):
    """One change."""

    token: Annotated[str, doc("The state right after it.")]
    transaction: Annotated[str, doc("The state after all that was written together with it.")]
    recorded_at: Annotated[UtcTime, doc("When, by the store's clock.")]
    change: Annotated[str, doc("CREATED, CHANGED (its end or its owner) or DELETED, an ACL; CONFIGURED, a property.")]
    actor: Annotated[str, doc("Who made it; `klamm:expiry` removes what has ended.")]
    comment: Annotated[str | None, doc("What the actor said about it.")]
    acl: Annotated[Acl | None, doc("The ACL after it, or as it was deleted; null if a property changed.")]
    prior: Annotated[AclTerms | None, doc("What was CHANGED, as it was before; else null.")]
    config: Annotated[AlteredConfig | None, doc("The property; null if an ACL changed.")]


class KnownSince(Reply):
    """From where on the past is known."""

    token: Annotated[str, doc("The oldest state that is known.")]
    recorded_at: Annotated[datetime | None, doc("When that state came to be; null: everything is known.")]


class HistoryResponse(Reply):
    """One page, newest first."""

    changes: list[Change]
    shows_configs: Annotated[
        bool, doc("False: changes of properties are left out, for who asks lacks DESCRIBE_CONFIGS on the cluster.")
    ]
    known_since: Annotated[KnownSince, doc("The oldest state that `at` takes; older changes may be listed in part.")]
    next_cursor: Annotated[
        str | None,
        doc("Null on the last page. A page may have fewer changes than `limit`, even none, and yet not be the last."),
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
