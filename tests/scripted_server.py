"""A real HTTP server that answers by a script: one step a request, so that clients meet every kind of trouble."""

import json
import socketserver
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

PATIENCE_S = 30.0


@dataclass(frozen=True)
class Answer:
    """What a request is answered with."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"


Step = Answer | Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    connection: object


def problem(status: int, code: str, detail: str, *, retriable: bool = False, **more: object) -> Answer:
    """A refusal as Klamm writes it."""
    body = {"type": f"urn:klamm:error:{code}", "title": code, "status": status, "detail": detail, "code": code}
    headers = {"retry-after": "0"} if status in (429, 503) else {}
    text = json.dumps({**body, "error_code": -1, "retriable": retriable, **more})
    return Answer(status, text.encode(), headers, "application/problem+json")


def reply(**fields: object) -> Answer:
    """A JSON object."""
    return Answer(body=json.dumps(fields).encode())


def send_answer(request: BaseHTTPRequestHandler, answer: Answer) -> None:
    request.send_response(answer.status)
    for name, value in {"content-type": answer.media_type, **answer.headers}.items():
        request.send_header(name, value)
    request.send_header("content-length", str(len(answer.body)))
    request.end_headers()
    request.wfile.write(answer.body)


def hang_up(request: BaseHTTPRequestHandler) -> None:
    """Break the connection off without an answer."""
    request.close_connection = True
    request.connection.close()


class ScriptedServer:
    """Takes one step of the script a request, and its last one for all that follow; `seen` has the requests."""

    def __init__(self, *script: Step, tls: ssl.SSLContext | None = None, uds: Path | None = None) -> None:
        self.script = list(script)
        self.seen: list[Seen] = []
        self.release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._answer(self)

            def do_POST(self) -> None:
                outer._answer(self)

            def log_message(self, *_: object) -> None:
                pass

            def address_string(self) -> str:
                return "client"

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """Connections that break off are what some tests are about."""

        class UnixServer(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """As above."""

        self._server: socketserver.BaseServer
        if uds is not None:
            self._server = UnixServer(str(uds), Handler)
            self.url = f"unix:{uds}"
        else:
            server = Server(("127.0.0.1", 0), Handler)
            if tls is not None:
                server.socket = tls.wrap_socket(server.socket, server_side=True)
            self._server = server
            self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("content-length") or 0)
        raw = request.rfile.read(length)
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = json.loads(raw) if raw else None
        self.seen.append(Seen(request.command, request.path, headers, body, request.client_address))
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Answer):
            send_answer(request, step)
        else:
            step(request)

    def wait(self, request: BaseHTTPRequestHandler) -> None:
        """A step: no answer before the end of the test, and then none."""
        self.release.wait(PATIENCE_S)
        hang_up(request)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)
