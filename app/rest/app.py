"""The REST application: the endpoints in front, FastAPI behind them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__
from app.ops.audit import AuditLog
from app.ops.decision_log import DecisionLog
from app.ops.metrics import Metrics
from app.ops.metrics_page import MetricsPage
from app.ops.tracing import TracedRequests, Tracing
from app.ops.workers.siblings import Face, Siblings
from app.rest import acls, decisions, explain, health, service
from app.rest.admission import Admission
from app.rest.authorize import AuthorizeEndpoint
from app.rest.callers.authentication import Callers
from app.rest.connections.protocol import Answer
from app.rest.connections.target import AUTHORIZE_TARGET, asks_opa
from app.rest.correlation import MarkedRequests
from app.rest.endpoint import endpoints_of
from app.rest.errors import MethodNotAllowedException, problem_response
from app.rest.opa import OpaDoor
from app.rest.routing import CountedRequests, Services, no_route
from app.runtime.authorizer import Authorizer
from app.runtime.counters import BUCKET_BOUNDS_S

AUTHORIZE_PATH = AUTHORIZE_TARGET.decode()
ROUTERS = (decisions.router, explain.router, acls.router, service.router, health.router, health.metrics_router)


class RestApp:
    """Hands requests with a body to their endpoints and everything else to FastAPI."""

    def __init__(
        self,
        authorize: AuthorizeEndpoint,
        endpoints: Mapping[str, ASGIApp],
        opa: OpaDoor,
        rest: ASGIApp,
        face: Face,
        traced: Callable[[ASGIApp], ASGIApp] | None = None,
    ) -> None:
        self.answer: Answer = self._at_once if traced is None else _takes_the_long_way
        """What the server's protocol asks before it puts a plain request to this application."""
        self.face = face
        """What the supervisor of several workers asks each of them."""
        self._authorize = authorize
        self._endpoints: Mapping[str, ASGIApp] = {AUTHORIZE_PATH: authorize, **endpoints}
        self._opa = opa
        self._rest = rest
        self._marked = MarkedRequests(self._routed if traced is None else traced(self._routed))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._marked(scope, receive, send)

    def _at_once(
        self,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        names: Sequence[str],
        target: bytes = AUTHORIZE_TARGET,
    ) -> bytes | None:
        if target == AUTHORIZE_TARGET:
            return self._authorize.answer(headers, body, names)
        return self._opa.answer(headers, body, names, target)

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None and scope["method"] == "POST":
                await endpoint(scope, receive, send)
                return
            if asks_opa(scope["path"].encode(errors="replace")):
                await self._opa(scope, receive, send)
                return
            if scope["path"] == AUTHORIZE_PATH:
                # The one route that FastAPI doesn't know of.
                await problem_response(MethodNotAllowedException("POST"))(scope, receive, send)
                return
        await self._rest(scope, receive, send)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a replica may stand among."""

    siblings: Siblings | None = None
    """The other workers of the service: probes and metrics speak for them, too."""
    callers: Callers | None = None
    """Without them, everyone may ask everything."""
    admission: Admission | None = None
    """Without one, an own one that knows nothing of connections."""
    tracing: Tracing | None = None
    """With it, every request takes the long way, which makes a span of it."""
    decision_log: DecisionLog | None = None
    """Takes what authorize decides."""


def create_rest_app(
    authorizer: Authorizer,
    metrics: Metrics,
    audit: AuditLog,
    around: Surroundings = Surroundings(),
) -> RestApp:
    """The ASGI application of one replica. Whoever calls it opens and closes what it is given."""
    page = MetricsPage(metrics, authorizer.metrics, BUCKET_BOUNDS_S, __version__)
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # FastAPI's own looks at variables of its own, and its log records carry what callers have sent.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
        exception_handlers={HTTPException: no_route(ROUTERS)},
    )
    services = app.state.services = Services(
        authorizer,
        around.callers or Callers(None, metrics),
        around.admission or Admission(metrics),
        metrics,
        page,
        around.siblings,
    )
    for router in ROUTERS:
        app.include_router(router)
    endpoints = endpoints_of((route for router in ROUTERS for route in router.routes), services)
    authorize = AuthorizeEndpoint(services, audit, around.decision_log)
    traced = None if around.tracing is None else _traced(around.tracing, endpoints)
    opa = OpaDoor(services, authorize)
    return RestApp(authorize, endpoints, opa, CountedRequests(app, metrics), health.face_of(services), traced)


def _traced(tracing: Tracing, paths: Collection[str]) -> Callable[[ASGIApp], ASGIApp]:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    posted = {route.path: route.name for route in routes if route.path in paths and "POST" in (route.methods or ())}
    return partial(TracedRequests, tracing=tracing, operations={AUTHORIZE_PATH: "authorize", **posted})


def _takes_the_long_way(*_: object) -> None:
    return None
