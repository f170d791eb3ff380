"""Which service is followed, and when it is left: by what its state is worth, not by what it sends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple
from uuid import UUID

import pytest

from app.core import following as machine
from app.core.continuity import FeedPosition
from app.core.epochs import Epochs
from app.core.kafka.errors import StoreUnavailableException
from app.core.records import GENESIS_HASH, FeedPoll
from app.upstream import change_feed
from app.upstream.change_feed import UpstreamChangeFeed
from app.upstream.connection import Connection
from tests.fake_upstream import EPOCH, LATER_EPOCH, Service, Told, connected, open_stream, stream
from tests.klamm import until
from tests.scripted_server import ScriptedServer

LAST_EPOCH = UUID("0199f0c3-ffff-7c3a-9a41-3f6f0b8a2c17")
UNKNOWN = b'{"type":"of a later version"}'


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "_PATIENCE_S", 0.1)
    for name in ("OPENING_S", "SNAPSHOT_S", "NO_BOOKMARK_S"):
        monkeypatch.setattr(machine, name, 2.0)
    for name in ("STALE_S", "PROBE_EVERY_S"):
        monkeypatch.setattr(machine, name, 0.5)


class Pair(NamedTuple):
    """A follower of two services with the same history, the first of which it follows."""

    first: Service
    other: Service
    connection: Connection
    feed: UpstreamChangeFeed
    urls: tuple[str, str]


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    told = Told()
    with ScriptedServer() as one, ScriptedServer() as two:
        first, other = Service(one, told), Service(two, told)
        async with connected([one.url, two.url]) as (connection, feed):
            await load(feed)
            await until(lambda: connection.where == one.url)
            yield Pair(first, other, connection, feed, (one.url, two.url))


async def load(feed: UpstreamChangeFeed) -> None:
    async with feed.snapshot() as reader:
        async for _ in reader.slices():
            pass


async def polled(feed: UpstreamChangeFeed, offset: int, is_enough: Callable[[FeedPoll], bool]) -> FeedPoll:
    """The first poll that is enough; a store that is away meanwhile is asked again."""
    async with asyncio.timeout(60):
        while True:
            try:
                poll = await feed.poll(offset, 1_000)
            except StoreUnavailableException:
                continue
            if is_enough(poll):
                return poll
            await asyncio.sleep(0.01)


async def snapshot_needed(feed: UpstreamChangeFeed, offset: int) -> str:
    poll = await polled(feed, offset, lambda poll: poll.snapshot_needed is not None)
    assert poll.snapshot_needed is not None
    return poll.snapshot_needed


def junk(line: bytes) -> Callable[[ScriptedServer], Callable[[BaseHTTPRequestHandler], None]]:
    """A stream with the state and one bookmark, and then nothing but this, every tenth of a second."""

    def scripted(server: ScriptedServer) -> Callable[[BaseHTTPRequestHandler], None]:
        def send(request: BaseHTTPRequestHandler) -> None:
            stream([*Told().snapshot(), Told().bookmark()])(request)
            while not server.release.wait(0.1):
                request.wfile.write(line)

        return send

    return scripted


@pytest.mark.parametrize("line", [UNKNOWN + b"\n", b"\n", b"x", b""], ids=["unknown", "empty", "dripped", "silent"])
async def test_a_stream_without_bookmarks_is_left_whatever_else_it_sends(line: bytes) -> None:
    with ScriptedServer() as one, ScriptedServer() as two:
        one.script = [junk(line)(one)]
        Service(two, Told())
        async with connected([one.url, two.url]) as (connection, feed):
            await load(feed)
            await until(lambda: connection.where == one.url)
            await until(lambda: connection.where == two.url)
        assert len(one.seen) == 1, "it was not broken off"


async def test_transactions_without_bookmarks_are_kept_and_their_stream_is_left() -> None:
    told = Told()
    with ScriptedServer() as one, ScriptedServer() as two:
        opening = [*told.snapshot(), told.bookmark()]
        one.script = [open_stream(one, [*opening, *[told.transaction(number) for number in range(2, 9)]])]
        Service(two, told)
        async with connected([one.url, two.url]) as (connection, feed):
            await load(feed)
            await until(lambda: connection.where == two.url)
            poll = await polled(feed, 1, lambda poll: len(poll.records) == 7)
            assert list(poll.records) == told.records[1:]
        assert f"after={told.epoch}%3A8" in two.seen[0].path


async def test_the_primary_restarts_and_the_follower_taken_instead_is_cut_off() -> None:
    async with pair() as services:
        first, other, connection, feed, urls = services
        loop = asyncio.get_running_loop()
        cut_at = loop.time()
        other.age_s = lambda: loop.time() - cut_at
        other.told = cut_off = Told()
        first.is_away = True
        await until(lambda: connection.where == urls[1])
        first.is_away = False
        first.told.transaction(2)
        assert len(cut_off.records) == 1
        await until(lambda: connection.where == urls[0])
        poll = await polled(feed, 1, lambda poll: len(poll.records) == 1)
        assert list(poll.records) == first.told.records[1:]


async def test_a_follower_that_was_left_behind_is_not_taken_for_the_store() -> None:
    """It says that the position is lost, as older versions do, and its snapshot is older."""
    async with pair() as services:
        first, other, connection, feed, urls = services
        first.told.transaction(2)
        await polled(feed, 1, lambda poll: len(poll.records) == 1)
        other.told, other.if_ahead = Told(UUID(int=EPOCH.int - 1)), other.if_lost
        first.is_away = True
        assert "lost" in await snapshot_needed(feed, 2)
        feed.rewind(2)
        with pytest.raises(StoreUnavailableException, match="older than what is held here"):
            await load(feed)
        assert feed.resume(FeedPosition(EPOCH, 2, first.told.hash), None, 5.0)
        assert str(feed.token) == first.told.token
        first.is_away = False
        await until(lambda: connection.where == urls[0])
        first.told.transaction(3)
        poll = await polled(feed, 2, lambda poll: len(poll.records) == 1)
        assert list(poll.records) == first.told.records[2:]


async def test_a_store_that_was_put_back_is_followed_in_its_later_epoch() -> None:
    async with pair() as services:
        services.first.told.transaction(2)
        await polled(services.feed, 1, lambda poll: len(poll.records) == 1)
        restored = Told()
        restored.begin_epoch(LATER_EPOCH)
        services.first.told = services.other.told = restored
        assert "lost" in await snapshot_needed(services.feed, 2)
        services.feed.rewind(2)
        await load(services.feed)
        assert str(services.feed.token) == f"{LATER_EPOCH}:1"
        poll = await polled(services.feed, 1, lambda _: True)
        assert [each.id for each in poll.head.epochs.rows] == [EPOCH, LATER_EPOCH]


async def test_epochs_are_followed_without_a_snapshot() -> None:
    async with pair() as services:
        told, feed = services.first.told, services.feed
        told.transaction(2)
        told.begin_epoch(LATER_EPOCH)
        told.transaction(3)
        poll = await polled(feed, 1, lambda poll: len(poll.records) == 2)
        assert (poll.head.epoch, poll.head.last_offset) == (LATER_EPOCH, 3)
        assert [(each.id, each.first_offset) for each in poll.head.epochs.rows] == [(EPOCH, 0), (LATER_EPOCH, 2)]
        told.begin_epoch(LAST_EPOCH)
        poll = await polled(feed, 3, lambda poll: poll.head.epoch == LAST_EPOCH)
        assert (poll.head.epochs.last, poll.head.last_offset, poll.records, poll.is_of_primary) == (
            LAST_EPOCH,
            3,
            [],
            False,
        )


async def test_a_position_of_an_older_epoch_goes_on_from_there() -> None:
    told = Told()
    told.transaction(2)
    told.begin_epoch(LATER_EPOCH)
    told.transaction(3)
    with ScriptedServer() as server:
        Service(server, told)
        async with connected([server.url]) as (_, feed):
            feed.resume(FeedPosition(EPOCH, 1, told.records[0].hash), Epochs.only(EPOCH), 60.0)
            poll = await polled(feed, 1, lambda poll: len(poll.records) == 2)
            assert [each.id for each in poll.head.epochs.rows] == [EPOCH, LATER_EPOCH]
        assert "snapshot=true" not in "".join(each.path for each in server.seen)


async def test_more_records_than_are_kept_come_from_behind_an_old_state() -> None:
    """A stream that has to catch up sends no bookmark before it has."""
    told, count = Told(), 60
    for number in range(2, count + 1):
        told.transaction(number)
    with ScriptedServer() as server, pytest.MonkeyPatch.context() as patched:
        patched.setattr("app.upstream.received.MAX_RECORDS", 10)
        server.script = [open_stream(server, [*told.behind(Told().position, 0.0)[0]])]
        async with connected([server.url]) as (_, feed):
            feed.resume(FeedPosition(EPOCH, 1, told.records[0].hash), Epochs.only(EPOCH), 60.0)
            offset = 1
            while offset < count:
                poll = await polled(feed, offset, lambda poll: len(poll.records) > 0)
                assert poll.age_s >= 60.0 or poll.head.last_offset == count
                offset += len(poll.records)


async def test_records_that_were_trimmed_lead_to_a_snapshot_of_ones_own_history() -> None:
    async with pair() as services:
        told = Told()
        for number in (2, 3, 4):
            told.transaction(number)
        services.first.trimmed = services.other.trimmed = 3
        services.first.told = services.other.told = told
        assert "trimmed" in await snapshot_needed(services.feed, 1)
        services.feed.rewind(1)
        await load(services.feed)
        assert str(services.feed.token) == told.token


async def test_what_the_image_can_not_apply_is_judged_by_the_image() -> None:
    """The stream was further on than the image: a snapshot between the two is newer than what is held."""
    async with pair() as services:
        first, _, _, feed, _ = services
        for number in (2, 3, 4):
            first.told.transaction(number)
        await polled(feed, 1, lambda poll: poll.head.last_offset == 4)
        shorter = Told()
        shorter.transaction(2)
        shorter.transaction(3)
        first.told = shorter
        feed.rewind(2)
        assert str(feed.token) == f"{EPOCH}:2"
        await load(feed)
        assert str(feed.token) == f"{EPOCH}:3"


async def test_a_snapshot_that_could_not_be_used_is_not_what_is_held() -> None:
    """Whoever builds the image refuses it after all checks here: the next URL is asked, from what was held before."""
    async with pair() as services:
        _, other, connection, feed, urls = services
        held = feed.token
        await polled(feed, 1, lambda _: True)
        later = Told()
        later.transaction(2)
        later.transaction(3)
        services.first.told = other.told = later
        feed.rewind(1)
        await load(feed)
        assert str(feed.token) == later.token
        feed.resume(FeedPosition(EPOCH, 1, later.records[0].hash), None, 0.0)
        assert feed.token == held
        await until(lambda: connection.where == urls[1])


async def test_a_first_snapshot_that_could_not_be_used_leaves_nothing() -> None:
    with ScriptedServer() as one, ScriptedServer() as two:
        Service(one, newer := Told())
        newer.transaction(2)
        Service(two, Told())
        async with connected([one.url, two.url]) as (connection, feed):
            await load(feed)
            await load(feed)
            assert str(feed.token) == f"{EPOCH}:1"
            await until(lambda: connection.where == two.url)


async def test_a_snapshot_that_is_not_read_to_its_end_moves_on() -> None:
    with ScriptedServer() as one, ScriptedServer() as two:
        Service(one, Told())
        Service(two, Told())
        async with connected([one.url, two.url]) as (connection, feed):
            with pytest.raises(ValueError, match="can't be built"):
                async with feed.snapshot():
                    raise ValueError("it can't be built")
            await load(feed)
            await until(lambda: connection.where == two.url)


async def test_genesis_is_a_position_like_any_other() -> None:
    told = Told()
    with ScriptedServer() as server:
        Service(server, told)
        async with connected([server.url]) as (_, feed):
            feed.resume(FeedPosition(EPOCH, 0, GENESIS_HASH), None, 0.0)
            poll = await polled(feed, 0, lambda poll: len(poll.records) == 1)
            assert list(poll.records) == told.records
