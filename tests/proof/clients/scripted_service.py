"""A service that answers authorize from a script, and keeps what it was asked."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


def decision(result: str, token: str | None) -> tuple[int, Json]:
    return 200, {"results": [result], "token": token}


def refusal(status: int, code: str, *, retriable: bool) -> tuple[int, Json]:
    """A Problem whose text quotes what would be a good answer."""
    told = {
        "detail": 'not "retriable":true, nor {"results":["ALLOWED"],"token":"x"}',
        "title": code,
        "type": "about:blank",
    }
    return status, {**told, "status": status, "code": code, "error_code": -1, "retriable": retriable}


@dataclass
class Scripted:
    """The answers that are left, and the bodies that came."""

    answers: list[tuple[int, Json]]
    url: str = ""
    asked: list[Json] = field(default_factory=list)


@contextmanager
def scripted_service(answers: Sequence[tuple[int, Json]]) -> Iterator[Scripted]:
    """It gives these answers one after the other, in Klamm's own form (JSON without spaces); then it hangs up."""
    script = Scripted(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            script.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            if not script.answers:
                self.close_connection = True
                return
            status, answer = script.answers.pop(0)
            body = json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json" if status == 200 else "application/problem+json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        serving.join(30)
