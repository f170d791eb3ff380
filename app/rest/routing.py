"""How FastAPI's routes come to what they work with, and to their refusals: problem+json whatever happens."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.ops.metrics import OPERATIONS, Metrics
from app.ops.metrics_page import MetricsPage
from app.ops.workers.siblings import Siblings
from app.rest.admission import Admission
from app.rest.callers.authentication import Callers
from app.rest.callers.roles import OPEN_TO_ALL, Caller
from app.rest.errors import MethodNotAllowedException, not_found, problem_response, response_to
from app.rest.validation import request_refusal_of
from app.runtime.authorizer import Authorizer


@dataclass(frozen=True, slots=True)
class Services:
    """What the routes work with."""

    authorizer: Authorizer
    callers: Callers
    admission: Admission
    metrics: Metrics
    metrics_page: MetricsPage
    siblings: Siblings | None = None
    """The other workers of the service; None: this process is all of it."""


async def _authorizer(request: Request) -> Authorizer:
    services: Services = request.app.state.services
    return services.authorizer


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def caller_of(services: Services, operation: str, scope: Scope) -> Caller:
    """Who has sent this request, and may call this operation. Raises what `Callers.admitted` says.

    Whoever asks how the service is, is answered also in overload.
    """
    look_further = (
        None if operation == "metrics" else partial(services.admission.look_further, scope.get("klamm.began"))
    )
    caller = await services.callers.admitted(operation, scope["headers"], scope.get("klamm.names", ()), look_further)
    # For the protocol: connections of those who are known are kept longer.
    scope["klamm.known"] = operation not in OPEN_TO_ALL
    return caller


@dataclass(frozen=True, slots=True)
class DescribedBy:
    """Annotates a body's struct with the model that documents it, for FastAPI, and that finds words for refusals."""

    model: type[BaseModel]

    def __get_pydantic_core_schema__(self, _: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The model's own."""
        return handler.generate_schema(self.model)


CurrentAuthorizer = Annotated[Authorizer, Depends(_authorizer)]
CurrentServices = Annotated[Services, Depends(_services)]
CurrentCaller = Annotated[Caller, Depends(_caller)]
"""Who sent this request; for routes without a body, which have no context that says so."""


class StrictRoute(APIRoute):
    """A route that answers every refusal and fault with problem+json.

    FastAPI serves those that take no body; those that do it describes, and `app.rest.endpoint` serves them.
    """

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]  # what is awaited
        """The route's handler, as FastAPI calls it."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            services: Services = request.app.state.services
            scope = request.scope
            try:
                request.state.caller = await caller_of(services, self.name, scope)
                async with services.admission.pool_of(self.name).admitted(0, scope.get("klamm.began")):
                    return await handle(request)
            except RequestValidationError as errors:
                return problem_response(request_refusal_of(errors.errors()))
            except Exception as fault:  # noqa: BLE001 - becomes a problem+json; an unexpected one is logged
                return response_to(fault)

        return answer


def strict_router(tag: str) -> APIRouter:
    """A router whose routes are strict and stand under this tag; a route's name is its operationId."""
    return APIRouter(route_class=StrictRoute, tags=[tag], generate_unique_id_function=lambda route: route.name)


class CountedRequests:
    """Counts and times every request that the application answers, by its route's name."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        status = 500

        async def counted_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, counted_send)
        finally:
            name = getattr(scope.get("route"), "name", "other")
            self._metrics.count_request(name if name in OPERATIONS else "other", status, perf_counter() - began)


def no_route(routers: Iterable[APIRouter]) -> Callable[[Request, Exception], Coroutine[Any, Any, Response]]:
    """The handler for paths that lead nowhere (404), or not with this method (405, with every method they take)."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]

    async def answer(request: Request, _: Exception) -> Response:
        path: str = request.scope["path"]
        methods = {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}
        if methods:
            return problem_response(MethodNotAllowedException(", ".join(sorted(methods))))
        return problem_response(not_found(path))

    return answer


def documented_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route for the OpenAPI document, all of one shape."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _DESCRIPTIONS[status], "content": content} for status in statuses}


def problems(extra: Sequence[int] = ()) -> dict[int | str, dict[str, Any]]:
    """The refusals that every route with a body can give, and more."""
    return documented_problems(*sorted({400, 401, 403, 408, 413, 415, 429, 500, 503, *extra}))


def guarded_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route without a body that asks who calls, and more."""
    return documented_problems(*sorted({401, 403, 429, 500, *statuses}))


_DESCRIPTIONS = {
    400: "The request breaks a rule of its own form (INVALID_REQUEST, SECURITY_DISABLED, POLICY_VIOLATION)",
    401: "The caller did not prove who it is (SASL_AUTHENTICATION_FAILED)",
    403: "The caller may not ask this, or its principal lacks the right on the cluster (CLUSTER_AUTHORIZATION_FAILED)",
    404: "Nothing is there (RESOURCE_NOT_FOUND)",
    405: "The path takes another method; see Allow",
    408: "The body did not arrive in time",
    409: "The token or the cluster id is of another store (TOKEN_EPOCH_MISMATCH, INCONSISTENT_CLUSTER_ID)",
    412: "The store has changed since the token that the update is guarded by (INVALID_UPDATE_VERSION)",
    413: "The body is too large",
    415: "The body is not application/json",
    429: "Too much at once; try again after Retry-After (OVERLOADED, THROTTLING_QUOTA_EXCEEDED)",
    500: "An unexpected fault; its cause is in the service's log (UNKNOWN_SERVER_ERROR)",
    503: "Not now; try again after Retry-After (AUTHORIZER_NOT_READY, STORE_UNAVAILABLE, OFFSET_NOT_AVAILABLE)",
    504: "The deadline passed; whether the update was kept is unknown (REQUEST_TIMED_OUT)",
}
