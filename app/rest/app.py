"""The REST application: the endpoints in front, FastAPI behind them."""

from collections.abc import Mapping

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__
from app.ops.audit import AuditLog
from app.ops.metrics import Metrics, MetricsPage
from app.ops.workers.siblings import Face, Siblings
from app.rest import acls, decisions, health, service
from app.rest.authorize import AuthorizeEndpoint
from app.rest.endpoint import endpoints_of
from app.rest.errors import MethodNotAllowedException, problem_response
from app.rest.routing import CountedRequests, Services, no_route
from app.runtime.authorizer import Authorizer
from app.runtime.counters import BUCKET_BOUNDS_S

AUTHORIZE_PATH = "/v1/authorize"
ROUTERS = (decisions.router, acls.router, service.router, health.router, health.metrics_router)


class RestApp:
    """Hands requests with a body to their endpoints and everything else to FastAPI."""

    def __init__(
        self, authorize: AuthorizeEndpoint, endpoints: Mapping[str, ASGIApp], rest: ASGIApp, face: Face
    ) -> None:
        self.answer = authorize.answer
        """What the server's protocol asks before it puts a plain authorize request to this application."""
        self.face = face
        """What the supervisor of several workers asks each of them."""
        self._endpoints: Mapping[str, ASGIApp] = {AUTHORIZE_PATH: authorize, **endpoints}
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None and scope["method"] == "POST":
                await endpoint(scope, receive, send)
                return
            if scope["path"] == AUTHORIZE_PATH:
                # The one route that FastAPI doesn't know of.
                await problem_response(MethodNotAllowedException("POST"))(scope, receive, send)
                return
        await self._rest(scope, receive, send)


def create_rest_app(
    authorizer: Authorizer, metrics: Metrics, audit: AuditLog, siblings: Siblings | None = None
) -> RestApp:
    """The ASGI application of one replica. Whoever calls it opens and closes the authorizer and the audit log.

    `siblings` are the other workers of the service, if it has any: probes and metrics speak for them, too.
    """
    page = MetricsPage(metrics, authorizer.metrics, BUCKET_BOUNDS_S, __version__)
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: no_route(ROUTERS)},
    )
    services = app.state.services = Services(authorizer, metrics, page, siblings)
    for router in ROUTERS:
        app.include_router(router)
    endpoints = endpoints_of((route for router in ROUTERS for route in router.routes), services)
    authorize = AuthorizeEndpoint(authorizer, metrics, audit)
    return RestApp(authorize, endpoints, CountedRequests(app, metrics), health.face_of(services))
