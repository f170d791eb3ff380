"""Questions about the past that are handed on: no reply is handed back unread."""

import inspect
from typing import Any

import pytest

from app.core.kafka.errors import StoreUnavailableException
from app.rest.bodies.access import WHAT_CAN_EXAMPLE, WHO_CAN_EXAMPLE
from app.rest.bodies.acls import ACLS_EXAMPLE
from app.rest.bodies.decisions import AUTHORIZED_OPERATIONS_EXAMPLE
from app.rest.bodies.examples import Example
from app.rest.bodies.explain import EXPLAIN_EXAMPLE
from app.rest.bodies.history import HISTORY_EXAMPLE
from app.rest.routes import access, acls, decisions, explain, history
from app.upstream.past import UpstreamPast
from app.upstream.past_replies import DECODERS
from tests.fake_upstream import EPOCH, followed_by
from tests.scripted_server import Answer, ScriptedServer, reply

EXAMPLES: dict[str, Example] = {
    "/v1/history": HISTORY_EXAMPLE,
    "/v1/acls/search": ACLS_EXAMPLE,
    "/v1/explain": EXPLAIN_EXAMPLE,
    "/v1/who-can": WHO_CAN_EXAMPLE,
    "/v1/what-can": WHAT_CAN_EXAMPLE,
    "/v1/authorized-operations": AUTHORIZED_OPERATIONS_EXAMPLE,
}
TOKEN = f"{EPOCH}:1"


def test_every_route_that_takes_a_past_moment_has_its_replies_checked() -> None:
    routes = [route for module in (access, acls, decisions, explain, history) for route in module.routes]
    takes_it = {route.path for route in routes if "past" in inspect.signature(route.endpoint).parameters}
    assert takes_it == set(DECODERS) == set(EXAMPLES)


def _fields(example: object) -> dict[str, Any]:
    assert isinstance(example, dict)
    return example


async def test_a_reply_of_the_route_is_handed_back_as_it_is(subtests: pytest.Subtests) -> None:
    for path in list(EXAMPLES):
        with subtests.test(path=path), ScriptedServer() as server:
            async with followed_by(server) as (connection, _):
                body = reply(**_fields(EXAMPLES[path].reply), of_a_later_version=1)
                server.script[:] = [body]
                assert await UpstreamPast(connection).ask(path, b"{}") == body.body


async def test_anything_else_is_a_store_that_is_away(subtests: pytest.Subtests) -> None:
    for path, answer in [
        *((path, Answer(200, b"<html>welcome", media_type="text/html")) for path in EXAMPLES),
        *((path, reply(token=TOKEN)) for path in EXAMPLES),
        ("/v1/history", Answer(200, b"not json")),
        ("/v1/history", Answer(200, b"")),
        ("/v1/history", Answer(200, b"\xff\xfe{}")),
        ("/v1/history", Answer(200, b"[" * 100_000)),
        ("/v1/acls/search", reply(acls=[], next_cursor=None, token="<script>")),
        ("/v1/acls/search", reply(acls=["x"], next_cursor=None, token=TOKEN)),
        ("/v1/acls/search", reply(acls={}, next_cursor=None, token=TOKEN)),
        ("/v1/explain", reply(results=[{"result": "ALLOWED"}], token=TOKEN)),
    ]:
        with subtests.test(path=path, answer=answer), ScriptedServer() as server:
            async with followed_by(server) as (connection, _):
                server.script[:] = [answer]
                with pytest.raises(StoreUnavailableException, match="not as Klamm does; the log says how"):
                    await UpstreamPast(connection).ask(path, b"{}")
