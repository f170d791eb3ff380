"""A client of a service that shares its core with other processes: it asks again after OVERLOADED."""

import logging
import ssl
import time
from collections.abc import Mapping

import httpx

from tests.klamm import LIMIT_S

# A line for each of some thousand requests would drown what a failed test has to say.
logging.getLogger("httpx").setLevel(logging.WARNING)


class AskingAgain(httpx.HTTPTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        deadline = time.monotonic() + LIMIT_S
        while True:
            reply = super().handle_request(request)
            refused = reply.status_code == httpx.codes.TOO_MANY_REQUESTS and b"OVERLOADED" in reply.read()
            if not refused or time.monotonic() > deadline:
                return reply
            reply.close()
            time.sleep(0.02)


def client_of(
    url: str, headers: Mapping[str, str] | None = None, trusted: ssl.SSLContext | None = None
) -> httpx.Client:
    """Of an http or https address, whose certificate is checked with `trusted`, or of `unix:` and a socket's path."""
    socket_path = url.removeprefix("unix:") if url.startswith("unix:") else None
    # The service closes a stranger's idle connection after two seconds, perhaps just when a request goes out on it.
    limits = httpx.Limits(keepalive_expiry=1.0)
    transport = AskingAgain(verify=True if trusted is None else trusted, uds=socket_path, limits=limits)
    return httpx.Client(
        base_url=url if socket_path is None else "http://localhost",
        headers=headers,
        timeout=LIMIT_S,
        transport=transport,
    )
