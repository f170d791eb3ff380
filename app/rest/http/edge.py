"""The edge: what every request passes before an endpoint sees it, whichever route it is for.

    caller -> place -> headers, body -> JSON -> whom the caller may speak for -> at_least -> the endpoint

`Route` is the class of every route, and its `handle` all that FastAPI's router calls: there is no other way in.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from fastapi import Depends, Query, Request
from fastapi.dependencies.utils import request_params_to_args
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from app.core.context import Reader, RequestContext
from app.core.kafka.errors import InvalidRequestException
from app.rest.bodies.examples import Example
from app.rest.bodies.fields import given
from app.rest.bodies.reading import MAX_BODY_BYTES, check_headers, read_body, read_struct, strict_decoder
from app.rest.callers.roles import ANYBODY, FULL, Caller, Role, read, speak
from app.rest.errors import MethodNotAllowedException, invalid_field, response_to
from app.rest.http.admission import body_bytes_of
from app.rest.http.services import Services
from app.runtime.authorizer import Authorizer

CLIENT_CLOSED_REQUEST = 499
"""The status that is counted, and never sent, for a client that has gone."""

Reply = bytes | msgspec.Struct | Response
"""What an endpoint gives: the JSON of a 200, what is to become that, or a whole response."""

SERVICES = "klamm.services"
"""Under which the application puts its services into each scope."""

_TO_JSON = msgspec.json.Encoder().encode
_CONTENT_TYPE = (b"content-type", b"application/json")


async def _put_by_the_edge() -> None:
    """FastAPI sees a dependency, so that the parameter is none of the request's; the edge never calls it."""


async def _at_least(
    at_least: Annotated[
        str | None, Query(description="A token: answer from this state of the store or a later one.")
    ] = None,
) -> None:
    """Describes the parameter, which the edge reads."""


T = TypeVar("T")
E = TypeVar("E", bound=Callable[..., Any])
Body = Annotated[T, Depends(_put_by_the_edge)]
"""The body of the request, as a struct."""
CurrentAuthorizer = Annotated[Authorizer, Depends(_put_by_the_edge)]
CurrentServices = Annotated[Services, Depends(_put_by_the_edge)]
CurrentContext = Annotated[RequestContext, Depends(_put_by_the_edge), "context"]
"""Whom the body's context speaks for, checked."""
CurrentReader = Annotated[Reader, Depends(_put_by_the_edge), "reader"]
"""Who reads by a request without a body."""

AT_LEAST = [Depends(_at_least)]
"""The dependencies of a route without a body that takes `at_least`."""


class _Asked:
    """A request on its way through the edge."""

    __slots__ = ("at_least", "body", "caller", "context", "parameters", "scope", "services")

    def __init__(self, services: Services, caller: Caller, scope: Scope) -> None:
        self.services = services
        self.caller = caller
        self.scope = scope
        self.body: Any = None
        self.context: RequestContext | None = None
        self.at_least: str | None = None
        self.parameters: Mapping[str, Any] = {}


def _context_of(asked: _Asked) -> RequestContext:
    if asked.context is None:
        raise TypeError("the endpoint asks for a context, but its body has none")
    return asked.context


_GIVEN: Mapping[Any, Callable[[_Asked], Any]] = {
    CurrentAuthorizer: lambda asked: asked.services.authorizer,
    CurrentServices: lambda asked: asked.services,
    CurrentContext: _context_of,
    CurrentReader: lambda asked: read(asked.caller, asked.scope),
    Request: lambda asked: Request(asked.scope),
}
"""What an endpoint may ask for, by the annotation of its parameter."""


class Route(APIRoute):
    """A route whose `handle` is the edge, and whose every refusal is problem+json."""

    methods: set[str]

    def __init__(  # noqa: PLR0913 - all that a route declares, by name
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        name: str,
        open_to: tuple[Role, ...] = FULL,
        needs_caller: bool = True,
        pool: str = "decisions",
        max_body_bytes: int = MAX_BODY_BYTES,
        reply: type[msgspec.Struct] | None = None,
        may_refuse: Sequence[int] = (),
        example: Example | None = None,
        **more: Any,  # noqa: ANN401 - as APIRoute's
    ) -> None:
        """`name` is its operationId. `pool` is of `Admission.pools`. `reply` is to be named if the endpoint gives the
        JSON of a struct, and not the struct. `may_refuse` are statuses beside those that every route of its kind has.
        """
        super().__init__(path, endpoint, name=name, operation_id=name, response_model=None, **more)
        self.open_to = open_to
        self.needs_caller = needs_caller
        self.pool = pool
        self.may_refuse = may_refuse
        self.example = example
        self.max_body_bytes = max_body_bytes
        signature = inspect.signature(endpoint)
        parameters = signature.parameters
        given = signature.return_annotation
        self.reply_struct = given if isinstance(given, type) and issubclass(given, msgspec.Struct) else reply
        body = parameters.get("body")
        self.body_struct: Any = None if body is None else get_args(body.annotation)[0]
        self.decode: Callable[[bytes], Any] = _no_body if body is None else self.decoder_of(self.body_struct)
        self._given = {name: _GIVEN[each.annotation] for name, each in parameters.items() if each.annotation in _GIVEN}
        self._named = parameters.keys() - self._given.keys() - {"body"}
        """The parameters of the path and of the query."""
        self._takes_at_least = AT_LEAST[0] in self.dependencies

    def decoder_of(self, body: Any) -> Callable[[bytes], Any]:  # noqa: ANN401 - a struct, or what a route reads
        """What decodes the body."""
        return strict_decoder(body)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for this path: to the letter where nothing in it is a parameter."""
        if self.param_convertors:
            return super().matches(scope)
        if scope["path"] != self.path or scope["type"] != "http":
            return Match.NONE, {}
        found = Match.FULL if scope["method"] in self.methods else Match.PARTIAL
        return found, {"endpoint": self.endpoint, "path_params": {}, "route": self}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and count it."""
        services: Services = scope[SERVICES]
        began = perf_counter()
        status = 200
        try:
            reply = await self.answer(services, scope, receive)
        except ClientDisconnect:
            status = CLIENT_CLOSED_REQUEST
        except Exception as fault:  # noqa: BLE001 - becomes a refusal; an unexpected one is logged
            response = self.refusal(fault)
            status = response.status_code
            await response(scope, receive, send)
        else:
            if isinstance(reply, Response):
                status = reply.status_code
                await reply(scope, receive, send)
            else:
                await _send_json(send, reply)
        services.metrics.count_request(self.name, status, perf_counter() - began)

    def refusal(self, fault: Exception) -> Response:
        """What is said of whatever was raised."""
        return response_to(fault)

    async def answer(self, services: Services, scope: Scope, receive: Receive) -> Reply:
        """What the endpoint says to a request that may come to it. Raises ApiException, ClientDisconnect."""
        if scope["method"] not in self.methods:
            raise MethodNotAllowedException(", ".join(sorted(_methods_at(scope["path"], scope["router"].routes))))
        caller = await self._caller_of(services, scope)
        body_bytes = 0 if self.body_struct is None else body_bytes_of(scope["headers"], self.max_body_bytes)
        pool = services.admission.pools[self.pool]
        asked = _Asked(services, caller, scope)
        async with pool.admitted(body_bytes, scope.get("klamm.began"), caller.share):
            if self.body_struct is not None:
                check_headers(scope["headers"], self.max_body_bytes)
                asked.body = await read_struct(self.decode, await read_body(receive, self.max_body_bytes))
            self._examine(asked)
            if asked.at_least is None:
                return await self._reply_to(asked)
            if services.authorizer.has_reached(asked.at_least):
                await services.authorizer.wait_for(asked.at_least)
                return await self._reply_to(asked)
            if asked.context is not None:
                # What is refused in the end is refused before the wait, too.
                services.authorizer.check_super_user(asked.context)
        async with services.admission.waiting.admitted(body_bytes, None, caller.share):
            # Whoever waits takes no place from those who don't.
            await services.authorizer.wait_for(asked.at_least)
        async with pool.admitted(body_bytes, None, caller.share):
            return await self._reply_to(asked)

    async def _caller_of(self, services: Services, scope: Scope) -> Caller:
        """Who has sent this request, and may call this operation. Raises what `Callers.admitted` says."""
        # For the protocol: connections of those who are known are kept longer.
        scope["klamm.known"] = False
        if not self.needs_caller:
            return ANYBODY
        # Whoever asks how the service is, is answered also in overload.
        look_further = (
            None if self.pool == "probes" else partial(services.admission.look_further, scope.get("klamm.began"))
        )
        names = scope.get("klamm.names", ())
        caller = await services.callers.admitted(self.name, self.open_to, scope["headers"], names, look_further)
        scope["klamm.known"] = True
        return caller

    def _examine(self, asked: _Asked) -> None:
        """Find out whom the request speaks for, and the rest of what it says."""
        body, scope = asked.body, asked.scope
        if body is not None:
            asked.at_least = given(getattr(body, "at_least", None))
            claim = getattr(body, "context", None)
            # start alone has no context: nobody is spoken for.
            if claim is not None:
                asked.context = speak(asked.caller, claim.principal, claim.client_address, scope)
        elif self._takes_at_least:
            asked.at_least = _query_at_least(scope)
        if self._named:
            asked.parameters = self._parameters(scope)

    def _reply_to(self, asked: _Asked) -> Awaitable[Reply]:
        arguments = {name: give(asked) for name, give in self._given.items()}
        if self._named:
            arguments.update(asked.parameters)
        if asked.body is not None:
            arguments["body"] = asked.body
        return self.endpoint(**arguments)  # type: ignore[no-any-return]  # FastAPI does not say what an endpoint gives

    def _parameters(self, scope: Scope) -> Mapping[str, Any]:
        """Of the path and the query, as FastAPI reads them."""
        values, errors = request_params_to_args(self.dependant.path_params, scope["path_params"])
        more, more_errors = request_params_to_args(self.dependant.query_params, QueryParams(scope["query_string"]))
        if errors or more_errors:
            first = [*errors, *more_errors][0]
            part, *names = first["loc"]
            raise invalid_field("", f"{part} parameter `{'.'.join(map(str, names))}`: {first['msg']}")
        return {**values, **more}


async def _send_json(send: Send, reply: bytes | msgspec.Struct) -> None:
    """Send a 200."""
    if not isinstance(reply, bytes):
        reply = _TO_JSON(reply)
    headers = [_CONTENT_TYPE, (b"content-length", b"%d" % len(reply))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


def _methods_at(path: str, routes: Iterable[BaseRoute]) -> set[str]:
    found = (each for each in routes if isinstance(each, APIRoute) and each.path_regex.match(path))
    return {method for each in found for method in each.methods or ()}


def _query_at_least(scope: Scope) -> str | None:
    values = QueryParams(scope["query_string"]).getlist("at_least")
    if len(values) > 1:
        raise InvalidRequestException("query parameter `at_least`: it comes more than once; send it once")
    return values[0] if values else None


def _no_body(_: bytes) -> None:
    raise TypeError("the route takes no body")


class Routes(list[Route]):
    """Declares the routes that have one tag in the document."""

    def __init__(self, tag: str, route_class: type[Route] = Route) -> None:
        super().__init__()
        self._declare = partial(route_class, tags=[tag])

    def post(self, path: str, **declared: Any) -> Callable[[E], E]:  # noqa: ANN401 - what `Route` takes
        """Declares what answers a POST, as `Route` says."""
        return self._route(path, ["POST"], declared)

    def get(self, path: str, **declared: Any) -> Callable[[E], E]:  # noqa: ANN401 - what `Route` takes
        """Declares what answers a GET, as `Route` says."""
        return self._route(path, ["GET"], declared)

    def named(self, name: str) -> Route:
        """The route of an operation."""
        return next(each for each in self if each.name == name)

    def _route(self, path: str, methods: list[str], declared: Mapping[str, Any]) -> Callable[[E], E]:
        def declare(endpoint: E) -> E:
            self.append(self._declare(path, endpoint, methods=methods, **declared))
            return endpoint

        return declare
