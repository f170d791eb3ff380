"""What unauthenticated clients are answered without a task is what the application answers, to the letter."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from app.rest.callers.token_file import add_token
from app.rest.http.connections import Connections
from app.rest.http.protocol import KlammProtocol
from app.rest.http.unauthenticated import NothingPrepared, Prepared
from tests.callers import CALLERS
from tests.klamm import InProcess, in_process, until
from tests.wires import Wire, statuses

WRONG = "Authorization: Bearer klamm_wrong"
TRACE = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PREPARED = (
    ("GET /livez", ()),
    ("GET /nothing", ()),
    ("GET /nothing", (WRONG, TRACE)),
    ("DELETE /v1/nothing/at/all/", ()),
    ("GET /v2", ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMA")),
    ("POST /v1/data/kafka/authz/allow", ()),
    ("GET /v1/data/kafka/authz/allow/cluster", (WRONG,)),
    ("POST /v1/authorize", ()),
    ("POST /v1/authorize", (WRONG,)),
    ("POST /v1/authorize", ("Authorization: Basic eDp5",)),
    ("POST /v1/authorize", (f"Authorization: Bearer {'x' * 1_500}",)),
    ("POST /v1/acls", (WRONG, TRACE)),
    ("GET /v1/configs", (WRONG,)),
    ("GET /metrics", ()),
)
LEFT_TO_THE_APPLICATION = (
    ("HEAD /livez", ()),
    ("GET /livez?verbose", ()),
    ("POST /livez", ()),
    ("GET /livez/", ("Connection: close",)),
    ("GET /readyz", ()),
    ("GET /readyz/CLIENT", ()),
    ("GET //nothing", ()),
    ("GET /%6eothing", ()),
    ("GET /nothing?x", ()),
    ("GET /nothing#x", ()),
    ("OPTIONS *", ()),
    ("HEAD /nothing", ()),
    ("PUT /v1/authorize", ()),
    ("POST /v1/authorize?x", (WRONG,)),
    ("GET /v1/acls/00000000-0000-4000-8000-000000000000", ()),
    ("GET /nothing", ("Expect: 100-continue",)),
)


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[InProcess]:
    """A replica that knows callers."""
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as replica:
        yield replica


def connect(it: InProcess, prepared: Prepared) -> tuple[KlammProtocol, Wire]:
    config = Config(it.app, http="httptools", ws="none", log_config=None, access_log=False)
    config.load()
    state, wire = ServerState(), Wire()
    state.default_headers = [(b"date", b"now")]
    loop = asyncio.get_running_loop()
    connection = KlammProtocol(
        config, state, {}, loop, answer=it.app.answer, prepared=prepared, shared=Connections(it.metrics)
    )
    connection.connection_made(wire)
    return connection, wire


def message(line: str, headers: tuple[str, ...], body: bytes = b"{}") -> bytes:
    sized = () if line.startswith(("GET", "HEAD")) else (f"Content-Length: {len(body)}",)
    lines = (f"{line} HTTP/1.1", "Host: k", "X-Request-Id: one", *sized, *headers, "", "")
    return "\r\n".join(lines).encode() + (body if sized else b"")


def counted(it: InProcess) -> dict[str, list[int]]:
    """Requests by operation and class of status."""
    return {name: list(counts) for name, counts in it.metrics.http_requests.items()}


async def finished(connection: KlammProtocol, wire: Wire) -> None:
    """Wait for the first reply."""
    await until(lambda: bool(statuses(wire)) and not connection.has_work(), "a reply")


async def replied(it: InProcess, prepared: Prepared, sent: bytes) -> tuple[bytes, dict[str, list[int]], float]:
    """What comes back for these bytes, what was counted, and when the connection would be closed."""
    before = counted(it)
    connection, wire = connect(it, prepared)
    connection.data_received(sent)
    await finished(connection, wire)
    kept_s = connection.timeout_keep_alive
    after = counted(it)
    connection.connection_lost(None)
    changed = {
        name: [now - then for now, then in zip(counts, before[name], strict=True)]
        for name, counts in after.items()
        if counts != before[name]
    }
    return wire.written, changed, kept_s


@pytest.mark.parametrize(("line", "headers"), [*PREPARED, *LEFT_TO_THE_APPLICATION])
async def test_the_reply_is_the_application_s(it: InProcess, line: str, headers: tuple[str, ...]) -> None:
    sent = message(line, headers)
    # A refusal of a token is remembered from the first time on.
    expected = await replied(it, NothingPrepared(), sent)
    refused = dict(it.metrics.callers_refused)
    assert await replied(it, it.app.prepared, sent) == expected
    again = it.metrics.callers_refused
    assert [again[reason] - count for reason, count in refused.items()] == list(refused.values())


@pytest.mark.parametrize(("line", "headers"), PREPARED)
async def test_it_comes_without_a_task(it: InProcess, line: str, headers: tuple[str, ...]) -> None:
    sent = message(line, headers)
    await replied(it, NothingPrepared(), sent)
    connection, wire = connect(it, it.app.prepared)
    for count in range(1, 4):
        connection.data_received(sent)
        assert len(statuses(wire)) == count
        assert connection.cycle is None


async def test_requests_in_pieces_are_answered_alike(it: InProcess) -> None:
    sent = message("POST /v1/acls", (WRONG,), b"{}" * 50)
    expected, *_ = await replied(it, NothingPrepared(), sent)
    for cut in (1, 30, sent.index(b"{") - 1, sent.index(b"{"), len(sent) - 1):
        connection, wire = connect(it, it.app.prepared)
        connection.data_received(sent[:cut])
        assert statuses(wire) == []
        connection.data_received(sent[cut:])
        await finished(connection, wire)
        assert wire.written == expected
    connection, wire = connect(it, it.app.prepared)
    connection.data_received(sent * 3)
    await until(lambda: statuses(wire) == [401] * 3, "three replies")


async def test_a_token_that_was_refused_and_is_added_then_is_valid(it: InProcess, tmp_path: Path) -> None:
    tokens_file = tmp_path / "klamm.tokens"
    token = add_token(tokens_file, "anyone", CALLERS)
    kept = tokens_file.read_text()
    tokens_file.write_text(kept.rpartition("anyone")[0])
    await it.callers._credentials.tokens.look()  # type: ignore[union-attr]
    connection, wire = connect(it, it.app.prepared)
    sent = message("GET /v1/acls/count", (f"Authorization: Bearer {token}",))

    async def status() -> int:
        count = len(statuses(wire))
        connection.data_received(sent)
        await until(lambda: len(statuses(wire)) > count and not connection.has_work(), "a reply")
        return statuses(wire)[-1]

    assert [await status() for _ in range(3)] == [401] * 3
    tokens_file.write_text(kept)
    await it.callers._credentials.tokens.look()  # type: ignore[union-attr]
    it.callers._forget_if_changed(it.callers._credentials)  # type: ignore[arg-type]
    assert await status() == 403


async def test_nobody_can_have_a_caller_forgotten(it: InProcess) -> None:
    good = f"Authorization: Bearer {it.tokens['anyone']}"
    assert (await it.client.get("/v1/acls/count", headers=dict([good.split(": ")]))).status_code == 403
    for number in range(5_000):
        it.callers._refused[b"%d" % number] = ("token_unknown", 0.0)
    assert it.callers.is_remembered({b"authorization": good.partition(": ")[2].encode()}, ())


async def test_without_callers_configured_nothing_is_refused_or_known(it: InProcess) -> None:
    it.callers._credentials = None
    assert not it.callers.is_remembered({}, ())
    assert it.callers.refused_at_once({}, ()) is None
