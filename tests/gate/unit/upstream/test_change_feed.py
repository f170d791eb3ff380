"""The feed of a service that is followed: what holds is handed over once and in order, what can't be never is."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

import pytest

from app.core.backoff import Backoff
from app.core.continuity import FeedPosition
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.core.records import FeedPoll, Record
from app.formats.feed_events import End, encode
from app.upstream import change_feed
from app.upstream import time as upstream_time
from app.upstream.change_feed import UpstreamChangeFeed
from tests.fake_upstream import ACL, EPOCH, Told, following, open_stream, stream
from tests.scripted_server import Answer, ScriptedServer, Step, problem

Change = Callable[[Sequence[bytes]], Sequence[bytes]]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "_PATIENCE_S", 0.1)


async def loaded(feed: UpstreamChangeFeed) -> list[StandardAcl]:
    async with feed.snapshot() as reader:
        return [StandardAcl.from_row(row) async for part in reader.slices() for row in part.rows]


async def polled(feed: UpstreamChangeFeed, offset: int, is_enough: Callable[[FeedPoll], bool]) -> FeedPoll:
    """The first poll that is enough; a store that is away meanwhile is asked again."""
    async with asyncio.timeout(30):
        while True:
            try:
                poll = await feed.poll(offset, 1_000)
            except StoreUnavailableException:
                continue
            if is_enough(poll):
                return poll
            await asyncio.sleep(0.01)


async def why_not(feed: UpstreamChangeFeed, words: str) -> None:
    """Waits until the feed says these words of why nobody is followed."""
    async with asyncio.timeout(30):
        while True:
            try:
                await feed.poll(0, 1_000)
            except StoreUnavailableException as fault:
                if words in fault.message:
                    return
            await asyncio.sleep(0.01)


async def test_a_snapshot_and_what_follows_are_handed_over_once_and_in_order() -> None:
    told = Told()
    lines = [*told.snapshot(), told.transaction(2), told.transaction(3), told.bookmark(["near"], age_ms=4_000)]
    with ScriptedServer() as server:
        server.script = [open_stream(server, lines)]
        async with following(server.url) as feed:
            assert await loaded(feed) == [ACL]
            poll = await polled(feed, 1, lambda poll: len(poll.records) == 2)
            assert list(poll.records) == told.records[1:]
            assert (poll.head.epoch, poll.head.last_offset, poll.head.hash) == (EPOCH, 3, told.hash)
            assert poll.age_s >= 4.0
            assert (feed.chain, str(feed.token)) == (("own", "near"), told.token)
            assert not (await feed.poll(3, 1_000)).records
    assert server.seen[0].path == "/v1/watch?snapshot=true&bookmark_ms=200"


async def test_a_stream_that_breaks_is_taken_up_behind_its_last_transaction() -> None:
    told = Told()
    first = stream([*told.snapshot(), told.transaction(2)])
    kept, lost = [told.bookmark(), told.transaction(3)], told.transaction(4)

    def torn(request: BaseHTTPRequestHandler) -> None:
        stream(kept)(request)
        request.wfile.write(lost[:100])

    told.records.pop()
    told.acls.pop()
    with ScriptedServer() as server:
        server.script = [first, torn, open_stream(server, [told.transaction(5), told.bookmark()])]
        async with following(server.url) as feed:
            await loaded(feed)
            poll = await polled(feed, 1, lambda poll: len(poll.records) == 3)
            assert list(poll.records) == told.records[1:]
    asked = [each.path.partition("?")[2].partition("&")[0] for each in server.seen]
    assert asked == ["snapshot=true", f"after={EPOCH}%3A2", f"after={EPOCH}%3A3"]


def flipped(lines: Sequence[bytes]) -> Sequence[bytes]:
    return [lines[0].replace(b"orders-2", b"orders-7"), *lines[1:]]


def without_first(lines: Sequence[bytes]) -> Sequence[bytes]:
    return lines[1:]


def doubled(lines: Sequence[bytes]) -> Sequence[bytes]:
    return [lines[0], *lines]


def turned(lines: Sequence[bytes]) -> Sequence[bytes]:
    return [lines[1], lines[0], lines[2]]


def no_json(lines: Sequence[bytes]) -> Sequence[bytes]:
    return [lines[0], b"<html>", *lines[1:]]


def bookmark_early(lines: Sequence[bytes]) -> Sequence[bytes]:
    return [lines[0], lines[2]]


def with_snapshot(lines: Sequence[bytes]) -> Sequence[bytes]:
    return [lines[0], *Told().snapshot(), *lines[1:]]


async def take_all(feed: UpstreamChangeFeed, handed: list[Record]) -> None:
    """Until something is found that can't be."""
    while True:
        with suppress(StoreUnavailableException):
            handed.extend((await feed.poll(1 + len(handed), 1_000)).records)
        await asyncio.sleep(0.01)


async def test_what_can_not_follow_is_never_handed_over(subtests: pytest.Subtests) -> None:
    for harm in [flipped, without_first, doubled, turned, no_json, bookmark_early, with_snapshot]:
        with subtests.test(harm=harm):
            told = Told()
            opening = told.snapshot()
            whole = [told.transaction(2), told.transaction(3), told.bookmark()]
            with ScriptedServer() as server:
                server.script = [open_stream(server, [*opening, Told().bookmark(), *harm(whole)])]
                async with following(server.url) as feed:
                    await loaded(feed)
                    handed: list[Record] = []
                    with pytest.raises(PoisonedRecordException, match=r"the stream of the upstream .* is damaged"):
                        await asyncio.wait_for(take_all(feed, handed), 30)
                    assert handed == told.records[1 : 1 + len(handed)]


def lost_acl(lines: Sequence[bytes]) -> Sequence[bytes]:
    return [lines[0], *lines[2:]]


def other_acl(lines: Sequence[bytes]) -> Sequence[bytes]:
    return [lines[0], lines[1].replace(b"User:alice", b"User:mallo"), *lines[2:]]


def other_end(lines: Sequence[bytes]) -> Sequence[bytes]:
    return [*lines[:3], lines[3].replace(b":1", b":2")]


def no_end(lines: Sequence[bytes]) -> Sequence[bytes]:
    return [*lines[:3], Told().bookmark()]


@pytest.mark.parametrize("harm", [lost_acl, other_acl, other_end, no_end], ids=lambda harm: harm.__name__)
async def test_a_snapshot_that_does_not_prove_itself_is_none(harm: Change) -> None:
    with ScriptedServer(stream(harm(Told().snapshot()))) as server:
        async with following(server.url) as feed:
            with pytest.raises(PoisonedRecordException):
                await loaded(feed)


@pytest.mark.parametrize("ending", [[], [encode(End(None, "draining"))]], ids=["broken off", "ended"])
async def test_a_snapshot_that_breaks_off_is_a_store_that_is_away(ending: list[bytes]) -> None:
    with ScriptedServer(stream([*Told().snapshot()[:2], *ending])) as server:
        async with following(server.url) as feed:
            with pytest.raises(StoreUnavailableException):
                await loaded(feed)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (problem(401, "AUTHENTICATION_FAILED", "no"), "does not accept this follower's credentials"),
        (problem(403, "CLUSTER_AUTHORIZATION_FAILED", "may not watch"), "refused: CLUSTER_AUTHORIZATION_FAILED"),
        (Answer(502, b"<html>bad gateway"), "answers with status 502, but not as Klamm does"),
        (Answer(200, b"<html>welcome"), "does not begin"),
        (problem(503, "COORDINATOR_NOT_AVAILABLE", "no", chain=["near", "own"]), "would follow itself"),
    ],
)
async def test_why_nobody_can_be_followed_is_said(answer: Step, words: str) -> None:
    with ScriptedServer(answer) as server:
        async with following(server.url) as feed:
            if "begin" in words:
                with pytest.raises((PoisonedRecordException, StoreUnavailableException)):
                    await loaded(feed)
                return
            feed.resume(FeedPosition(EPOCH, 1, Told().hash), None, 0.0)
            await why_not(feed, words)


@pytest.mark.parametrize(
    ("chain", "words"), [(["near", "own"], "would follow itself"), ([*map(str, range(16))], "more than 16 followers")]
)
async def test_a_loop_or_too_long_a_row_is_not_followed(chain: list[str], words: str) -> None:
    told = Told()
    with ScriptedServer() as server:
        again = open_stream(server, [told.bookmark(chain)])
        server.script = [open_stream(server, [*told.snapshot(), told.bookmark(chain)]), again]
        async with following(server.url) as feed:
            await loaded(feed)
            await why_not(feed, words)


async def test_a_service_that_goes_on_comes_before_one_that_does_not() -> None:
    told = Told()
    with ScriptedServer(problem(503, "COORDINATOR_NOT_AVAILABLE", "not loaded")) as away, ScriptedServer() as there:
        there.script = [open_stream(there, [told.transaction(2), told.bookmark()])]
        async with following(away.url, there.url) as feed:
            feed.resume(FeedPosition(EPOCH, 1, Told().hash), None, 0.0)
            poll = await polled(feed, 1, lambda poll: len(poll.records) == 1)
            assert list(poll.records) == told.records[1:]


async def test_an_upstream_whose_answers_are_slow_is_not_asked_for_the_time_at_each_bookmark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstream_time, "_SLOW_S", -1.0)
    monkeypatch.setattr(change_feed, "_PATIENCE_S", 30.0)
    told = Told()
    lines = [*told.snapshot(), *[told.bookmark()] * 5, told.transaction(2), told.bookmark()]
    with ScriptedServer() as server:
        server.script = [open_stream(server, lines), stream([told.bookmark()])]
        async with following(server.url) as feed:
            feed._time._backoff = Backoff(60.0, 60.0)
            await loaded(feed)
            await polled(feed, 1, lambda poll: len(poll.records) == 1)
    assert len(server.seen) == 2, "the stream, and one question"
