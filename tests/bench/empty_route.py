"""The yardstick over HTTP, `python -m tests.bench.empty_route PORT`: a route that does nothing, on uvicorn alone."""

import sys

import uvicorn
from starlette.types import Receive, Scope, Send

_ANSWER = b'{"results":["ALLOWED"],"token":"00000000-0000-0000-0000-000000000001:0"}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))]


async def empty(_scope: Scope, receive: Receive, send: Send) -> None:
    """The least that an ASGI route can do with a body: read it, answer."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _ANSWER})


def main() -> None:
    """Serve until SIGTERM."""
    uvicorn.run(
        empty,
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
    )


if __name__ == "__main__":
    main()
