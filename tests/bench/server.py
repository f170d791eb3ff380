"""The process under measurement: `python tests/bench/server.py APP SIZE`, serving as `klamm serve` does.

APP is `empty` (an ASGI route that answers at once: the yardstick) or `klamm` (a whole replica, its ACLs from a
workload instead of PostgreSQL). Prints its port once it is ready.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from starlette.types import ASGIApp, Receive, Scope, Send

from app.core.bindings import AclRow
from app.core.configs import AuthorizerConfig
from app.core.errors import StoreUnavailableException
from app.core.mutations import GroupOutcome, Mutation
from app.core.records import GENESIS_HASH, FeedHead, FeedPoll
from app.main import listening, serve
from app.ops.audit import AuditLog
from app.ops.metrics import Metrics
from app.rest.app import create_rest_app
from app.rest.protocol import Answer
from app.runtime.authorizer import Authorizer
from tests.bench.workload import realistic, rows_in_slices

_HEAD = FeedHead("bench", UUID(int=1), 0, GENESIS_HASH, 1)
_LOAD_TIMEOUT_S = 300
_ANSWER = b'{"results":["ALLOWED"],"token":"00000000-0000-0000-0000-000000000001:0"}'


class StillFeed:
    """A store in which nothing happens."""

    def __init__(self, rows: list[AclRow]) -> None:
        self.head = _HEAD
        self.configs: Mapping[str, str] = {}
        self._rows = rows

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator["StillFeed"]:
        yield self
        self._rows = []

    async def slices(self) -> AsyncIterator[Sequence[AclRow]]:
        for rows in rows_in_slices(self._rows):
            yield rows

    async def poll(self, _applied_offset: int, _limit: int) -> FeedPoll:
        return FeedPoll(_HEAD, GENESIS_HASH, ())

    async def wait(self, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)

    async def write(self, _mutations: Sequence[Mutation]) -> GroupOutcome:
        raise StoreUnavailableException("the bench does not write")

    async def renounce(self, _epoch: UUID, _offset: int, _known_hash: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


async def empty(scope: Scope, receive: Receive, send: Send) -> None:
    """The least that an ASGI route can do with a body."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": message["type"] + ".complete"})
        return
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _ANSWER})


def klamm(size: int) -> tuple[ASGIApp, Answer]:
    """A replica with so many ACLs, with audit at its default level and metrics on."""
    feed = StillFeed(realistic(size).rows)
    metrics = Metrics()
    audit_file = Path("/dev/null").open("w", encoding="utf-8")  # noqa: SIM115 - open as long as the process
    audit = AuditLog(audit_file.write, metrics)
    authorizer = Authorizer(feed, feed, AuthorizerConfig())
    rest = create_rest_app(authorizer, metrics, audit)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await rest(scope, receive, send)
            return
        await receive()
        audit.start()
        authorizer.open()
        await authorizer.readiness.wait_until_ready(["BENCH"], _LOAD_TIMEOUT_S)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await authorizer.close()
        await asyncio.to_thread(audit.close)
        await send({"type": "lifespan.shutdown.complete"})

    return app, rest.answer


def main() -> None:
    """Serve until SIGTERM."""
    app, answer = (empty, None) if sys.argv[1] == "empty" else klamm(int(sys.argv[2]))
    with listening("127.0.0.1", 0) as listener:

        async def announce() -> None:
            sys.stdout.write(f"{listener.getsockname()[1]}\n")
            sys.stdout.flush()

        serve(app, listener, answer=answer, once_started=announce)


if __name__ == "__main__":
    main()
