"""What an endpoint may take, by the annotation of its parameter, and the call from which the edge fills it in."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request
from starlette.datastructures import QueryParams
from starlette.types import Scope

from app.core.context import Reader, RequestContext
from app.rest.callers.roles import Caller, read
from app.rest.http.admission import Place, PlaceHolder
from app.rest.http.services import Services
from app.runtime.authorizer import Authorizer
from app.runtime.past import Past

HOLDER = "klamm.holder"
"""The key of the `PlaceHolder` in the scope of a request, and in those of the requests that it makes in turn."""


async def _put_by_the_edge() -> None:
    """A dependency, so that FastAPI does not look for the parameter in the request. It is never called."""


async def _at_least(
    at_least: Annotated[
        str | None, Query(description="A token: answer from this state of the store, or a later one.")
    ] = None,
) -> None:
    """Describes the parameter, which the edge reads."""


T = TypeVar("T")
Body = Annotated[T, Depends(_put_by_the_edge)]
CurrentAuthorizer = Annotated[Authorizer, Depends(_put_by_the_edge)]
CurrentServices = Annotated[Services, Depends(_put_by_the_edge)]
CurrentPast = Annotated[Past, Depends(_put_by_the_edge)]
CurrentContext = Annotated[RequestContext, Depends(_put_by_the_edge), "context"]
"""The principal that the body's context names, checked."""
CurrentCaller = Annotated[Caller, Depends(_put_by_the_edge), "caller"]
CurrentReader = Annotated[Reader, Depends(_put_by_the_edge), "reader"]
"""The principal or the role that reads, for a request without a body."""

AT_LEAST = [Depends(_at_least)]
"""`dependencies` of a route without a body that takes `at_least`."""


class Call:
    __slots__ = ("at_least", "body", "caller", "context", "ends_at", "parameters", "query", "scope", "services")

    def __init__(self, services: Services, caller: Caller, scope: Scope) -> None:
        self.services = services
        self.caller = caller
        self.scope = scope
        self.body: Any = None
        self.context: RequestContext | None = None
        self.at_least: str | None = None
        self.ends_at: float | None = None
        """When the answer is due, by the event loop's clock; None: the request does not say."""
        self.query = QueryParams()
        self.parameters: Mapping[str, Any] = {}

    def admitted(self, pool: str, body_bytes: int, began: float | None = None) -> Place:
        """A place for `async with`, as `Pool.admitted` says. INVARIANT: a request has one at most."""
        holder = self.scope.setdefault(HOLDER, PlaceHolder())
        return self.services.admission.pools[pool].admitted(body_bytes, began, self.caller.share, holder)


def context_of(call: Call) -> RequestContext:
    if call.context is None:
        raise TypeError("the endpoint takes a context, but its body has none")
    return call.context


ARGUMENTS: Mapping[Any, Callable[[Call], Any]] = {
    CurrentAuthorizer: lambda call: call.services.authorizer,
    CurrentServices: lambda call: call.services,
    CurrentPast: lambda call: call.services.past,
    CurrentContext: context_of,
    CurrentCaller: lambda call: call.caller,
    CurrentReader: lambda call: read(call.caller, call.scope),
    Request: lambda call: Request(call.scope),
}
"""What an endpoint may take, by the annotation of its parameter."""
