"""The REST application: one router, FastAPI's own, for every request."""

import re
from collections.abc import Callable, Mapping, Sequence
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
from app.logs.service import REQUEST_MARK
from app.logs.tracing import TracedRequests, Tracing
from app.metrics.declared import Metrics
from app.metrics.page import MetricsPage
from app.process.ended_sessions import EndedSessions
from app.process.siblings import Siblings
from app.rest.callers.authentication import Callers
from app.rest.deciding import Decider
from app.rest.errors import not_found, response_to
from app.rest.http.admission import Admission
from app.rest.http.correlation import mark_of_headers, with_mark
from app.rest.http.edge import Route, Routes
from app.rest.http.protocol import Answer, nothing_at_once
from app.rest.http.services import SERVICES, Services
from app.rest.http.unauthenticated import NothingPrepared, Prepared
from app.rest.pages.routes import pages_routes
from app.rest.routes import access, acls, decisions, explain, health, history, service, watch
from app.rest.routes.at_once import AtOnce
from app.rest.routes.prepared import PreparedReplies
from app.runtime.authorizer import Authorizer
from app.runtime.past import Past
from app.runtime.ports import AskElsewhere, PastStore

ROUTES: tuple[Route, ...] = (
    *decisions.routes,
    *explain.routes,
    *acls.routes,
    *access.routes,
    *history.routes,
    *service.routes,
    *watch.routes,
    *health.routes,
)
"""In order of use: the router tries them one by one."""

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class RestApp:
    def __init__(
        self, services: Services, pages: Sequence[Route], traced: Callable[[ASGIApp], ASGIApp] | None = None
    ) -> None:
        self.answer: Answer = AtOnce(services) if traced is None else nothing_at_once
        self.prepared: Prepared = PreparedReplies(services, ROUTES, pages) if traced is None else NothingPrepared()
        self.worker_probe = health.worker_probe(services)
        self._services = services
        self._router = APIRouter(routes=[*ROUTES, *pages], redirect_slashes=False, default=self._not_found)
        self._application = self._routed if traced is None else traced(self._routed)

    async def close(self) -> None:
        await self._services.past.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        mark = mark_of_headers(scope["headers"])
        before = REQUEST_MARK.set(mark)
        try:
            await self._application(scope, receive, with_mark(send, mark))
        finally:
            REQUEST_MARK.reset(before)

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        # INVARIANT: no line break gets as far as the router, as a `$` in its expressions would let one pass.
        if scope["type"] == "http" and _CONTROL_CHARACTER.search(scope["path"]):
            refusal = InvalidRequestException("the path contains a control character; remove it")
            await self._refuse(refusal, scope, receive, send)
            return
        scope[SERVICES] = self._services
        await self._router(scope, receive, send)

    async def _not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._refuse(not_found(scope["path"]), scope, receive, send)

    async def _refuse(self, refusal: ApiException, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        response = response_to(refusal)
        await response(scope, receive, send)
        self._services.metrics.count_request("other", response.status_code, perf_counter() - began)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    siblings: Siblings | None = None
    callers: Callers | None = None
    """None: everyone may ask everything."""
    admission: Admission | None = None
    """None: the app makes its own, which knows nothing of connections."""
    tracing: Tracing | None = None
    """With it, the router makes a span of every request."""
    decision_log: DecisionLog | None = None
    past: PastStore | None = None
    past_elsewhere: AskElsewhere | None = None
    """None, too: nothing is known of the past."""
    document: Callable[[], Mapping[str, Any]] | None = None
    """The OpenAPI document; None: neither it nor the reference made from it is served."""
    console: Routes | None = None


def create_rest_app(
    authorizer: Authorizer, metrics: Metrics, audit: AuditLog, options: AppOptions = AppOptions()
) -> RestApp:
    """The ASGI application of one replica. It neither opens nor closes what it is given."""
    services = Services(
        authorizer=authorizer,
        callers=options.callers or Callers(None, metrics),
        admission=options.admission or Admission(metrics),
        metrics=metrics,
        metrics_page=MetricsPage(metrics, __version__),
        decider=Decider(authorizer, metrics, audit, options.decision_log),
        past=Past(authorizer, options.past, options.past_elsewhere),
        ended_sessions=EndedSessions() if options.siblings is None else options.siblings.ended_sessions,
        siblings=options.siblings,
    )
    traced = None if options.tracing is None else partial(TracedRequests, tracing=options.tracing)
    pages = pages_routes(options.document, has_console=options.console is not None)
    return RestApp(services, [*pages, *(options.console or ())], traced)
