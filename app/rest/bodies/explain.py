"""Bodies of explain."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from app.core.explain.matching import MAX_LISTED
from app.core.explain.near_misses import MAX_NEAR_MISSES
from app.core.verdicts import AuthorizationResult
from app.rest.bodies.acls import Acl, AclHost, AclPrincipal, PatternName
from app.rest.bodies.decisions import Action
from app.rest.bodies.examples import ADMIN, CHECKOUT, TOKEN, Example, Json, acl_example
from app.rest.bodies.fields import (
    BYTES,
    At,
    AtLeast,
    AuthorizableRequestContext,
    ClientAddressText,
    GroupNames,
    Reply,
    Request,
    Token,
    check_lengths,
    doc,
)

MAX_ACTIONS = 100
"""Actions in one request: each takes some hundred times what a decision takes."""


class ExplainedCaller(Request):
    """Whom an explanation is about."""

    principal: Annotated[str, doc(f"`type:name`, for example `User:bob`. {BYTES}", examples=["User:bob"])]
    client_address: ClientAddressText
    groups: Annotated[GroupNames | UnsetType | None, doc("Groups that the principal is in.")] = UNSET

    def __post_init__(self) -> None:
        check_lengths((("/about/principal", self.principal), ("/about/client_address", self.client_address)))


class ExplainRequest(Request):
    """Up to 100 actions of one caller: the body of authorize, and whom it is about if not who asks."""

    context: Annotated[AuthorizableRequestContext, doc("Who asks.")]
    actions: Annotated[list[Action], Meta(max_length=MAX_ACTIONS)]
    about: Annotated[
        ExplainedCaller | UnsetType | None,
        doc(
            "Who would do the actions; null: who asks. For another principal than the asker's own, the "
            "asker needs DESCRIBE on the cluster, as for groups that its context does not name."
        ),
    ] = UNSET
    at_least: AtLeast = UNSET
    at: At = UNSET


class ProposedAcl(Reply):
    """An ACL that could be created, as createAcls takes it."""

    resource_type: str
    resource_name: PatternName
    pattern_type: str
    principal: AclPrincipal
    host: AclHost
    operation: str
    permission_type: str


class NearMiss(Reply):
    """An ACL that would have turned the answer, had it matched."""

    acl: Acl
    missed: Annotated[
        list[str], doc("Where it did not: of principal, host, operation and resource one or two; or expiry alone.")
    ]
    detail: Annotated[str, doc("What would have to be so for it to match.")]


class Explanation(Reply):
    """What authorize answers to one action, why, and what would change it."""

    result: AuthorizationResult
    rule: Annotated[str, doc("SuperUser, MatchingAcl, DefaultAllow or DefaultDeny; expect others.")]
    acl: Annotated[Acl | None, doc("The ACL that decided; null unless the rule is MatchingAcl.")]
    matching_acls: Annotated[
        list[Acl],
        doc(
            "The ACLs that match in principal, host, operation and resource: every DENY before every "
            f"ALLOW, each the most specific first; {MAX_LISTED} at most."
        ),
    ]
    matching_acl_count: Annotated[int, doc("How many match.")]
    near_misses: Annotated[
        list[NearMiss],
        doc(
            "ALLOWs that nearly matched if it is denied for lack of one, DENYs that nearly matched if it "
            f"is allowed; nearest first, {MAX_NEAR_MISSES} at most. Without DESCRIBE on the cluster, ACLs of other "
            "principals are left out."
        ),
    ]
    smallest_acl: Annotated[
        ProposedAcl | None,
        doc(
            "The narrowest ACL that, once created, allows it; null if it is allowed, if DENYs forbid it, "
            "or if no ACL can allow it."
        ),
    ]
    denying_acls: Annotated[list[Acl], doc(f"The DENYs that forbid it: all of them have to go; {MAX_LISTED} at most.")]
    denying_acl_count: Annotated[int, doc("How many forbid it.")]
    acl_needed_besides: Annotated[
        ProposedAcl | None,
        doc("The ACL to create as well, once the denying ACLs are gone; null if nothing else is needed."),
    ]
    note: Annotated[str | None, doc("What else there is to know, for people to read.")]


class ExplainResponse(Reply):
    """One explanation an action, in order, all at one offset."""

    results: list[Explanation]
    token: Token


_EXPLANATION: Json = {
    "result": "DENIED",
    "rule": "DefaultDeny",
    "acl": None,
    "matching_acls": [],
    "matching_acl_count": 0,
    "near_misses": [
        {
            "acl": acl_example(
                "TRANSACTIONAL_ID payments- PREFIXED User:svc-payments * WRITE ALLOW",
                "7d9b1f60-3a55-4c1d-b0a2-9f0f7c2e6d33",
            ),
            "missed": ["principal"],
            "detail": "would match if the principal were `User:svc-payments`",
        },
        {
            "acl": acl_example(
                "TRANSACTIONAL_ID checkout- PREFIXED User:svc-checkout * WRITE ALLOW",
                "e2a6c8d0-91b7-4e0a-8c54-2b7d5f1a3c44",
            ),
            "missed": ["resource"],
            "detail": "would match if the resource's name began with `checkout-`",
        },
    ],
    "smallest_acl": acl_example("TRANSACTIONAL_ID payments-7 LITERAL User:svc-checkout 10.40.3.17 WRITE ALLOW"),
    "denying_acls": [],
    "denying_acl_count": 0,
    "acl_needed_besides": None,
    "note": None,
}

EXPLAIN_EXAMPLE = Example(
    request={
        "context": ADMIN,
        "about": CHECKOUT,
        "actions": [{"operation": "WRITE", "resource_type": "TRANSACTIONAL_ID", "resource_name": "payments-7"}],
    },
    reply={"results": [_EXPLANATION], "token": TOKEN},
)
