"""Plain requests answered straight from the socket: the checks of the edge in one step of the event loop.

Whatever needs more (a refusal, `at_least`, a long body, a caller that is not known yet) is left to its route.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from time import perf_counter
from typing import Generic, Protocol, TypeVar

from app.core.context import RequestContext
from app.core.verdicts import Verdict
from app.logs.service import RequestMark
from app.rest.bodies.decisions import AuthorizeRequest
from app.rest.bodies.fields import AuthorizableRequestContext
from app.rest.bodies.opa import OPA_PATH, OpaQuestion
from app.rest.bodies.reading import OFF_LOOP_BYTES, check_headers
from app.rest.callers.authentication import shows_one_at_most
from app.rest.callers.roles import speak
from app.rest.deciding import Decided
from app.rest.http.correlation import mark_of, mark_of_headers, reply_headers
from app.rest.http.edge import Route
from app.rest.http.services import Services
from app.rest.http.target import AUTHORIZE_TARGET
from app.rest.routes import decisions, opa

Headers = Sequence[tuple[bytes, bytes]]


class _Request(Protocol):
    @property
    def context(self) -> AuthorizableRequestContext: ...


_CLUSTERS = 16
"""Brokers name few clusters; strangers may name any."""

R = TypeVar("R", bound=_Request)
D = TypeVar("D")


class _Plain(Generic[R, D]):
    def __init__(
        self,
        route: Route,
        decide: Callable[[R, RequestContext], D | None],
        answer: Callable[[D, RequestMark], bytes],
    ) -> None:
        """`decide` counts and logs nothing, and returns None where the route has to wait."""
        self.name, self.open_to, self.max_body_bytes = route.name, route.open_to, route.max_body_bytes
        self.decode: Callable[[bytes], R] = route.decode
        self.decide, self.answer = decide, answer


class AtOnce:
    """Called by the server's protocol before it makes a scope of a request (`http.protocol.Answer`)."""

    def __init__(self, services: Services) -> None:
        self._services = services
        decider = services.decider
        self._authorize = _Plain[AuthorizeRequest, Decided](
            decisions.routes.named("authorize"), decider.decide_at_once, decider.reply
        )
        self._opa_of = lru_cache(_CLUSTERS)(self._new_opa)

    def __call__(
        self, headers: Headers, body: bytes, names: Sequence[str], target: bytes = AUTHORIZE_TARGET
    ) -> bytes | None:
        """The reply, its own headers first. None leaves no trace: the request can go to its route as it came."""
        try:
            if target == AUTHORIZE_TARGET:
                return self._reply(self._authorize, headers, body, names)
            return self._reply(self._opa_of(target), headers, body, names)
        except Exception:  # noqa: BLE001 - the route meets it again, answers and logs it
            return None

    def _new_opa(self, target: bytes) -> _Plain[OpaQuestion, Decided | Verdict]:
        services, cluster = self._services, target[len(OPA_PATH) + 1 :].decode("ascii") or None
        return _Plain(
            opa.routes.named(opa.OPA_OPERATION),
            lambda request, context: opa.decide_at_once(services, request, context, cluster),
            lambda decided, mark: opa.answer(services, decided, mark),
        )

    def _reply(self, plain: _Plain[R, D], headers: Headers, body: bytes, names: Sequence[str]) -> bytes | None:
        began = perf_counter()
        services, fields = self._services, dict(headers)
        if len(fields) != len(headers) and not shows_one_at_most(headers):
            return None
        caller = services.callers.known(fields, names)
        if caller is None or caller.role not in plain.open_to or caller.acts_from_its_socket:
            return None
        check_headers(headers, plain.max_body_bytes)
        if len(body) > OFF_LOOP_BYTES or not (caller.limit is None or caller.limit.has_room(began)):
            return None
        request: R = plain.decode(body)
        context = speak(caller, request.context, None)
        decided = plain.decide(request, context)
        # INVARIANT: nothing that could be refused comes behind this, or the route would take from the quota again.
        if decided is None or (caller.limit is not None and not caller.limit.take(began)):
            return None
        mark = mark_of(fields) if len(fields) == len(headers) else mark_of_headers(headers)
        mark.caller = caller.share
        reply = plain.answer(decided, mark)
        services.metrics.count_request(plain.name, 200, perf_counter() - began)
        return b"content-length: %d\r\n%b\r\n%b" % (len(reply), reply_headers(mark), reply)
