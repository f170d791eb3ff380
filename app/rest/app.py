"""The REST application: the fast route in front, FastAPI behind it."""

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__
from app.ops.audit import AuditLog
from app.ops.metrics import Metrics, MetricsPage
from app.rest import acls, decisions, health, service
from app.rest.authorize import AuthorizeEndpoint
from app.rest.errors import MethodNotAllowedException, problem_response
from app.rest.routing import CountedRequests, Services, no_route
from app.runtime.authorizer import Authorizer
from app.runtime.counters import BUCKET_BOUNDS_S

AUTHORIZE_PATH = "/v1/authorize"
ROUTERS = (decisions.router, acls.router, service.router, health.router, health.metrics_router)


class RestApp:
    """Hands authorize to its endpoint and everything else to FastAPI."""

    def __init__(self, authorize: AuthorizeEndpoint, rest: ASGIApp) -> None:
        self.answer = authorize.answer
        """What the server's protocol asks before it puts a plain authorize request to this application."""
        self._authorize = authorize
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"] == AUTHORIZE_PATH:
            if scope["method"] == "POST":
                await self._authorize(scope, receive, send)
            else:
                await problem_response(MethodNotAllowedException("POST"))(scope, receive, send)
        else:
            await self._rest(scope, receive, send)


def create_rest_app(authorizer: Authorizer, metrics: Metrics, audit: AuditLog) -> RestApp:
    """The ASGI application of one replica. Whoever calls it opens and closes the authorizer and the audit log."""
    page = MetricsPage(metrics, authorizer.metrics, BUCKET_BOUNDS_S, __version__)
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: no_route(ROUTERS)},
    )
    app.state.services = Services(authorizer, metrics, page)
    for router in ROUTERS:
        app.include_router(router)
    return RestApp(AuthorizeEndpoint(authorizer, metrics, audit), CountedRequests(app, metrics))
