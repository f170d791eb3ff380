"""Bodies of explain."""

from pydantic import Field

from app.core.authorize import AuthorizationResult
from app.core.explain.matching import MAX_LISTED
from app.core.explain.near_misses import MAX_NEAR_MISSES
from app.rest.bodies.acl_schemas import Acl, AclHost, AclPrincipal, PatternName
from app.rest.bodies.schemas import (
    BYTES,
    Action,
    AtLeast,
    AuthorizableRequestContext,
    Entries,
    KafkaString,
    Reply,
    Request,
    Token,
)

MAX_ACTIONS = 100
"""Actions in one request: each takes some hundred times what a decision takes."""


class ExplainedCaller(Request):
    """Whom an explanation is about."""

    principal: KafkaString = Field(description=f"`type:name`, for example `User:bob`. {BYTES}", examples=["User:bob"])
    client_address: KafkaString = Field(description="The client's IP address; never a name.", examples=["10.1.2.3"])


class ExplainRequest(Request):
    """Up to 100 actions of one caller: the body of authorize, and whom it is about if not who asks."""

    context: AuthorizableRequestContext = Field(description="Who asks.")
    actions: Entries[Action] = Field(json_schema_extra={"maxItems": MAX_ACTIONS})
    about: ExplainedCaller | None = Field(
        None,
        description="Who would do the actions; null: who asks. For another principal than the asker's own, the asker "
        "needs DESCRIBE on the cluster.",
    )
    at_least: AtLeast = None


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
    missed: list[str] = Field(description="Where it did not: of principal, host, operation and resource one or two.")
    detail: str = Field(description="What would have to be so for it to match.")


class Explanation(Reply):
    """What authorize answers to one action, why, and what would change it."""

    result: AuthorizationResult
    rule: str = Field(description="SuperUser, MatchingAcl, DefaultAllow or DefaultDeny; expect others.")
    acl: Acl | None = Field(description="The ACL that decided; null unless the rule is MatchingAcl.")
    matching_acls: list[Acl] = Field(
        description="The ACLs that match in principal, host, operation and resource: every DENY before every ALLOW, "
        f"each the most specific first; {MAX_LISTED} at most."
    )
    matching_acl_count: int = Field(description="How many match.")
    near_misses: list[NearMiss] = Field(
        description="ALLOWs that nearly matched if it is denied for lack of one, DENYs that nearly matched if it is "
        f"allowed; nearest first, {MAX_NEAR_MISSES} at most. Without DESCRIBE on the cluster, ACLs of other principals "
        "are left out."
    )
    smallest_acl: ProposedAcl | None = Field(
        description="The narrowest ACL that, once created, allows it; null if it is allowed, if DENYs forbid it, or if "
        "no ACL can allow it."
    )
    denying_acls: list[Acl] = Field(
        description=f"The DENYs that forbid it: all of them have to go; {MAX_LISTED} at most."
    )
    denying_acl_count: int = Field(description="How many forbid it.")
    acl_needed_besides: ProposedAcl | None = Field(
        description="The ACL to create as well, once the denying ACLs are gone; null if nothing else is needed."
    )
    note: str | None = Field(description="What else there is to know, for people to read.")


class ExplainResponse(Reply):
    """One explanation an action, in order, all at one offset."""

    results: list[Explanation]
    token: Token
