"""A span for every request except probes, exported by OTLP over HTTP (setting otel.enabled, extra `otel`).

OpenTelemetry's own OTEL_... variables say where the spans go, how many are kept and what else they carry. The packages
are imported only when tracing is on.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from app.formats.command_errors import UsageError
from app.logs.lines import OncePerMinute
from app.logs.redaction import conceal
from app.logs.service import REQUEST_MARK

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

SHUTDOWN_TIMEOUT_S = 2.0

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})
_HEADERS_VARIABLES = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
_ATTRIBUTES_VARIABLE = "OTEL_RESOURCE_ATTRIBUTES"
_LOUD = ("opentelemetry.sdk._shared_internal", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
_FIRST_SERVER_ERROR = 500
# Machines ask these every few seconds, which would bury the traces of callers.
_UNTRACED = frozenset({"/livez", "/readyz", "/startupz", "/metrics"})
_UNTRACED_BELOW = "/readyz/"

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def check_tracing() -> None:
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: PLC0415 - not even loaded while tracing is off
        import opentelemetry.sdk.trace.export  # noqa: F401, PLC0415 - the same
    except ImportError as missing:
        raise UsageError(
            f"otel.enabled (KLAMM_OTEL_ENABLED) needs packages that are not installed ({missing.name}): "
            "in a clone `make setup` installs them, as does .venv/bin/pip install -e '.[otel]'"
        ) from None


class Tracing:
    """Makes spans and exports them, from its construction to `close`. Raises UsageError without the extra.

    A bounded queue (OTEL_BSP_MAX_QUEUE_SIZE) feeds the thread that exports: a collector that is gone costs spans only.
    """

    def __init__(self, version: str) -> None:
        check_tracing()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - see above
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - see above
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - see above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - see above

        _conceal_credentials()
        for name in _LOUD:
            logging.getLogger(name).addFilter(_SELDOM)
        attributes = {"service.version": version}
        if "OTEL_SERVICE_NAME" not in os.environ and "service.name=" not in os.environ.get(_ATTRIBUTES_VARIABLE, ""):
            attributes["service.name"] = "klamm"
        self._provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        try:
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        except ValueError as wrong:
            raise UsageError(f"an OTEL_... variable is not valid: {wrong}") from None
        self.tracer = self._provider.get_tracer("klamm", version)

    async def close(self) -> None:
        """Exports what waits, for at most two seconds."""
        # Not a pool's thread: the interpreter would wait for it when it ends.
        closing = threading.Thread(target=self._provider.shutdown, name="klamm-otel-close", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, SHUTDOWN_TIMEOUT_S)


class TracedRequests:
    """Makes a server span around each request except probes. No span shows a principal, a header or a body."""

    def __init__(self, app: Application, tracing: Tracing) -> None:
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 - not even loaded while tracing is off

        self._app = app
        self._start_span = tracing.tracer.start_span
        self._kind = SpanKind.SERVER

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNTRACED or scope["path"].startswith(_UNTRACED_BELOW):
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        span = self._start_span(
            method, context=_parent(scope), kind=self._kind, attributes={"http.request.method": method}
        )
        _join_trace(span)
        status = _FIRST_SERVER_ERROR

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, observed_send)
        finally:
            self._finish(span, scope, method, status)

    def _finish(self, span: "Span", scope: Scope, method: str, status: int) -> None:
        from opentelemetry.trace import StatusCode  # noqa: PLC0415 - see above

        found = scope.get("route")
        operation, route = getattr(found, "name", None), getattr(found, "path_format", None)
        if route is not None:
            span.update_name(operation or f"{method} {route}")
            span.set_attribute("http.route", route)
        if operation is not None:
            span.set_attribute("klamm.operation", operation)
        mark = REQUEST_MARK.get()
        if mark is not None and mark.caller is not None:
            span.set_attribute("klamm.caller", mark.caller)
        span.set_attribute("http.response.status_code", status)
        if status >= _FIRST_SERVER_ERROR:
            span.set_attribute("error.type", str(status))
            span.set_status(StatusCode.ERROR)
        span.end()


class _Seldom(logging.Filter):
    """Lets each of a library's lines through once a minute, not once a span while the collector is gone."""

    def __init__(self) -> None:
        super().__init__()
        self._due: dict[str, OncePerMinute] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        # The library's templates are the keys, so they are few.
        return self._due.setdefault(str(record.msg), OncePerMinute()).is_due(time.monotonic())


_SELDOM = _Seldom()


def _parent(scope: Scope) -> "Context":
    """The context that traceparent and tracestate name; empty without a valid traceparent."""
    from opentelemetry.context import Context  # noqa: PLC0415 - see above
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - see above

    mark = REQUEST_MARK.get()
    if mark is None or mark.traceparent is None:
        return Context()
    states = [value.decode("latin-1") for name, value in scope["headers"] if name == b"tracestate"]
    carrier = {"traceparent": mark.traceparent, "tracestate": ",".join(states)}
    return TraceContextTextMapPropagator().extract(carrier, Context())


def _join_trace(span: "Span") -> None:
    """Makes a request without a trace join the one that begins here."""
    mark, context = REQUEST_MARK.get(), span.get_span_context()
    if mark is not None and mark.traceparent is None and context.is_valid:
        mark.traceparent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}"


def _conceal_credentials() -> None:
    for variable in _HEADERS_VARIABLES:
        for pair in os.environ.get(variable, "").split(","):
            value = pair.partition("=")[2].strip()
            if len(value) >= len("Bearer x"):
                conceal(value)
                conceal(value.rpartition(" ")[2].rpartition("%20")[2])
