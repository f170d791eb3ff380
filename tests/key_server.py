"""A web server that publishes a set of keys, well or badly."""

import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

PATIENCE_S = 30.0


class KeyServer:
    """Answers each GET with `status`, `headers` and `body`, or lets `misbehave` answer; `seen` has their headers.

    Whoever doesn't take `media_type` gets 406, as from kube-apiserver. What it says can be changed at any time. `pause`
    set to an event makes requests wait for it.
    """

    def __init__(self, body: bytes = b"", tls: ssl.SSLContext | None = None) -> None:
        self.body = body
        self.status = 200
        self.media_type = "application/jwk-set+json"
        self.headers: Mapping[str, str] = {}
        self.misbehave: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.pause: threading.Event | None = None
        self.seen: list[Mapping[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._answer(self)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """Clients that hang up are what some tests are about."""

        self._server = Server(("127.0.0.1", 0), Handler)
        scheme = "http"
        if tls is not None:
            scheme = "https"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        self.seen.append({name.lower(): value for name, value in request.headers.items()})
        if self.pause is not None:
            self.pause.wait(PATIENCE_S)
        if self.misbehave is not None:
            self.misbehave(request)
            return
        accepted = [each.partition(";")[0].strip() for each in request.headers.get("accept", "*/*").split(",")]
        if self.media_type not in accepted and "*/*" not in accepted:
            request.send_error(406)
            return
        request.send_response(self.status)
        request.send_header("content-type", self.media_type)
        for name, value in self.headers.items():
            request.send_header(name, value)
        request.send_header("content-length", str(len(self.body)))
        request.end_headers()
        request.wfile.write(self.body)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.pause is not None:
            self.pause.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)
