"""The REST application: one router, FastAPI's own, for every request."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

from fastapi import APIRouter
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__
from app.core.kafka.errors import ApiException, InvalidRequestException
from app.logs.audit import AuditLog
from app.logs.decision_log import DecisionLog
from app.logs.tracing import TracedRequests, Tracing
from app.metrics.declared import Metrics
from app.metrics.page import MetricsPage
from app.process.siblings import Siblings
from app.rest.callers.authentication import Callers
from app.rest.deciding import Decider
from app.rest.errors import not_found, response_to
from app.rest.http.admission import Admission
from app.rest.http.correlation import MarkedRequests
from app.rest.http.edge import SERVICES, Route, Routes
from app.rest.http.protocol import Answer
from app.rest.http.services import Services
from app.rest.http.target import asks_opa
from app.rest.pages.routes import pages_routes
from app.rest.routes import acls, decisions, explain, health, opa, service
from app.rest.routes.at_once import AtOnce
from app.runtime.authorizer import Authorizer

ROUTES: tuple[Route, ...] = (
    *decisions.routes,
    *explain.routes,
    *acls.routes,
    *opa.routes,
    *service.routes,
    *health.routes,
)
"""What is asked most stands first: the router looks at one route after the other."""

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class RestApp:
    """Puts every request before the router, and its services into the request's scope."""

    def __init__(self, services: Services, pages: Routes, traced: Callable[[ASGIApp], ASGIApp] | None = None) -> None:
        self.answer: Answer = AtOnce(services) if traced is None else _takes_the_long_way
        """What the server's protocol asks before it puts a plain request to this application."""
        self.worker_probe = health.worker_probe(services)
        """What the supervisor of several workers asks each of them."""
        self._services = services
        self._router = APIRouter(routes=[*ROUTES, *pages], redirect_slashes=False, default=self._not_found)
        self._marked = MarkedRequests(self._routed if traced is None else traced(self._routed))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._marked(scope, receive, send)

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        # INVARIANT: a `$` in a router's expression lets a line's end pass, so none comes there.
        if scope["type"] == "http" and _CONTROL_CHARACTER.search(scope["path"]):
            refusal = InvalidRequestException("the path holds a control character; send it without")
            await self._refuse(refusal, scope, receive, send)
            return
        scope[SERVICES] = self._services
        await self._router(scope, receive, send)

    async def _not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._refuse(not_found(scope["path"]), scope, receive, send)

    async def _refuse(self, refusal: ApiException, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse what is for no route, in words that nobody takes for an answer of OPA's."""
        began = perf_counter()
        is_for_opa = asks_opa(scope["path"].encode(errors="replace"))
        response = opa.opa_refusal(refusal) if is_for_opa else response_to(refusal)
        await response(scope, receive, send)
        self._services.metrics.count_request("other", response.status_code, perf_counter() - began)


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
    document: Callable[[], Mapping[str, Any]] | None = None
    """The OpenAPI document, to be served with the reference made of it; without it, they are not served."""


def create_rest_app(
    authorizer: Authorizer,
    metrics: Metrics,
    audit: AuditLog,
    around: Surroundings = Surroundings(),
) -> RestApp:
    """The ASGI application of one replica. Whoever calls it opens and closes what it is given."""
    services = Services(
        authorizer=authorizer,
        callers=around.callers or Callers(None, metrics),
        admission=around.admission or Admission(metrics),
        metrics=metrics,
        metrics_page=MetricsPage(metrics, __version__),
        decider=Decider(authorizer, metrics, audit, around.decision_log),
        siblings=around.siblings,
    )
    traced = None if around.tracing is None else partial(TracedRequests, tracing=around.tracing)
    return RestApp(services, pages_routes(around.document), traced)


def _takes_the_long_way(*_: object) -> None:
    return None
