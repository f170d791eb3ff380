"""start (KIP-504), describeConfigs and alterConfigs (Reconfigurable)."""

from app.rest import service_schemas as schemas
from app.rest.context import request_context, seconds
from app.rest.decisions import current_token
from app.rest.errors import item_outcome
from app.rest.routing import CurrentAuthorizer, documented_problems, problems, strict_router
from app.rest.strict_json import check_count
from app.runtime.readiness import Endpoint, StartRequest

router = strict_router("service")


@router.post("/v1/start", name="start", responses=problems((409,)))
async def start(body: schemas.StartRequest, authorizer: CurrentAuthorizer) -> schemas.StartResponse:
    """Tell when each of a broker's listeners may take connections; repeating it is fine."""
    check_count("/endpoints", len(body.endpoints))
    request = StartRequest(
        cluster_id=body.cluster_id,
        broker_id=body.broker_id,
        endpoints=[
            Endpoint(each.listener_name, each.security_protocol, each.host, each.port) for each in body.endpoints
        ],
        inter_broker_listener_name=body.inter_broker_listener_name,
    )
    listeners = await authorizer.start(request, body.wait_ms / 1000)
    return schemas.StartResponse(
        cluster_id=authorizer.image.cluster_id,
        listeners=[schemas.ListenerReadiness(listener_name=name, ready=ready) for name, ready in listeners],
    )


@router.get("/v1/configs", name="describeConfigs", responses=documented_problems(500))
async def describe_configs(authorizer: CurrentAuthorizer) -> schemas.DescribeConfigsResponse:
    """List every property that can change while the service runs, with its value in force."""
    entries = authorizer.describe_configs(None)
    return schemas.DescribeConfigsResponse(
        configs=[schemas.ConfigEntry(name=each.name, value=each.value, source=each.source) for each in entries],
        token=current_token(authorizer),
    )


@router.post("/v1/configs", name="alterConfigs", responses=problems((403, 504)))
async def alter_configs(
    body: schemas.AlterConfigsRequest, authorizer: CurrentAuthorizer
) -> schemas.AlterConfigsResponse:
    """Change properties on every replica, at one offset; needs ALTER_CONFIGS on the cluster.

    A change that is refused does not hinder the others.
    """
    check_count("/configs", len(body.configs))
    changes = [(each.name, each.value) for each in body.configs]
    results, token = await authorizer.alter_configs(request_context(body.context), changes, seconds(body.timeout_ms))
    return schemas.AlterConfigsResponse(
        results=[schemas.AlterConfigsResult(**item_outcome(each)) for each in results], token=str(token)
    )
