"""The decision calls: authorize and authorizeByResourceType (KIP-504), authorizedOperations (KIP-430), listGroups
(KIP-231).
"""

from functools import partial

from app.core.authorize import Authorization
from app.core.kafka.codes import CLUSTER_NAME, AclOperation, ResourceType
from app.core.kafka.errors import Errors
from app.core.kafka.operations import NOT_REQUESTED, from_bit_field
from app.logs.service import REQUEST_MARK
from app.rest.bodies import decisions as bodies
from app.rest.bodies.fields import OPERATION_CODES, RESOURCE_TYPE_CODES, check_words, given
from app.rest.callers.roles import DECIDERS, Role
from app.rest.deciding import NO_MARK
from app.rest.http.arguments import Body, CurrentAuthorizer, CurrentContext, CurrentPast, CurrentServices
from app.rest.http.edge import Routes

routes = Routes("decisions")

_post_decision = partial(routes.post, open_to=DECIDERS, may_refuse=(409,))

_AUTHORIZATION_FAILED = {
    ResourceType.TOPIC: Errors.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Errors.GROUP_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    # Kafka shows users only through their tokens (KIP-373), and refuses those with this error.
    ResourceType.USER: Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


@_post_decision("/v1/authorize", name="authorize", reply=bodies.AuthorizeResponse, example=bodies.AUTHORIZE_EXAMPLE)
async def authorize(body: Body[bodies.AuthorizeRequest], context: CurrentContext, services: CurrentServices) -> bytes:
    """Decide whether the caller may do each action. Results are in order, all at the same offset."""
    decided = await services.decider.decide_paced(body, context)
    # INVARIANT: no await here; image, index and configuration stay as they are until the answer stands.
    return services.decider.reply(decided, REQUEST_MARK.get() or NO_MARK)


@_post_decision(
    "/v1/authorized-operations",
    name="authorizedOperations",
    open_to=(*DECIDERS, Role.FOLLOW),
    may_refuse=(409, 410),
    example=bodies.AUTHORIZED_OPERATIONS_EXAMPLE,
)
async def authorized_operations(
    body: Body[bodies.AuthorizedOperationsRequest],
    context: CurrentContext,
    authorizer: CurrentAuthorizer,
    past: CurrentPast,
) -> bodies.AuthorizedOperationsResponse:
    """List the operations that the caller may do on each resource.

    A resource that the caller may not describe (DESCRIBE, or DESCRIBE_TOKENS for a user) gets its error
    ..._AUTHORIZATION_FAILED and no operations; the cluster gets no operations and no error, as in Kafka.
    """
    at = given(body.at)
    asked = ((ResourceType.from_string(each.resource_type), each.resource_name) for each in body.resources)
    then = None if at is None else await past.of_resources(context, list(asked), at)
    results, token = await authorizer.decide_each(context, body.resources, _authorized_operations, then)
    return bodies.AuthorizedOperationsResponse(results=results, token=None if token is None else str(token))


def _authorized_operations(
    authorization: Authorization, resource: bodies.ResourceReference
) -> bodies.AuthorizedOperationsResult:
    resource_type = ResourceType.from_string(resource.resource_type)
    error, bits = Errors.INVALID_REQUEST, NOT_REQUESTED
    if resource_type > ResourceType.ANY:
        error, bits = _shown(resource_type, authorization.authorized_operations(resource_type, resource.resource_name))
    return bodies.AuthorizedOperationsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error.error_code,
        code=error.value,
        authorized_operations=bits,
        operations=[] if bits == NOT_REQUESTED else [operation.name for operation in from_bit_field(bits)],
    )


def _shown(resource_type: ResourceType, bits: int) -> tuple[Errors, int]:
    """A caller sees none of its operations unless describing is among them."""
    describe = AclOperation.DESCRIBE_TOKENS if resource_type is ResourceType.USER else AclOperation.DESCRIBE
    if bits >> describe & 1:
        return Errors.NONE, bits
    if resource_type is ResourceType.CLUSTER:
        return Errors.NONE, 0
    return _AUTHORIZATION_FAILED.get(resource_type, Errors.CLUSTER_AUTHORIZATION_FAILED), NOT_REQUESTED


@_post_decision(
    "/v1/authorize-by-resource-type", name="authorizeByResourceType", example=bodies.AUTHORIZE_BY_RESOURCE_TYPE_EXAMPLE
)
async def authorize_by_resource_type(
    body: Body[bodies.AuthorizeByResourceTypeRequest], context: CurrentContext, services: CurrentServices
) -> bodies.AuthorizeByResourceTypeResponse:
    """Decide whether the caller may do the operation on at least one resource of the type."""
    check_words(
        ("/operation", body.operation, OPERATION_CODES), ("/resource_type", body.resource_type, RESOURCE_TYPE_CODES)
    )
    verdict, token = await services.authorizer.by_resource_type(
        context, OPERATION_CODES[body.operation], RESOURCE_TYPE_CODES[body.resource_type]
    )
    services.metrics.count_verdicts([verdict])
    return bodies.AuthorizeByResourceTypeResponse(result=verdict.result, token=None if token is None else str(token))


@_post_decision("/v1/list-groups", name="listGroups", example=bodies.LIST_GROUPS_EXAMPLE)
async def list_groups(
    body: Body[bodies.ListGroupsRequest], context: CurrentContext, authorizer: CurrentAuthorizer
) -> bodies.ListGroupsResponse:
    """List the given groups that the caller may see: with DESCRIBE on the cluster all, else those it may DESCRIBE."""
    shown, token = await authorizer.decide_each(context, body.groups, _may_see)
    groups = [group for group, is_shown in zip(body.groups, shown, strict=True) if is_shown]
    return bodies.ListGroupsResponse(groups=groups, token=None if token is None else str(token))


def _may_see(authorization: Authorization, group: str) -> bool:
    decide = authorization.decide
    return (
        decide(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME).allowed
        or decide(AclOperation.DESCRIBE, ResourceType.GROUP, group).allowed
    )
