"""POST /v1/data/kafka/authz/allow: OPA's API, as far as its Kafka plugin asks it. Not in the document, as not ours.

The plugin ignores statuses. It takes any JSON for an answer, which it caches, and JSON without a `result` for a denial;
anything else is a failure, after which it asks again. So decisions are JSON, and nothing else is.
"""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from starlette.responses import Response
from starlette.types import Receive, Scope

from app.core.context import RequestContext
from app.core.kafka.errors import ApiException, InconsistentClusterIdException, RequestTimedOutException
from app.core.verdicts import Verdict
from app.logs.service import REQUEST_MARK, RequestMark
from app.rest.bodies.opa import OPA_DEADLINE_S, OPA_PATH, ByResourceType, OpaQuestion, decode_opa
from app.rest.callers.roles import DECIDERS
from app.rest.deciding import NO_MARK, Decided
from app.rest.errors import plain_response, unexpected
from app.rest.http.arguments import Body, CurrentContext, CurrentServices
from app.rest.http.edge import Reply, Route, Routes
from app.rest.http.services import Services
from app.runtime.deciding import by_resource_type_at_once

OPA_OPERATION = "opaAuthorize"
_ANSWERS = {True: b'{"result":true}', False: b'{"result":false}'}
_LOG_EACH_S = 1.0

_log = logging.getLogger(__name__)


class _Refusals:
    """Logs why, as the plugin can't be told: at most once a second, with the number of others."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._logged_at = -_LOG_EACH_S
        self._unlogged = 0

    def note(self, refusal: ApiException) -> None:
        now = self._clock()
        if now - self._logged_at < _LOG_EACH_S:
            self._unlogged += 1
            return
        more, self._unlogged, self._logged_at = self._unlogged, 0, now
        _log.warning("opa_refused", extra={"code": refusal.error.value, "why": refusal.message, "others": more})


_REFUSALS = _Refusals()


class OpaRoute(Route):
    """A route whose refusals are plain text, and that keeps the broker's request threads waiting a second at most."""

    def decoder_of(self, body: object) -> Callable[[bytes], OpaQuestion]:  # noqa: ARG002 - there is one
        return decode_opa

    async def answer(self, services: Services, scope: Scope, receive: Receive) -> Reply:
        patience = asyncio.timeout(scope.get("klamm.began", monotonic()) + OPA_DEADLINE_S - monotonic())
        try:
            async with patience:
                return await super().answer(services, scope, receive)
        except TimeoutError:
            if not patience.expired():
                raise
            raise RequestTimedOutException(f"the request took longer than {OPA_DEADLINE_S:g} s; try again") from None

    def refusal(self, fault: Exception, scope: Scope) -> Response:  # noqa: ARG002 - as the base class has it
        return opa_refusal(fault)


def opa_refusal(fault: Exception) -> Response:
    refusal = fault if isinstance(fault, ApiException) else unexpected(fault)
    _REFUSALS.note(refusal)
    return plain_response(refusal)


routes = Routes("opa", OpaRoute)


@routes.post(OPA_PATH, name=OPA_OPERATION, open_to=DECIDERS, include_in_schema=False)
async def opa_authorize(body: Body[OpaQuestion], context: CurrentContext, services: CurrentServices) -> bytes:
    return answer(services, await decide(services, body, context, None), REQUEST_MARK.get() or NO_MARK)


@routes.post(f"{OPA_PATH}/{{cluster}}", name=OPA_OPERATION, open_to=DECIDERS, include_in_schema=False)
async def opa_authorize_of(
    cluster: str, body: Body[OpaQuestion], context: CurrentContext, services: CurrentServices
) -> bytes:
    return answer(services, await decide(services, body, context, cluster), REQUEST_MARK.get() or NO_MARK)


async def decide(
    services: Services, request: OpaQuestion, context: RequestContext, cluster: str | None
) -> Decided | Verdict:
    """Raises what `Decider.decide` does."""
    _check_cluster(services, cluster)
    if isinstance(request, ByResourceType):
        verdict, _ = await services.authorizer.by_resource_type(context, request.operation, request.resource_type)
        return verdict
    return services.decider.decide(request, context)


def decide_at_once(
    services: Services, request: OpaQuestion, context: RequestContext, cluster: str | None
) -> Decided | Verdict | None:
    """In one step of the event loop; None if that would take long."""
    _check_cluster(services, cluster)
    if isinstance(request, ByResourceType):
        authorization = services.authorizer.rights.authorization(context)
        return by_resource_type_at_once(authorization, request.operation, request.resource_type)
    return services.decider.decide(request, context)


def answer(services: Services, decided: Decided | Verdict, mark: RequestMark) -> bytes:
    """The body of the 200; the decision is counted and logged."""
    if isinstance(decided, Verdict):
        # As with authorizeByResourceType, it is neither audited nor in the decision log: no resource was asked about.
        services.metrics.count_verdicts([decided])
        return _ANSWERS[decided.allowed]
    services.decider.record(decided, mark)
    return _ANSWERS[decided.verdicts[0].allowed]


def _check_cluster(services: Services, cluster: str | None) -> None:
    """A broker that names its cluster must not be answered from another one's ACLs."""
    known = services.authorizer.image.cluster_id
    if None not in (cluster, known) and cluster != known:
        raise InconsistentClusterIdException(
            f"this service holds the ACLs of cluster `{known}`, not of `{str(cluster)[:100]}`; "
            "check opa.authorizer.url and cluster.id"
        )
