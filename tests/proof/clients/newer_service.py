"""A service from the future: every answer has words and fields that no client of today knows."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "0193b0e4-0000-7000-8000-000000000000:7"
_ACL = {
    "id": "0193b0e4-0000-7000-8000-000000000001",
    "resource_type": "SHARE_GROUP",
    "resource_name": "orders",
    "pattern_type": "SUFFIXED",
    "principal": "User:alice",
    "host": "*",
    "operation": "REWIND",
    "permission_type": "MAYBE",
    "expires_at": None,
    "owner": None,
}
_TOLD = {
    "resource_type": "SHARE_GROUP",
    "resource_name": "orders",
    "error_code": 0,
    "code": "NONE",
    "authorized_operations": 1 << 30 | 1 << 3,
    "operations": ["READ", "REWIND"],
}
_PROBLEM = {
    "type": "about:blank",
    "title": "Moon Too Full",
    "status": 503,
    "detail": "wait for the new moon",
    "code": "MOON_TOO_FULL",
    "error_code": 9999,
    "retriable": True,
    "errors": [{"pointer": "/moon", "detail": "full"}],
}
_EXPLANATION = {
    "result": "DEFERRED",
    "rule": "Oracle",
    "acl": None,
    "matching_acls": [],
    "matching_acl_count": 0,
    "near_misses": [{"acl": _ACL, "missed": ["moon"], "detail": "it is full"}],
    "smallest_acl": None,
    "denying_acls": [_ACL],
    "denying_acl_count": 1,
    "acl_needed_besides": None,
    "note": None,
}
ANSWERS: dict[str, tuple[int, dict[str, Any]]] = {
    "/v1/authorize": (200, {"results": ["ALLOWED", "DEFERRED"], "token": TOKEN}),
    "/v1/authorize-by-resource-type": (200, {"result": "DEFERRED", "token": TOKEN}),
    "/v1/authorized-operations": (200, {"results": [_TOLD], "token": TOKEN}),
    "/v1/explain": (200, {"results": [_EXPLANATION], "token": TOKEN}),
    "/v1/acls/search": (200, {"acls": [_ACL], "next_cursor": None, "token": TOKEN}),
    "/v1/acls": (503, _PROBLEM),
}
UNDERSTOOD = """\
allowed: true false
allowed anywhere: false
operations: 1073741832 READ REWIND
explained: Oracle moon REWIND true
acl: SHARE_GROUP SUFFIXED REWIND MAYBE
problem: MOON_TOO_FULL true
"""
"""What a client must make of these answers."""


def _grown(node: Any) -> Any:  # noqa: ANN401 - any part of a JSON document
    """The same with a field more in every object."""
    if isinstance(node, list):
        return [_grown(each) for each in node]
    if isinstance(node, dict):
        return {**{key: _grown(value) for key, value in node.items()}, "since_kafka_6": {"deep": [1, None, "x"]}}
    return node


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status, answer = ANSWERS[self.path]
        body = json.dumps(_grown(answer)).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json" if status == 200 else "application/problem+json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives it
        pass


@contextmanager
def newer_service() -> Iterator[str]:
    """Its address, for as long as the block lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        serving.join(30)
