"""An upstream of a later version: what a follower can't read it passes by a snapshot, counts, and says."""

import json
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import PoisonedRecordException, UnknownRecordException
from app.runtime.authorizer import Authorizer
from app.runtime.options import RuntimeOptions
from app.upstream import change_feed
from app.upstream.acl_store import UpstreamAclStore
from app.upstream.connection import Connection
from tests.fake_upstream import QUICK, Told, following, open_stream, stream
from tests.gate.contract.followed import options_of
from tests.gate.unit.upstream.test_change_feed import loaded, polled
from tests.klamm import until
from tests.scripted_server import ScriptedServer, Step


def later(line: bytes, **changes: object) -> bytes:
    """A transaction's line as a later version may write it; its ACL may have a field that this one does not know."""
    event: dict[str, Any] = json.loads(line)
    event["records"][0].update(changes)
    return json.dumps(event, separators=(",", ":")).encode()


def with_word(line: bytes) -> bytes:
    return line.replace(b'"READ"', b'"TELEPORT"')


@pytest.mark.parametrize(
    "harm",
    [
        lambda line: later(line, hash_version=3, reason="new"),
        lambda line: later(line, kind="PartitionRecord"),
        with_word,
    ],
    ids=["hash version", "kind", "word"],
)
async def test_a_follower_passes_a_record_of_a_later_version_by_a_snapshot(harm: Any) -> None:  # noqa: ANN401 - a lambda
    told = Told()
    first = [*told.snapshot(), told.bookmark()]
    unread = harm(told.transaction(2))
    second = [*told.snapshot(), told.bookmark()]
    third = told.transaction(3)
    snapshots = 0

    def answer(request: BaseHTTPRequestHandler) -> None:
        nonlocal snapshots
        if "snapshot=true" not in request.path:
            step: Step = stream([unread])
        else:
            snapshots += 1
            step = open_stream(server, [*first, unread] if snapshots == 1 else [*second, third, told.bookmark()])
        assert callable(step)
        step(request)

    with ScriptedServer() as server:
        server.script = [answer]
        connection = Connection(replace(options_of(server.url), clock=QUICK))
        feed = change_feed.UpstreamChangeFeed(connection)
        authorizer = Authorizer(UpstreamAclStore(connection, feed), feed, AuthorizerConfig(), RuntimeOptions())
        authorizer.open()
        try:
            await until(lambda: authorizer.image.offset >= len(told.records))
            metrics = authorizer.metrics
            assert metrics.records_unknown == metrics.records_poisoned >= 1
            assert snapshots >= 2
            assert authorizer.image.acl_count == 3
        finally:
            server.release.set()
            await authorizer.close()


async def test_a_snapshot_with_what_a_later_version_has_written_is_told_apart_from_damage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = Told()
    snapshot = told.snapshot()
    with ScriptedServer(stream([snapshot[0], with_word(snapshot[1]), *snapshot[2:]])) as server:
        async with following(server.url) as feed:
            with pytest.raises(UnknownRecordException, match="what a later version has written"):
                await loaded(feed)
    assert any("TELEPORT" in getattr(each, "detail", "") for each in caplog.records)


@pytest.mark.parametrize(
    ("true", "false"),
    [
        (b'"User:alice"', b'"alice"'),
        (b'"orders"', b'""'),
        (b'"orders"', rb'"a\u0000b"'),
        (b'"*"', b'""'),
        (b'"*"', b'"10.0.0.0/99"'),
    ],
)
async def test_what_no_acl_can_be_is_refused_also_where_no_digest_is_sent(
    true: bytes, false: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    digest = json.loads(told.snapshot()[0])["digest"]
    lines = [line.replace(b'"%b"' % digest.encode(), b"null").replace(true, false) for line in told.snapshot()]
    assert false in lines[1]
    with ScriptedServer(stream(lines)) as server:
        async with following(server.url) as feed:
            with pytest.raises(PoisonedRecordException) as poison:
                await loaded(feed)
    assert any("no store holds" in getattr(each, "detail", "") for each in caplog.records)
    assert not isinstance(poison.value, UnknownRecordException)


async def test_a_snapshot_without_a_digest_is_taken() -> None:
    told = Told()
    digest = json.loads(told.snapshot()[0])["digest"]
    lines = [line.replace(b'"%b"' % digest.encode(), b"null") for line in [*told.snapshot(), told.bookmark()]]
    with ScriptedServer() as server:
        server.script = [open_stream(server, lines)]
        async with following(server.url) as feed:
            assert await loaded(feed) == told.acls
            await polled(feed, 1, lambda poll: poll.head.last_offset == 1)
