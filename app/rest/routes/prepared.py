"""What unauthenticated clients ask most, answered without a task: 401, 404, 410, and that the process lives.

The replies are the application's own, made once by the same functions and kept as bytes.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from time import perf_counter
from typing import NamedTuple

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.core.kafka.errors import SaslAuthenticationException
from app.logs.service import REQUEST_MARK
from app.rest.errors import not_found, response_to
from app.rest.http.correlation import mark_of_headers, reply_headers
from app.rest.http.edge import Route
from app.rest.http.heads import WholeHead
from app.rest.http.services import Services
from app.rest.http.unauthenticated import PreparedReply
from app.rest.routes import health

_is_plain_path = re.compile(rb"(?:/[A-Za-z0-9_.-]+)+/?|/", re.ASCII).fullmatch
"""Whether a target is a path that can be read in one way only."""
_MAX_PATH = 256
_MAX_REMEMBERED = 1_024


class _Bytes(NamedTuple):
    operation: str
    status: int
    head: bytes
    body: bytes


class PreparedReplies:
    """Called by the server's protocol for clients that are not known (`http.unauthenticated.Prepared`)."""

    def __init__(self, services: Services, routes: Sequence[Route], others: Iterable[Route]) -> None:
        """`routes` are those of the REST API; `others` are only known not to be missing."""
        self._services = services
        self._every = (*routes, *others)
        self._by_name = {
            (method.encode(), route.path): route
            for route in routes
            if type(route) is Route and not route.param_convertors
            for method in route.methods
        }
        self._missing = lru_cache(_MAX_REMEMBERED)(self._new_missing)
        self._refusal = lru_cache(_MAX_REMEMBERED)(_bytes_of_refusal)
        self._alive = _bytes_of("livez", health.ALIVE)

    def is_known(self, head: WholeHead, names: tuple[str, ...]) -> bool:
        return self._services.callers.is_remembered(dict(head.headers), names)

    def reply(self, head: WholeHead, names: tuple[str, ...]) -> PreparedReply | None:
        began = perf_counter()
        # To HEAD the application answers without a body.
        if len(head.target) > _MAX_PATH or head.method == b"HEAD" or not _is_plain_path(head.target):
            return None
        mark = mark_of_headers(head.headers)
        before = REQUEST_MARK.set(mark)
        try:
            found = self._found(head, names)
        finally:
            REQUEST_MARK.reset(before)
        if found is None:
            return None
        self._services.metrics.count_request(found.operation, found.status, perf_counter() - began)
        return PreparedReply(STATUS_LINE[found.status], b"%b%b\r\n%b" % (found.head, reply_headers(mark), found.body))

    def _found(self, head: WholeHead, names: tuple[str, ...]) -> _Bytes | None:
        path = head.target.decode("ascii")
        route = self._by_name.get((head.method, path))
        if route is None:
            return self._missing(path)
        if route.needs_caller:
            refusal = self._services.callers.refused_at_once(dict(head.headers), names)
            return None if refusal is None else self._refusal(route.name, refusal.message)
        return self._alive if route.endpoint is health.livez else None

    def _new_missing(self, path: str) -> _Bytes | None:
        """None if a route has this path."""
        if any(route.path_regex.match(path) for route in self._every):
            return None
        return _bytes_of("other", response_to(not_found(path)))


def _bytes_of_refusal(operation: str, message: str) -> _Bytes:
    return _bytes_of(operation, response_to(SaslAuthenticationException(message)))


def _bytes_of(operation: str, response: Response) -> _Bytes:
    head = b"".join(b"%b: %b\r\n" % each for each in response.raw_headers)
    return _Bytes(operation, response.status_code, head, bytes(response.body))
