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
    AskedGroups,
    AskedPrincipal,
    At,
    AtLeast,
    AuthorizableRequestContext,
    ClientAddressText,
    Reply,
    Request,
    Token,
    check_lengths,
    doc,
)

MAX_ACTIONS = 100
"""Actions in one request: each takes some hundred times what a decision takes."""


class ExplainedCaller(Request):
    """Who would do the actions."""

    principal: AskedPrincipal
    client_address: ClientAddressText
    groups: AskedGroups = UNSET

    def __post_init__(self) -> None:
        check_lengths((("/about/principal", self.principal), ("/about/client_address", self.client_address)))


class ExplainRequest(Request):
    """Up to 100 actions to explain: the body of authorize, and `about` if somebody else would do them."""

    context: Annotated[AuthorizableRequestContext, doc("The principal that asks.")]
    actions: Annotated[list[Action], Meta(max_length=MAX_ACTIONS)]
    about: Annotated[
        ExplainedCaller | UnsetType | None,
        doc(
            "Whose actions to explain; null means those of the principal in `context`. That principal needs DESCRIBE "
            "on the cluster to ask about another principal, or about groups that `context` does not name."
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
    """An ACL that would have changed the answer if it had matched."""

    acl: Acl
    missed: Annotated[
        list[str], doc("What did not match: one or two of principal, host, operation and resource; or expiry alone.")
    ]
    detail: Annotated[str, doc("What would have to be different for it to match.")]


class Explanation(Reply):
    """What authorize answers to one action, why, and what would change it."""

    result: AuthorizationResult
    rule: Annotated[str, doc("SuperUser, MatchingAcl, DefaultAllow or DefaultDeny; more may be added.")]
    acl: Annotated[Acl | None, doc("The ACL that decided; null unless the rule is MatchingAcl.")]
    matching_acls: Annotated[
        list[Acl],
        doc(
            "The ACLs that match principal, host, operation and resource: DENYs before ALLOWs, and among "
            f"them the most specific first; at most {MAX_LISTED}."
        ),
    ]
    matching_acl_count: Annotated[int, doc("Total number of ACLs that match.")]
    near_misses: Annotated[
        list[NearMiss],
        doc(
            "ACLs that nearly matched: ALLOWs if the action is denied for lack of one, DENYs if it is allowed; "
            f"nearest first, at most {MAX_NEAR_MISSES}. Without DESCRIBE on the cluster, ACLs of other principals "
            "are left out."
        ),
    ]
    smallest_acl: Annotated[
        ProposedAcl | None,
        doc(
            "The narrowest ACL that would allow the action; null if it is already allowed, if DENYs forbid it, "
            "or if no ACL can allow it."
        ),
    ]
    denying_acls: Annotated[
        list[Acl], doc(f"The DENYs that forbid the action, all of which must be removed; at most {MAX_LISTED}.")
    ]
    denying_acl_count: Annotated[int, doc("Total number of DENYs that forbid the action.")]
    acl_needed_besides: Annotated[
        ProposedAcl | None,
        doc("The ACL to create once `denying_acls` are removed; null if none is needed."),
    ]
    note: Annotated[str | None, doc("Further information, for people to read.")]


class ExplainResponse(Reply):
    """One explanation per action, in order, all at the same offset."""

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
