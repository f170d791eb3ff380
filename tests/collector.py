"""A collector of traces: takes OTLP over HTTP in protobuf, and keeps the spans."""

import gzip
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

PATIENCE_S = 30.0


@dataclass(frozen=True)
class KeptSpan:
    """One span as it came, ids in hexadecimal."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    trace_state: str
    kind: int
    status: int
    attributes: Mapping[str, object]
    resource: Mapping[str, object]


class Collector:
    """Listens on a free port of the loopback; while `answering` is clear it takes requests and answers none."""

    def __init__(self) -> None:
        self.answering = threading.Event()
        self.answering.set()
        self.bodies: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        self._news = threading.Condition()
        self._spans: list[KeptSpan] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.answering.wait(PATIENCE_S)
                is_for_traces = self.path == "/v1/traces"
                if is_for_traces:
                    collector._take(body, {name.lower(): value for name, value in self.headers.items()})
                self.send_response(200 if is_for_traces else 404)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.answering.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)

    def spans(self, count: int) -> list[KeptSpan]:
        """Wait for so many spans; all there are come back in the order in which they came."""
        with self._news:
            assert self._news.wait_for(lambda: len(self._spans) >= count, PATIENCE_S), self._spans
            return [*self._spans]

    def _take(self, body: bytes, headers: Mapping[str, str]) -> None:
        plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        request = ExportTraceServiceRequest.FromString(plain)
        with self._news:
            self.bodies.append(plain)
            self.headers.append(headers)
            for group in request.resource_spans:
                resource = {each.key: _value(each) for each in group.resource.attributes}
                self._spans += [
                    KeptSpan(
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.trace_state,
                        span.kind,
                        span.status.code,
                        {each.key: _value(each) for each in span.attributes},
                        resource,
                    )
                    for scope in group.scope_spans
                    for span in scope.spans
                ]
            self._news.notify_all()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """An exporter that has hung up meanwhile is no fault here."""


def _value(attribute: KeyValue) -> object:
    kind = attribute.value.WhichOneof("value")
    return None if kind is None else getattr(attribute.value, kind)
