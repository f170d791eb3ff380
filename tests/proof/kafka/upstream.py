"""An upstream of the broker's authorizer that says what a test has written for it."""

import json
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fake_upstream import stream
from tests.scripted_server import Answer, ScriptedServer, Step, problem


def server_of(choose: Callable[[str], Step]) -> ScriptedServer:
    """A server whose answer depends on the path."""
    return ScriptedServer(lambda request: _run(choose(request.path), request))


def upstream(*, snapshot: Step, after: Step) -> ScriptedServer:
    """A server with one answer for snapshots and one for changes."""
    return server_of(lambda path: snapshot if "snapshot=true" in path else after)


def _run(step: Step, request: BaseHTTPRequestHandler) -> None:
    if not isinstance(step, Answer):
        step(request)
        return
    request.send_response(step.status)
    request.send_header("content-type", step.media_type)
    request.send_header("content-length", str(len(step.body)))
    request.end_headers()
    request.wfile.write(step.body)


def one_after_the_other(*steps: Step) -> Step:
    """One of these for each request, and the last one for all that follow."""
    left = list(steps)

    def answer(request: BaseHTTPRequestHandler) -> None:
        _run(left.pop(0) if len(left) > 1 else left[0], request)

    return answer


def unavailable() -> Step:
    return problem(503, "STORE_UNAVAILABLE", "not now")


def repeating(first: Sequence[bytes], again: Callable[[], bytes | None], every_s: float = 0.2) -> Step:
    """A stream of these lines, and of one more again and again."""

    def send(request: BaseHTTPRequestHandler) -> None:
        def go_on() -> None:
            while True:
                time.sleep(every_s)
                line = again()
                if line is not None:
                    request.wfile.write(line + b"\n")

        _run(stream(first, then=go_on), request)

    return send


def changed(line: bytes, **fields: object) -> bytes:
    """An event with other fields."""
    event: dict[str, Any] = json.loads(line)
    return json.dumps({**event, **fields}).encode()


def changed_record(line: bytes, **fields: object) -> bytes:
    """A transaction whose first record has other fields."""
    event: dict[str, Any] = json.loads(line)
    event["records"][0] |= fields
    return json.dumps(event).encode()
