"""Routes with a body, served without the web framework: FastAPI routers declare and describe them, nothing else.

Most of what such a request would cost in FastAPI is FastAPI's own. What the handlers mean is the same either way: one
reader, one model, one table of refusals.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeVar, get_args

from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app.ops.metrics import Metrics
from app.rest.admission import body_bytes_of
from app.rest.callers.roles import Caller
from app.rest.context import given
from app.rest.errors import response_to
from app.rest.routing import CurrentAuthorizer, CurrentServices, DescribedBy, Services, caller_of
from app.rest.strict_json import MAX_ACLS_BODY_BYTES, MAX_BODY_BYTES, check_headers, off_loop, parse, read_body
from app.rest.validation import refusal_of
from app.rest.wire import StructReader, UndecodedException

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

Reply = Callable[[Scope, Receive], Awaitable[bytes]]
"""What answers a request: the JSON of its 200, or an exception for everything else."""

_LARGE_BODIES = ("createAcls", "deleteAcls")
CLIENT_CLOSED_REQUEST = 499
"""The status that is counted, and never sent, for a client that has gone."""

_CONTENT_TYPE = (b"content-type", b"application/json")
_AT_ONCE = 200
"""Entries of a few microseconds each that are validated in one step of the event loop."""


def endpoints_of(routes: Iterable[BaseRoute], services: Services) -> dict[str, ASGIApp]:
    """An endpoint for every route that takes a body, by path. They all answer POST."""
    return {
        route.path: JsonEndpoint(route, services)
        for route in routes
        if isinstance(route, APIRoute) and route.body_field is not None
    }


async def respond(answers: tuple[str, Reply, Metrics], scope: Scope, receive: Receive, send: Send) -> None:
    """Send what the reply to an operation is, or its refusal, and count the request."""
    operation, reply_to, metrics = answers
    began = perf_counter()
    status = 200
    try:
        reply = await reply_to(scope, receive)
    except ClientDisconnect:
        status = CLIENT_CLOSED_REQUEST
    except Exception as fault:  # noqa: BLE001 - becomes a problem+json; an unexpected one is logged
        response = response_to(fault)
        status = response.status_code
        await response(scope, receive, send)
    else:
        await send_json(send, reply)
    metrics.count_request(operation, status, perf_counter() - began)


async def send_json(send: Send, reply: bytes) -> None:
    """Send a 200."""
    headers = [_CONTENT_TYPE, (b"content-length", b"%d" % len(reply))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


class JsonEndpoint:
    """One declared route as an ASGI application.

    Its handler takes `body`, a struct or a pydantic model, and services by their annotations; it returns a model, or
    JSON.
    """

    def __init__(self, route: APIRoute, services: Services) -> None:
        parameters = inspect.signature(route.endpoint).parameters
        known = {CurrentAuthorizer: services.authorizer, CurrentServices: services}
        given = {name: known[each.annotation] for name, each in parameters.items() if name != "body"}
        self._handle: Callable[[Any], Awaitable[BaseModel | bytes]] = partial(route.endpoint, **given)
        self._read = _reader_of(parameters["body"].annotation)
        self._services = services
        self._operation = route.name
        self._max_bytes = MAX_ACLS_BODY_BYTES if route.name in _LARGE_BODIES else MAX_BODY_BYTES
        self._answers = (route.name, self._reply, services.metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await respond(self._answers, scope, receive, send)

    async def _reply(self, scope: Scope, receive: Receive) -> bytes:
        services, headers = self._services, scope["headers"]
        caller = await caller_of(services, self._operation, scope)
        pool, body_bytes = services.admission.pool_of(self._operation), body_bytes_of(headers, self._max_bytes)
        async with pool.admitted(body_bytes, scope.get("klamm.began"), caller.share):
            check_headers(headers, self._max_bytes)
            body = await self._read(await read_body(receive, self._max_bytes))
            self._check_principal(caller, body)
            at_least = given(getattr(body, "at_least", None))
            if services.authorizer.has_reached(at_least):
                return await self._handled(body)
        async with services.admission.waiting.admitted(body_bytes, None, caller.share):
            # Whoever waits takes no place from those who don't.
            await services.authorizer.wait_for(at_least)
        async with pool.admitted(body_bytes, None, caller.share):
            self._check_principal(caller, body)
            return await self._handled(body)

    def _check_principal(self, caller: Caller, body: Any) -> None:  # noqa: ANN401 - what the route takes
        # start alone has no context: nobody is spoken for.
        context = getattr(body, "context", None)
        if context is not None:
            caller.check_principal(context.principal, self._services.authorizer.image.config.super_users)

    async def _handled(self, body: Any) -> bytes:  # noqa: ANN401 - what the route takes
        reply = await self._handle(body)
        return reply if isinstance(reply, bytes) else reply.__pydantic_serializer__.to_json(reply)


def _reader_of(annotation: Any) -> Callable[[bytes], Awaitable[Any]]:  # noqa: ANN401 - what stands in a signature
    """How a handler's body is read: a struct that is described by a model, or a model."""
    kind, *metadata = get_args(annotation) or (annotation,)
    for each in metadata:
        if isinstance(each, DescribedBy):
            structs: StructReader[Any] = StructReader(kind)
            return BodyReader(structs.read, each.model).read
    models: ModelReader[Any] = ModelReader(kind)

    async def read(body: bytes) -> BaseModel:
        model: BaseModel = await models.read(await off_loop(parse, body))
        return model

    return read


class BodyReader(Generic[T]):
    """Reads bodies into what `read` makes of them; `model` finds the words for a body that it can't decode."""

    def __init__(self, read: Callable[[bytes], T], model: type[BaseModel]) -> None:
        self._read = read
        self._models = ModelReader(model)

    async def read(self, body: bytes) -> T:
        """The request. Raises InvalidRequestException, naming the fields."""
        try:
            return await off_loop(self._read, body)
        except UndecodedException:
            await self._models.read(await off_loop(parse, body))
            # msgspec's own words are the last resort.
            raise


class ModelReader(Generic[M]):
    """Makes models of parsed bodies; the entries of a long list some at a time, so that requests come in between."""

    def __init__(self, model: type[M]) -> None:
        self._model = model
        self._lists: Mapping[str, TypeAdapter[list[object]]] = {
            name: TypeAdapter(field.rebuild_annotation())
            for name, field in model.model_fields.items()
            if any(isinstance(each, type) and issubclass(each, BaseModel) for each in get_args(field.annotation))
            and getattr(field.annotation, "__origin__", None) is list
        }

    async def read(self, value: Mapping[str, object]) -> M:
        """The model. Raises InvalidFieldsException, naming the fields."""
        long = {
            name: each for name in self._lists if isinstance(each := value.get(name), list) and len(each) > _AT_ONCE
        }
        try:
            model = self._model.model_validate({**value, **{name: [] for name in long}} if long else value)
        except ValidationError as fault:
            raise refusal_of(fault.errors(include_url=False, include_input=False)) from None
        return model.model_copy(update={name: await self._entries(name, each) for name, each in long.items()})

    async def _entries(self, name: str, values: list[Any]) -> list[object]:
        entries: list[object] = []
        for start in range(0, len(values), _AT_ONCE):
            try:
                entries += self._lists[name].validate_python(values[start : start + _AT_ONCE])
            except ValidationError as fault:
                errors = fault.errors(include_url=False, include_input=False)
                for each in errors:
                    at, *rest = each["loc"]
                    each["loc"] = (name, start + int(at), *rest)
                raise refusal_of(errors) from None
            await asyncio.sleep(0)
        return entries
