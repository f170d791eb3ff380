"""POST /v1/data/kafka/authz/allow: OPA's API, as far as its Kafka plugin asks it. Not in the document, as not ours.

The plugin looks at no status. Any JSON is an answer to it, kept for its cache time, and JSON without a `result` is a
denial; what is no JSON is a failure, after which it asks again. So a decision is JSON, and nothing else ever is.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import monotonic, perf_counter
from typing import NamedTuple

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from app.core.errors import (
    ApiException,
    InconsistentClusterIdException,
    RequestTimedOutException,
    ResourceNotFoundException,
)
from app.ops.logs import REQUEST_MARK, RequestMark
from app.rest.admission import body_bytes_of
from app.rest.at_once import caller_at_once, mark_at_once
from app.rest.authorize import ALLOWED, NO_MARK, AuthorizeEndpoint
from app.rest.callers.roles import Caller
from app.rest.correlation import reply_headers
from app.rest.endpoint import CLIENT_CLOSED_REQUEST, send_json
from app.rest.errors import MethodNotAllowedException, plain_response, status_of, unexpected
from app.rest.opa_wire import OPA_DEADLINE_S, OPA_PATH, ByResourceType, decode_opa
from app.rest.routing import Services, caller_of
from app.rest.strict_json import MAX_BODY_BYTES, OFF_LOOP_BYTES, check_headers, off_loop, read_body
from app.rest.wire import AuthorizeRequest

OPA_OPERATION = "opaAuthorize"
_ANSWERS = {True: b'{"result":true}', False: b'{"result":false}'}
_LOG_EACH_S = 1.0

_log = logging.getLogger(__name__)


class _Route(NamedTuple):
    """What traces and metrics call a request."""

    name: str
    path_format: str


_ROUTE = _Route(OPA_OPERATION, f"{OPA_PATH}/{{cluster}}")


class OpaDoor:
    """All of OPA's paths as an ASGI application; decided is by `authorize`."""

    def __init__(
        self, services: Services, authorize: AuthorizeEndpoint, clock: Callable[[], float] = monotonic
    ) -> None:
        self._services = services
        self._authorizer = services.authorizer
        self._authorize = authorize
        self._clock = clock
        self._logged_at = -_LOG_EACH_S
        self._unlogged = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request: 200 and a boolean, or the name of an error in plain text."""
        began = perf_counter()
        status = 200
        try:
            allowed = await self._reply(scope, receive)
        except ClientDisconnect:
            status = CLIENT_CLOSED_REQUEST
        except Exception as fault:  # noqa: BLE001 - becomes a refusal; an unexpected one is logged
            refusal = fault if isinstance(fault, ApiException) else unexpected(fault)
            status = status_of(refusal)
            self._note(refusal)
            await plain_response(refusal)(scope, receive, send)
        else:
            await send_json(send, _ANSWERS[allowed])
        operation = OPA_OPERATION if scope.get("route") is _ROUTE else "other"
        self._services.metrics.count_request(operation, status, perf_counter() - began)

    def answer(
        self, headers: Sequence[tuple[bytes, bytes]], body: bytes, names: Sequence[str], target: bytes
    ) -> bytes | None:
        """The reply, its own headers first, to a question that can be decided at once; None for every refusal.

        What it has no answer to has left no trace: the request can be put to the ASGI application as it came.
        """
        began = perf_counter()
        try:
            fields = dict(headers)
            caller = caller_at_once(self._services.callers, OPA_OPERATION, headers, fields, names)
            if caller is None or len(body) > OFF_LOOP_BYTES:
                return None
            request = decode_opa(body)
            self._check_cluster(_cluster_of(target.decode("ascii")))
            if caller.limit is not None:
                self._check(request, caller)
                if not caller.limit.take():
                    return None
            mark = mark_at_once(headers, fields, caller)
            reply = _ANSWERS[self._decided(request, caller, mark)]
        except Exception:  # noqa: BLE001 - the ASGI application meets it again, answers and logs it
            return None
        self._services.metrics.count_request(OPA_OPERATION, 200, perf_counter() - began)
        # The order of the long way.
        return b"content-length: %d\r\n%b\r\n%b" % (len(reply), reply_headers(mark), reply)

    async def _reply(self, scope: Scope, receive: Receive) -> bool:
        cluster = _cluster_of(scope["path"])
        scope["route"] = _ROUTE
        if scope["method"] != "POST":
            raise MethodNotAllowedException("POST")
        patience = asyncio.timeout(scope.get("klamm.began", monotonic()) + OPA_DEADLINE_S - monotonic())
        try:
            async with patience:
                caller, request = await self._asked(scope, receive)
        except TimeoutError:
            if not patience.expired():
                raise
            raise RequestTimedOutException(f"the request took longer than {OPA_DEADLINE_S:g} s; try again") from None
        # INVARIANT: no await from here on, as in authorize; what is decided now is true when it is said.
        self._check_cluster(cluster)
        return self._decided(request, caller, REQUEST_MARK.get() or NO_MARK)

    async def _asked(self, scope: Scope, receive: Receive) -> tuple[Caller, AuthorizeRequest | ByResourceType]:
        services, headers = self._services, scope["headers"]
        caller = await caller_of(services, OPA_OPERATION, scope)
        pool = services.admission.pool_of(OPA_OPERATION)
        async with pool.admitted(body_bytes_of(headers, MAX_BODY_BYTES), scope.get("klamm.began"), caller.share):
            check_headers(headers, MAX_BODY_BYTES)
            return caller, await off_loop(decode_opa, await read_body(receive, MAX_BODY_BYTES))

    def _check(self, request: AuthorizeRequest | ByResourceType, caller: Caller) -> None:
        """Raise what deciding would: who is refused pays once, and that is on the long way."""
        if isinstance(request, ByResourceType):
            self._authorize.authorization(request.context, caller)
        else:
            self._authorize.check(request, caller)

    def _decided(self, request: AuthorizeRequest | ByResourceType, caller: Caller, mark: RequestMark) -> bool:
        if isinstance(request, ByResourceType):
            return self._by_resource_type(request, caller)
        return self._authorize.results(request, caller, mark) == [ALLOWED]

    def _by_resource_type(self, request: ByResourceType, caller: Caller) -> bool:
        # As the route of this name has it: neither audited nor in the decision log, for no resource was asked about.
        authorization = self._authorize.authorization(request.context, caller)
        verdict = authorization.authorize_by_resource_type(request.operation, request.resource_type)
        self._services.metrics.count_verdicts([verdict])
        return verdict.allowed

    def _check_cluster(self, cluster: str | None) -> None:
        """As `start` does: a broker that names its cluster must not be answered from another one's ACLs."""
        known = self._authorizer.image.cluster_id
        if None not in (cluster, known) and cluster != known:
            raise InconsistentClusterIdException(
                f"this service holds the ACLs of cluster `{known}`, not of `{str(cluster)[:100]}`; "
                "check opa.authorizer.url and cluster.id"
            )

    def _note(self, refusal: ApiException) -> None:
        """Say why, as the plugin can't be told: once a second at most, and how many more were not told."""
        now = self._clock()
        if now - self._logged_at < _LOG_EACH_S:
            self._unlogged += 1
            return
        more, self._unlogged, self._logged_at = self._unlogged, 0, now
        _log.warning("opa_refused", extra={"code": refusal.error.value, "why": refusal.message, "others": more})


def _cluster_of(path: str) -> str | None:
    """The cluster that a path names, if any. Raises ResourceNotFoundException for all other paths."""
    below = path.removeprefix(OPA_PATH)
    if below == "":
        return None
    cluster = below[1:]
    if below == path or below[0] != "/" or not cluster or "/" in cluster:
        raise ResourceNotFoundException(f"there is nothing at `{path[:200]}`; the plugin's path is {OPA_PATH}")
    return cluster
