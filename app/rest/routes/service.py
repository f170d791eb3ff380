"""start (KIP-504), describeConfigs and alterConfigs (Reconfigurable)."""

import asyncio
import time

from app.rest.bodies import service as bodies
from app.rest.bodies.fields import check_words, given, seconds
from app.rest.callers.roles import DECIDERS, FOLLOWERS
from app.rest.errors import invalid_field, item_outcome
from app.rest.http.arguments import AT_LEAST, Body, CurrentAuthorizer, CurrentContext, CurrentReader, CurrentServices
from app.rest.http.edge import Routes
from app.rest.http.services import Services
from app.rest.routes.health import ready_everywhere
from app.runtime.readiness import Endpoint, StartRequest, State

routes = Routes("service")

_LOOK_S = 0.1
_ASKED_AT_ONCE = 100


@routes.post(
    "/v1/start", name="start", open_to=DECIDERS, pool="waiting", may_refuse=(409,), example=bodies.START_EXAMPLE
)
async def start(body: Body[bodies.StartRequest], services: CurrentServices) -> bodies.StartResponse:
    """Report when each of a broker's listeners may take connections; it is safe to repeat."""
    authorizer = services.authorizer
    _check_endpoints(body)
    request = StartRequest(
        cluster_id=given(body.cluster_id),
        broker_id=body.broker_id,
        endpoints=[
            Endpoint(each.listener_name, each.security_protocol, each.host, each.port) for each in body.endpoints
        ],
        inter_broker_listener_name=given(body.inter_broker_listener_name),
    )
    ends_at = time.monotonic() + body.wait_ms / 1000
    listeners = await authorizer.start(request, body.wait_ms / 1000)
    everywhere = await _ready_everywhere_by(ends_at, services, {name for name, ready in listeners if ready})
    listeners = [(name, name in everywhere) for name, _ in listeners]
    return bodies.StartResponse(
        cluster_id=authorizer.image.cluster_id,
        listeners=[bodies.ListenerReadiness(listener_name=name, ready=ready) for name, ready in listeners],
    )


def _check_endpoints(body: bodies.StartRequest) -> None:
    """Raises InvalidFieldsException."""
    protocols = (
        (f"/endpoints/{at}/security_protocol", each.security_protocol) for at, each in enumerate(body.endpoints)
    )
    check_words(*((where, word, bodies.SECURITY_PROTOCOLS) for where, word in protocols))
    inter_broker = given(body.inter_broker_listener_name)
    if inter_broker is not None and inter_broker not in {each.listener_name for each in body.endpoints}:
        raise invalid_field(
            "/inter_broker_listener_name",
            f"`{inter_broker[:100]}` is not the `listener_name` of any of the endpoints; send one of theirs, or leave "
            "it out",
        )


async def _ready_everywhere_by(ends_at: float, services: Services, listener_names: set[str]) -> set[str]:
    """Those of the listeners that all workers are ready for before `ends_at`; it looks at least once."""
    waiting, ready = sorted(listener_names), set[str]()
    while waiting:
        # Side by side, as each look may take most of a second; some at a time, as questions to the others are bounded.
        for start in range(0, len(waiting), _ASKED_AT_ONCE):
            some = waiting[start : start + _ASKED_AT_ONCE]
            found = await asyncio.gather(*(ready_everywhere(services, name) for name in some))
            ready.update(name for name, is_ready in zip(some, found, strict=True) if is_ready)
        waiting = [name for name in waiting if name not in ready]
        if time.monotonic() >= ends_at or services.authorizer.readiness.state is State.DRAINING:
            break
        await asyncio.sleep(_LOOK_S if waiting else 0)
    return ready


@routes.get(
    "/v1/configs",
    name="describeConfigs",
    dependencies=AT_LEAST,
    may_refuse=(400, 409, 503),
    example=bodies.DESCRIBE_CONFIGS_EXAMPLE,
)
async def describe_configs(authorizer: CurrentAuthorizer, reader: CurrentReader) -> bodies.DescribeConfigsResponse:
    """List every property that can change while the service runs, with its current value.

    An admin caller needs DESCRIBE_CONFIGS on the cluster.
    """
    entries, image = authorizer.describe_configs(reader), authorizer.image
    token = image.token
    return bodies.DescribeConfigsResponse(
        configs=[bodies.ConfigEntry(name=each.name, value=each.value, source=each.source) for each in entries],
        unknown_names=image.unknown_configs,
        token=None if token is None else str(token),
    )


@routes.post(
    "/v1/configs",
    name="alterConfigs",
    open_to=FOLLOWERS,
    pool="updates",
    may_refuse=(409, 412, 504),
    example=bodies.ALTER_CONFIGS_EXAMPLE,
)
async def alter_configs(
    body: Body[bodies.AlterConfigsRequest], context: CurrentContext, authorizer: CurrentAuthorizer
) -> bodies.AlterConfigsResponse:
    """Change properties on every replica at the same offset; needs ALTER_CONFIGS on the cluster.

    A refused change does not affect the others. With `if_unchanged_since`, nothing is written if any ACL or property
    has changed since.
    """
    changes = [(each.name, each.value) for each in body.configs]
    results, token = await authorizer.updates.alter_configs(
        context, changes, seconds(body.timeout_ms), given(body.if_unchanged_since), given(body.comment)
    )
    return bodies.AlterConfigsResponse(
        results=[bodies.AlterConfigsResult(**item_outcome(each)) for each in results], token=str(token)
    )
