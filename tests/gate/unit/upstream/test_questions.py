"""What a follower asks of the service above it: what a position is, and older records."""

import asyncio
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler

import pytest

from app.core.epochs import Standing
from app.core.kafka.errors import PoisonedRecordException, StoreUnavailableException
from app.core.token import Token
from app.upstream import questions
from tests.fake_upstream import EPOCH, LATER_EPOCH, Service, Told, connected, followed_by, stream
from tests.klamm import until
from tests.scripted_server import Answer, ScriptedServer, Step, hang_up, problem, send_answer

POSITION = Token(LATER_EPOCH, 130)


async def test_what_the_service_above_says_is_handed_on(subtests: pytest.Subtests) -> None:
    cases: Iterable[tuple[Step, Standing]] = [
        (stream([Told().bookmark()]), Standing.PART),
        (problem(409, "TOKEN_EPOCH_MISMATCH", "it is lost"), Standing.LOST),
        (problem(409, "TOKEN_EPOCH_INVALID", "it is far ahead"), Standing.INVALID),
    ]
    for answer, standing in cases:
        with subtests.test(answer=answer, standing=standing), ScriptedServer() as server:
            async with followed_by(server) as (_, feed):
                server.script[:] = [answer]
                assert await feed.standing_of(POSITION, ["far", "near"]) is standing
            asked = server.seen[-1]
            assert asked.path.startswith(f"/v1/watch?after={LATER_EPOCH}%3A130&")
            assert (asked.headers["klamm-followers"], asked.headers["klamm-epochs"]) == ("far,near,own", "1")


async def test_anything_else_says_nothing_about_the_position(subtests: pytest.Subtests) -> None:
    cases: Iterable[Step] = [
        problem(503, "OFFSET_NOT_AVAILABLE", "behind"),
        problem(503, "STORE_UNAVAILABLE", "no database"),
        problem(410, "OFFSET_OUT_OF_RANGE", "trimmed"),
        problem(401, "SASL_AUTHENTICATION_FAILED", "who?"),
        problem(400, "INVALID_REQUEST", "what?"),
        Answer(409, b"<html>conflict"),
        Answer(200, b"<html>welcome", media_type="text/html"),
        hang_up,
    ]
    for answer in cases:
        with subtests.test(answer=answer), ScriptedServer() as server:
            async with followed_by(server) as (_, feed):
                server.script[:] = [answer]
                with pytest.raises(StoreUnavailableException):
                    await feed.standing_of(POSITION)


async def test_a_service_that_does_not_answer_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_MOST_S", 0.5)
    with ScriptedServer() as server:
        async with followed_by(server) as (_, feed):
            server.script[:] = [server.wait]
            with pytest.raises(StoreUnavailableException, match="does not say in time"):
                await feed.standing_of(POSITION)


async def test_a_follower_that_follows_nobody_says_nothing() -> None:
    with ScriptedServer(hang_up) as server:
        async with connected([server.url]) as (_, feed):
            with pytest.raises(StoreUnavailableException):
                await feed.standing_of(POSITION)
        assert server.seen == []


async def test_a_loop_ends_with_the_first_id_that_comes_twice(subtests: pytest.Subtests) -> None:
    for asked_by in [["far", "own"], ["own"], [str(number) for number in range(16)], ["far", "far"]]:
        with subtests.test(asked_by=asked_by), ScriptedServer() as server:
            async with followed_by(server) as (_, feed):
                with pytest.raises(StoreUnavailableException):
                    await feed.standing_of(POSITION, asked_by)
            assert len(server.seen) == 1, "the stream that is followed"


async def test_one_question_at_a_time_whose_answer_is_good_for_a_second() -> None:
    under_way: list[int] = []
    most: list[int] = []
    with ScriptedServer() as server:

        def answer(request: BaseHTTPRequestHandler) -> None:
            under_way.append(1)
            most.append(len(under_way))
            server.release.wait(0.1)
            under_way.pop()
            send_answer(request, problem(409, "TOKEN_EPOCH_MISMATCH", "lost"))

        async with followed_by(server) as (connection, feed):
            server.script[:] = [answer]
            now = connection.options.clock.monotonic()
            feed._questions._clock = lambda: now
            same = await asyncio.gather(*(feed.standing_of(POSITION) for _ in range(10)))
            assert set(same) == {Standing.LOST}
            assert len(server.seen) == 2
            await asyncio.gather(*(feed.standing_of(Token(LATER_EPOCH, offset)) for offset in (1, 2, 3)))
            assert len(server.seen) == 5
            assert set(most) == {1}
            for later_s, asked in ((1.0, 5), (0.5, 6)):
                now += later_s
                await feed.standing_of(Token(LATER_EPOCH, 3))
                assert len(server.seen) == asked


async def test_an_answer_without_a_verdict_is_not_kept() -> None:
    with ScriptedServer() as server:
        async with followed_by(server) as (_, feed):
            server.script[:] = [problem(503, "STORE_UNAVAILABLE", "no"), problem(409, "TOKEN_EPOCH_MISMATCH", "lost")]
            with pytest.raises(StoreUnavailableException):
                await feed.standing_of(POSITION)
            assert await feed.standing_of(POSITION) is Standing.LOST


async def test_older_records_are_asked_for_by_the_epoch_that_they_are_behind() -> None:
    told = Told()
    told.transaction(2)
    told.begin_epoch(LATER_EPOCH)
    for number in (3, 4, 5):
        told.transaction(number)
    with ScriptedServer() as server:
        Service(server, told)
        async with connected([server.url]) as (connection, feed):
            async with feed.snapshot() as reader:
                async for _ in reader.slices():
                    pass
            await until(lambda: connection.where is not None)
            for offset, epoch in ((1, EPOCH), (2, LATER_EPOCH), (3, LATER_EPOCH)):
                older = await feed.history(offset, 1_000)
                assert [each.offset for each in older.records] == list(range(offset + 1, 6))
                assert f"after={epoch}%3A{offset}&" in server.seen[-1].path
                assert (older.head.log_start_offset, older.head.last_offset) == (offset + 1, 5)
            assert [each.offset for each in (await feed.history(1, 2)).records] == [2, 3]


async def test_trimmed_records_are_said_by_where_the_rest_begins() -> None:
    with ScriptedServer() as server:
        async with followed_by(server) as (_, feed):
            server.script[:] = [problem(410, "OFFSET_OUT_OF_RANGE", "gone", oldest_token=f"{EPOCH}:7")]
            older = await feed.history(0, 10)
            assert (older.head.log_start_offset, older.records) == (8, [])
            server.script[:] = [problem(410, "OFFSET_OUT_OF_RANGE", "gone", oldest_token="x")]
            with pytest.raises(StoreUnavailableException):
                await feed.history(0, 10)


async def test_older_records_with_a_hole_are_not_handed_over() -> None:
    told = Told()
    lines = [told.transaction(number) for number in (2, 3, 4)]
    with ScriptedServer() as server:
        async with followed_by(server) as (_, feed):
            server.script[:] = [stream([lines[0], lines[2], told.bookmark()])]
            with pytest.raises(PoisonedRecordException, match="the log says how"):
                await feed.history(1, 10)
