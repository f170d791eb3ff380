"""The edge: what every request passes before an endpoint sees it, whichever route it is for.

    caller, rights -> query -> place -> headers, body -> parsing -> whom it may speak for -> at_least -> endpoint

`Route` is the class of every route, and its `handle` all that FastAPI's router calls: there is no other way in. A
subclass may override single steps (who calls, how a body is read, how the reply is made), never their order.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from time import perf_counter
from typing import Any, TypeVar, get_args

import msgspec
from fastapi.routing import APIRoute
from msgspec import UNSET
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from app.core.kafka.errors import RequestTimedOutException
from app.rest.bodies.examples import Example
from app.rest.bodies.fields import given, seconds
from app.rest.bodies.reading import MAX_BODY_BYTES, check_headers, read_body, read_struct, strict_decoder
from app.rest.callers.roles import FULL, NOBODY, Caller, Role, speak
from app.rest.errors import MethodNotAllowedException, response_to
from app.rest.http.admission import body_bytes_of
from app.rest.http.arguments import ARGUMENTS, AT_LEAST, Call, CurrentContext, CurrentReader, context_of
from app.rest.http.parameters import check_query, names_of, read_parameters, read_query
from app.rest.http.services import SERVICES, Services
from app.rest.http.streams import EventStream
from app.runtime.ports import AskElsewhere

CLIENT_CLOSED_REQUEST = 499
"""For a client that has gone: counted, but never sent."""

Reply = bytes | msgspec.Struct | Response | EventStream
"""What an endpoint returns: the JSON of a 200, a struct to be encoded as that, a whole response, or a stream."""

_TO_JSON = msgspec.json.Encoder().encode
_CONTENT_TYPE = (b"content-type", b"application/json")


class Route(APIRoute):
    """A route whose `handle` is the edge, and whose every refusal is problem+json."""

    methods: set[str]
    endpoint: Callable[..., Awaitable[Reply]]

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
        limits_answer: bool = False,
        example: Example | None = None,
        **more: Any,  # noqa: ANN401 - as APIRoute's
    ) -> None:
        """`name` is its operationId. `pool` is of `Admission.pools`. Give `reply` if the endpoint returns the JSON of
        a struct instead of the struct. `may_refuse` are statuses beyond those that every route of its kind has.
        `limits_answer`: its body's `timeout_ms` is that of the whole answer (that of an update is the writer's).
        """
        super().__init__(path, endpoint, name=name, operation_id=name, response_model=None, **more)
        signature = inspect.signature(endpoint)
        self.open_to = open_to
        self.needs_caller = needs_caller
        self.pool = pool
        self.streams = signature.return_annotation is EventStream
        self.may_refuse = may_refuse
        self.example = example
        self.max_body_bytes = max_body_bytes
        parameters = signature.parameters
        given = signature.return_annotation
        self.reply_struct = given if isinstance(given, type) and issubclass(given, msgspec.Struct) else reply
        body = parameters.get("body")
        self.body_struct: Any = None if body is None else get_args(body.annotation)[0]
        self.decode: Callable[[bytes], Any] = _no_body if self.body_struct is None else strict_decoder(self.body_struct)
        self.takes_body = body is not None
        self._arguments = {
            name: ARGUMENTS[each.annotation] for name, each in parameters.items() if each.annotation in ARGUMENTS
        }
        if not needs_caller and {CurrentContext, CurrentReader} & {each.annotation for each in parameters.values()}:
            # INVARIANT: where no caller is identified, nobody is spoken for.
            raise TypeError(
                f"the route `{name}` needs a caller, because its endpoint takes the principal that it speaks for"
            )
        self._named = parameters.keys() - self._arguments.keys() - {"body"}
        """The parameters of the path and of the query."""
        self._takes_at_least = AT_LEAST[0] in self.dependencies
        self._limits_answer = limits_answer
        takes = [*names_of(self.dependant.query_params), *(["at_least"] if self._takes_at_least else [])]
        # Clients of probes and of pages may add parameters of their own.
        self._query = takes if self.include_in_schema and pool != "probes" else None
        self._reads_query = bool(takes) or self._query is not None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """A path without parameters must match to the letter."""
        if self.param_convertors:
            return super().matches(scope)
        if scope["path"] != self.path or scope["type"] != "http":
            return Match.NONE, {}
        found = Match.FULL if scope["method"] in self.methods else Match.PARTIAL
        return found, {"endpoint": self.endpoint, "path_params": {}, "route": self}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        services: Services = scope[SERVICES]
        began = perf_counter()
        status = 200
        try:
            reply = await self.answer(services, scope, receive)
            if isinstance(reply, EventStream):
                services.metrics.count_request(self.name, status, perf_counter() - began)
                await reply.send(receive, send)
                return
        except ClientDisconnect:
            status = CLIENT_CLOSED_REQUEST
        except Exception as fault:  # noqa: BLE001 - becomes a refusal; an unexpected one is logged
            response = self.refusal(fault, scope)
            status = response.status_code
            await response(scope, receive, send)
        else:
            if isinstance(reply, Response):
                status = reply.status_code
                await reply(scope, receive, send)
            else:
                await _send_json(send, reply)
        services.metrics.count_request(self.name, status, perf_counter() - began)

    def refusal(self, fault: Exception, scope: Scope) -> Response:  # noqa: ARG002 - for subclasses
        return response_to(fault)

    async def answer(self, services: Services, scope: Scope, receive: Receive) -> Reply:
        """Raises ApiException and ClientDisconnect."""
        if scope["method"] not in self.methods:
            raise MethodNotAllowedException(", ".join(sorted(_methods_at(scope["path"], scope["router"].routes))))
        call = await self.identify(services, scope)
        if scope["query_string"] and self._reads_query:
            call.query = read_query(scope["query_string"])
            if self._query is not None:
                check_query(call.query, self._query)
        pool = self.pool_of(call)
        if self.streams:
            return await self._stream(call, pool)
        body_bytes = body_bytes_of(scope["headers"], self.max_body_of(call)) if self.takes_body else 0
        async with call.admitted(pool, body_bytes, scope.get("klamm.began")):
            if self.takes_body:
                call.body = await self.read(call, receive)
            self._examine(call)
            must_wait = call.at_least is not None and not await self._has_reached(call)
            if not must_wait and self.pool_of_reply(call) == pool:
                return await self.reply_to(call)
        # INVARIANT: what follows takes other places, so the first one has been left: no request waits for a place
        # while it has one.
        if must_wait:
            async with call.admitted("waiting", body_bytes):
                await services.authorizer.wait_for(call.at_least, _seconds_left(call))
        pool_of_reply = self.pool_of_reply(call)
        if pool_of_reply is None:
            return await self.reply_to(call)
        async with call.admitted(pool_of_reply, body_bytes):
            return await self.reply_to(call)

    async def identify(self, services: Services, scope: Scope) -> Call:
        """The call with its caller, which has the right to make it. Raises ApiException."""
        return Call(services, await self._caller_of(services, scope), scope)

    def pool_of(self, call: Call) -> str:  # noqa: ARG002 - for subclasses
        """The pool of the place in which the body is read."""
        return self.pool

    def max_body_of(self, call: Call) -> int:  # noqa: ARG002 - for subclasses
        return self.max_body_bytes

    async def read(self, call: Call, receive: Receive) -> Any:  # noqa: ANN401 - what `decode` makes
        """The body. Raises ApiException and ClientDisconnect."""
        check_headers(call.scope["headers"], self.max_body_bytes)
        return await read_struct(self.decode, await read_body(receive, self.max_body_bytes))

    def pool_of_reply(self, call: Call) -> str | None:
        """The pool of the place in which the endpoint is called; None: it takes places of its own."""
        return self.pool if given(getattr(call.body, "at", None)) is None else "past"

    async def _has_reached(self, call: Call) -> bool:
        """Whether the state is there that the call asks for. Raises ApiException for what would be refused anyway."""
        authorizer = call.services.authorizer
        if authorizer.has_reached(call.at_least):
            await authorizer.wait_for(call.at_least)
            return True
        if call.context is not None:
            authorizer.rights.check_super_user(call.context)
        return False

    async def _stream(self, call: Call, pool: str) -> Reply:
        """The place is held until the stream ends."""
        async with AsyncExitStack() as held:
            await held.enter_async_context(call.admitted(pool, 0, call.scope.get("klamm.began")))
            self._examine(call)
            reply = await self.reply_to(call)
            if isinstance(reply, EventStream):
                reply.held = held.pop_all()
            return reply

    async def _caller_of(self, services: Services, scope: Scope) -> Caller:
        # For the protocol: connections of known callers are kept longer.
        scope["klamm.known"] = False
        if not self.needs_caller:
            return NOBODY
        # Metrics are answered in overload too.
        look_further = (
            None if self.pool == "probes" else partial(services.admission.look_further, scope.get("klamm.began"))
        )
        names = scope.get("klamm.names", ())
        caller = await services.callers.admitted(self.name, self.open_to, scope["headers"], names, look_further)
        scope["klamm.known"] = True
        return caller

    def _examine(self, call: Call) -> None:
        body, scope = call.body, call.scope
        if body is not None:
            call.at_least = given(getattr(body, "at_least", None))
            limit = seconds(body.timeout_ms) if self._limits_answer else None
            call.ends_at = None if limit is None else asyncio.get_running_loop().time() + limit
            claim = getattr(body, "context", None)
            # start alone has no context: nobody is spoken for.
            if claim is not None:
                call.context = speak(call.caller, claim, scope)
        elif self._takes_at_least:
            call.at_least = call.query.get("at_least")
        if self._named:
            call.parameters = read_parameters(self.dependant, scope["path_params"], call.query)

    async def reply_to(self, call: Call) -> Reply:
        """The endpoint's reply, or that of the service that has the records."""
        is_of_the_past, elsewhere = self.pool_of_reply(call) == "past", call.services.past.elsewhere
        if is_of_the_past and elsewhere is not None:
            return await self._reply_of(elsewhere, call)
        if is_of_the_past or call.ends_at is None:
            return await self._own_reply_to(call)
        try:
            async with asyncio.timeout_at(call.ends_at) as limit:
                return await self._own_reply_to(call)
        except TimeoutError:
            if not limit.expired():
                raise
            raise RequestTimedOutException(
                "the answer took longer than `timeout_ms`; ask for less, or allow more time"
            ) from None

    async def _reply_of(self, ask_elsewhere: AskElsewhere, call: Call) -> bytes:
        """The reply of the service that has the records, asked in the caller's words."""
        context = context_of(call)
        # INVARIANT: whom this caller may speak for is decided here; the other service only sees this one asking.
        call.services.authorizer.rights.check_super_user(context)
        call.services.authorizer.rights.check_loaded()
        asked: dict[str, Any] = {
            name: value for name, value in msgspec.structs.asdict(call.body).items() if value is not UNSET
        }
        # The other service may be of a version that does not take it, and has this one's own limit anyway.
        asked.pop("timeout_ms", None)
        asked["context"] = {"principal": context.principal, "client_address": context.client_address.text}
        if context.groups is not None:
            asked["context"]["groups"] = context.groups.names
        return await ask_elsewhere(self.path, _TO_JSON(asked))

    def _own_reply_to(self, call: Call) -> Awaitable[Reply]:
        arguments = {name: give(call) for name, give in self._arguments.items()}
        if self._named:
            arguments.update(call.parameters)
        if call.body is not None:
            arguments["body"] = call.body
        return self.endpoint(**arguments)


async def _send_json(send: Send, reply: bytes | msgspec.Struct) -> None:
    if not isinstance(reply, bytes):
        reply = _TO_JSON(reply)
    headers = [_CONTENT_TYPE, (b"content-length", b"%d" % len(reply))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


def _methods_at(path: str, routes: Iterable[BaseRoute]) -> set[str]:
    found = (each for each in routes if isinstance(each, APIRoute) and each.path_regex.match(path))
    return {method for each in found for method in each.methods or ()}


def _seconds_left(call: Call) -> float | None:
    return None if call.ends_at is None else max(0.0, call.ends_at - asyncio.get_running_loop().time())


def _no_body(_: bytes) -> None:
    raise TypeError("the route takes no body")


E = TypeVar("E", bound=Callable[..., Any])


class Routes(list[Route]):
    """Declares the routes that have one tag in the document."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._declare = partial(Route, tags=[tag])

    def post(self, path: str, **declared: Any) -> Callable[[E], E]:  # noqa: ANN401 - what `Route` takes
        return self._route(path, ["POST"], declared)

    def get(self, path: str, **declared: Any) -> Callable[[E], E]:  # noqa: ANN401 - what `Route` takes
        return self._route(path, ["GET"], declared)

    def named(self, name: str) -> Route:
        return next(each for each in self if each.name == name)

    def _route(self, path: str, methods: list[str], declared: Mapping[str, Any]) -> Callable[[E], E]:
        def declare(endpoint: E) -> E:
            self.append(self._declare(path, endpoint, methods=methods, **declared))
            return endpoint

        return declare
