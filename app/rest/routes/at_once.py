"""Plain requests answered straight from the socket: the checks of the edge in one step of the event loop.

Whatever needs more (a refusal, `at_least`, a long body, a caller that is not known yet) is left to its route.
"""

from collections.abc import Callable, Sequence
from time import perf_counter

from app.rest.bodies.decisions import AuthorizeRequest
from app.rest.bodies.reading import OFF_LOOP_BYTES, check_headers
from app.rest.callers.authentication import shows_one_at_most
from app.rest.callers.roles import speak
from app.rest.http.correlation import mark_of, mark_of_headers, reply_headers
from app.rest.http.services import Services
from app.rest.routes import decisions

Headers = Sequence[tuple[bytes, bytes]]


class AtOnce:
    """Called by the server's protocol before it makes a scope of a request (`http.protocol.Answer`)."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._route = decisions.routes.named("authorize")
        self._decode: Callable[[bytes], AuthorizeRequest] = self._route.decode

    def __call__(self, headers: Headers, body: bytes, names: Sequence[str]) -> bytes | None:
        """The reply, its own headers first. None leaves no trace: the request can go to its route as it came."""
        try:
            return self._reply(headers, body, names)
        except Exception:  # noqa: BLE001 - the route meets it again, answers and logs it
            return None

    def _reply(self, headers: Headers, body: bytes, names: Sequence[str]) -> bytes | None:
        began = perf_counter()
        services, route, fields = self._services, self._route, dict(headers)
        if len(fields) != len(headers) and not shows_one_at_most(headers):
            return None
        caller = services.callers.known(fields, names)
        if caller is None or caller.role not in route.open_to or caller.acts_from_its_socket:
            return None
        check_headers(headers, route.max_body_bytes)
        if len(body) > OFF_LOOP_BYTES or not (caller.limit is None or caller.limit.has_room(began)):
            return None
        request = self._decode(body)
        context = speak(caller, request.context, None)
        decided = services.decider.decide_at_once(request, context)
        # INVARIANT: nothing that could be refused comes behind this, or the route would take from the quota again.
        if decided is None or (caller.limit is not None and not caller.limit.take(began)):
            return None
        mark = mark_of(fields) if len(fields) == len(headers) else mark_of_headers(headers)
        mark.caller = caller.share
        reply = services.decider.reply(decided, mark)
        services.metrics.count_request(route.name, 200, perf_counter() - began)
        return b"content-length: %d\r\n%b\r\n%b" % (len(reply), reply_headers(mark), reply)
