"""explain: why authorize answers as it does, and what would change it. A read: it is no decision, nor logged as one."""

from msgspec import UNSET

from app.core.context import RequestContext
from app.core.explain.why import Explanation
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, ResourceType
from app.rest.bodies import explain as bodies
from app.rest.bodies.decisions import Action
from app.rest.bodies.fields import LITERAL, OPERATION_CODES, RESOURCE_TYPE_CODES, given, read_groups
from app.rest.bodies.writing import long_entries, with_list
from app.rest.callers.roles import FOLLOWERS, check_principal, client_address
from app.rest.deciding import refusal_of_actions
from app.rest.http.arguments import Body, CurrentAuthorizer, CurrentContext, CurrentPast
from app.rest.http.edge import Routes
from app.rest.routes.acls import acl_reply
from app.runtime.authorizer import LiteralAction
from app.runtime.rights import ExplainedCaller

routes = Routes("decisions")


@routes.post(
    "/v1/explain",
    name="explain",
    open_to=FOLLOWERS,
    pool="lists",
    reply=bodies.ExplainResponse,
    may_refuse=(409, 410),
    example=bodies.EXPLAIN_EXAMPLE,
)
async def explain(
    body: Body[bodies.ExplainRequest], context: CurrentContext, authorizer: CurrentAuthorizer, past: CurrentPast
) -> bytes:
    """Explain what authorize answers to each action: the rule, the ACLs, the near misses, and what would allow it.

    Every principal may ask about itself; asking about others needs DESCRIBE on the cluster. All answers are at the same
    offset. Nothing is written to the audit log or the decision log.
    """
    about, actions = _about(body, context), [_action(each, body.actions) for each in body.actions]
    at = given(body.at)
    then = None if at is None else await past.of_actions(context, about, actions, at)
    found, token = await authorizer.explain(context, about, actions, then)
    results = await long_entries(found, _explanation)
    return with_list("results", results, {"token": None if token is None else str(token)})


def _about(body: bodies.ExplainRequest, context: RequestContext) -> ExplainedCaller:
    about = given(body.about)
    if about is None:
        return ExplainedCaller(context.principal, context.client_address, context.groups)
    check_principal(about.principal, "/about")
    named = client_address(about.client_address, "/about")
    return ExplainedCaller(about.principal, named, read_groups(about.groups, "/about"))


def _action(action: Action, all_actions: list[Action]) -> LiteralAction:
    known = action.operation in OPERATION_CODES and action.resource_type in RESOURCE_TYPE_CODES
    if not known or action.pattern_type not in (UNSET, LITERAL):
        raise refusal_of_actions(all_actions)
    return AclOperation[action.operation], ResourceType[action.resource_type], action.resource_name


def _explanation(found: Explanation) -> bodies.Explanation:
    return bodies.Explanation(
        result=found.verdict.result,
        rule=found.verdict.rule_word,
        acl=None if found.acl is None else acl_reply(found.acl),
        matching_acls=[acl_reply(each) for each in found.matching_acls],
        matching_acl_count=found.matching_acl_count,
        near_misses=[
            bodies.NearMiss(acl_reply(each.acl), list(each.missed), each.detail) for each in found.near_misses
        ],
        smallest_acl=_proposed(found.smallest_acl),
        denying_acls=[acl_reply(each) for each in found.denying_acls],
        denying_acl_count=found.denying_acl_count,
        acl_needed_besides=_proposed(found.acl_needed_besides),
        note=found.note,
    )


def _proposed(binding: AclBinding | None) -> bodies.ProposedAcl | None:
    return None if binding is None else bodies.ProposedAcl(*binding.words)
