"""How a request must begin, so that nobody reads it otherwise; and where a refusal stands among replies."""

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from app.rest.http.connections import Connections
from app.rest.http.heads import plain_head
from tests.budgets import budget
from tests.wires import CHUNKED, HEAD, LINE, PROBE, connected, request, statuses, turns, unread

GOOD = [request(b"plain"), request(b"slow"), PROBE, CHUNKED + b"2\r\nab\r\n0\r\n\r\n"]

BAD_STARTS: dict[str, bytes] = {
    "no version": b"GET /readyz\r\n",
    "no version but its blank": b"GET /readyz \r\n",
    "HTTP/0.9": b"GET /readyz HTTP/0.9\r\n",
    "HTTP/1.2": b"GET /readyz HTTP/1.2\r\n",
    "HTTP/2.0": b"GET /readyz HTTP/2.0\r\n",
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n",
    "RTSP": b"GET /readyz RTSP/1.0\r\n",
    "RTSP with a method of its own": b"DESCRIBE /readyz RTSP/1.0\r\n",
    "ICE": b"SOURCE /readyz ICE/1.0\r\n",
    "two blanks before the target": b"GET  /readyz HTTP/1.1\r\n",
    "two blanks behind the target": b"GET /readyz  HTTP/1.1\r\n",
    "a blank in front": b" GET /readyz HTTP/1.1\r\n",
    "a blank behind": b"GET /readyz HTTP/1.1 \r\n",
    "a tab": b"GET\t/readyz HTTP/1.1\r\n",
    "a CR in front": b"\rGET /readyz HTTP/1.1\r\n",
    "an LF in front": b"\nGET /readyz HTTP/1.1\r\n",
    "a CR behind an empty line": b"\r\n\rGET /readyz HTTP/1.1\r\n",
    "a bare LF": b"GET /readyz HTTP/1.1\n",
    "two CRs": b"GET /readyz HTTP/1.1\r\r\n",
    "a lower case version": b"GET /readyz http/1.1\r\n",
    "a lower case method": b"get /readyz HTTP/1.1\r\n",
    "a CR in front of the plain way": b"\r" + LINE + b"\r\n",
    "a version of the plain way's": LINE.replace(b"1.1", b"2.0") + b"\r\n",
    "two blanks in the plain way's": LINE.replace(b" ", b"  ") + b"\r\n",
}
BAD_HEADS: dict[str, bytes] = {
    "no Host": b"X: y\r\n",
    "two Hosts": b"Host: k\r\nHost: k\r\n",
    "a Host with a blank": b"Host: a b\r\n",
    "a Host with a path": b"Host: a/b\r\n",
    "a Host with a user": b"Host: u@a\r\n",
    "a Host with an odd port": b"Host: a:b\r\n",
    "a Host with half a bracket": b"Host: [::1\r\n",
    "a blank before the colon": b"Host: k\r\nX : y\r\n",
    "a folded line": b"Host: k\r\nX: y\r\n z\r\n",
    "a folded first line": b" Host: k\r\n",
    "a bare LF": b"Host: k\nX: y\r\n",
    "a bare CR": b"Host: k\rX: y\r\n",
    "chunks and a length": b"Host: k\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n",
    "a length and chunks": b"Host: k\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n",
    "a coding that is not known": b"Host: k\r\nTransfer-Encoding: gzip\r\n",
    "two codings": b"Host: k\r\nTransfer-Encoding: gzip, chunked\r\n",
    "chunked twice": b"Host: k\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "nearly chunked": b"Host: k\r\nTransfer-Encoding: xchunked\r\n",
}
HEADS = (b"GET /readyz HTTP/1.1\r\n", LINE + b"\r\n")


async def replies(shared: Connections, *segments: bytes) -> tuple[list[int], bytes, bool]:
    begun: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["path"])
        await unread(scope, receive, send)

    connection, wire = connected(app, shared)
    for segment in segments:
        connection.data_received(segment)
        await turns()
    return statuses(wire), wire.written, wire.closed


def cuts(data: bytes) -> list[tuple[bytes, ...]]:
    """Whole, byte by byte, and in two at each place of its beginning."""
    two = [(data[:at], data[at:]) for at in range(1, min(len(data), 60))]
    return [(data,), tuple(data[at : at + 1] for at in range(len(data))), *two]


async def test_a_request_that_does_not_begin_like_one_is_refused(
    subtests: pytest.Subtests, shared: Connections
) -> None:
    for before in [b"", *GOOD]:
        for what, start in BAD_STARTS.items():
            with subtests.test(before=before, what=what):
                bad = start + b"Host: k\r\nContent-Length: 0\r\n\r\n"
                ways = [(before + bad,)] if before else cuts(bad)
                for segments in ways:
                    came, _, closed = await replies(shared, *segments)
                    assert came[-1:] == [400], segments
                    assert len(came) == 1 + bool(before), segments
                    assert closed, segments


async def test_a_head_that_may_be_read_in_two_ways_is_refused(subtests: pytest.Subtests, shared: Connections) -> None:
    for before in [b"", *GOOD]:
        for line in HEADS:
            for what, lines in BAD_HEADS.items():
                with subtests.test(before=before, line=line, what=what):
                    bad = line + lines + b"\r\n"
                    for segments in [(before + bad,)] if before else cuts(bad):
                        came, _, closed = await replies(shared, *segments)
                        assert came[-1:] == [400], segments
                        assert len(came) == 1 + bool(before), segments
                        assert closed, segments
                    assert plain_head(bad) is None


@pytest.mark.parametrize("target", [b"http://", b"http://h", b"/\xff"])
async def test_a_target_that_means_nothing_does_not_end_the_reply_before_it(shared: Connections, target: bytes) -> None:
    for method in (b"GET", b"OPTIONS", b"POST"):
        bad = b"%b %b HTTP/1.1\r\nHost: k\r\n\r\n" % (method, target)
        for before in GOOD:
            assert (await replies(shared, before + bad))[0][1:] == [400]


async def test_a_missing_host_is_named(shared: Connections) -> None:
    _, written, _ = await replies(shared, b"GET /readyz HTTP/1.1\r\n\r\n")
    assert b"`Host`" in written


async def test_what_is_right_stays_right_however_it_is_cut(subtests: pytest.Subtests, shared: Connections) -> None:
    for whole in [
        b"GET /readyz HTTP/1.0\r\n\r\n",
        b"GET /readyz HTTP/1.0\r\nHost: k\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: \t \r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: k:8080 \r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: klamm_1.a-b.example:\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n",
        b"GET http://k/readyz HTTP/1.1\r\nHost: other\r\n\r\n",
        b"\r\nGET /readyz HTTP/1.1\r\nHost: k\r\n\r\n",
        b"\r\n\r\n\r\nGET /readyz HTTP/1.1\r\nHost: k\r\n\r\n",
        PROBE,
    ]:
        with subtests.test(whole=whole):
            for segments in cuts(whole):
                came, _, _ = await replies(shared, *segments)
                assert came == [200], segments


BODIES = {
    "chunks": CHUNKED + b"2\r\nab\r\n0\r\n\r\n",
    "chunks with more": CHUNKED + b"2;a=b\r\nab\r\n00a;x\r\n0123456789\r\n0;z\r\nX: y\r\nZ: 1\r\n\r\n",
    "chunks like ends": CHUNKED + b"9\r\n0\r\n\r\n0\r\n\r\r\n2\r\n\r\n\r\n0\r\n\r\n",
    "extensions and data like ends": CHUNKED + b"4;x=y\r\n\r\n\r\n\r\n11;z\r\n0\r\n\r\n0\r\n\r\n0123456\r\n0\r\n\r\n",
    "small chunks": CHUNKED
    + b"1\r\na\r\n0002;x\r\n\r\n\r\nF\r\n0123456789abcd\n\r\n10\r\n0\r\n\r\n0\r\n\r\n012345\r\n0\r\n\r\n",
    "a length": request(b"slow\r\n\r\n0\r\n\r\n"),
    "no body": PROBE,
}


@pytest.mark.parametrize("first", BODIES)
@pytest.mark.parametrize("second", BODIES)
async def test_a_message_behind_another_is_found_however_they_are_cut(
    shared: Connections, first: str, second: str
) -> None:
    data = BODIES[first] + BODIES[second]
    seen: list[tuple[bytes, ...]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        seen[-1] += (body,)
        await unread(scope, receive, send)

    for at in range(1, len(data), budget("places to cut")):
        connection, wire = connected(app, shared)
        seen.append(())
        for segment in (data[:at], data[at:]):
            connection.data_received(segment)
            await turns()
        assert len(statuses(wire)) == 2, at
        assert 400 not in statuses(wire), at
    assert len(set(seen)) == 1


# refusals and replies


async def read_then_answer(_: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"reply"})


async def test_a_refusal_stands_behind_the_whole_reply_to_who_expects_to_be_asked(
    subtests: pytest.Subtests, shared: Connections
) -> None:
    for bad in [b"garbage\r\n\r\n", b"GET /readyz\r\n\r\n", LINE + b"\r\nHost: k\r\nX : y\r\n\r\n"]:
        for target in [b"/v1/start", b"/readyz"]:
            with subtests.test(bad=bad, target=target):
                line = b"POST %b HTTP/1.1" % target
                connection, wire = connected(read_then_answer, shared)
                connection.data_received(request(b"hello", b"Expect: 100-continue", line=line) + bad)
                await turns()
                assert statuses(wire) == [100, 200, 400]
                first = wire.written.split(b"HTTP/1.1 ")[2]
                assert first.partition(b"\r\n\r\n")[2] == b"reply"


@pytest.mark.parametrize("what", ["chunk", "trailer"])
async def test_nothing_is_written_behind_a_refusal(
    shared: Connections, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {"chunk": b"zz\r\n", "trailer": b"0\r\nX : y\r\n\r\n"}[what]
    connection, wire = connected(read_then_answer, shared)
    connection.data_received(CHUNKED[:-2] + b"Expect: 100-continue\r\n\r\n" + bad)
    await turns()
    assert statuses(wire) == [400]
    assert caplog.messages == []


async def test_nobody_of_http_1_0_is_told_to_go_on(shared: Connections) -> None:
    connection, wire = connected(read_then_answer, shared)
    line = b"POST /v1/start HTTP/1.0"
    connection.data_received(request(b"hello", b"Expect: 100-continue", line=line))
    await turns()
    assert statuses(wire) == [200]


@pytest.mark.parametrize("many", [1, 3, 15])
async def test_refusals_come_last_in_every_pipeline(shared: Connections, many: int) -> None:
    release = asyncio.Event()

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await release.wait()
        await read_then_answer(scope, receive, send)

    for expect in (b"X: y", b"Expect: 100-continue"):
        release.clear()
        connection, wire = connected(waits, shared)
        connection.data_received(request(b"slow!", expect, line=b"POST /v1/start HTTP/1.1") * many)
        connection.data_received(HEAD.replace(b"HTTP/1.1", b"HTTP/2.0") + b"plain")
        await turns()
        release.set()
        for _ in range(many + 1):
            await turns()
        assert [status for status in statuses(wire) if status != 100] == [200] * many + [400]
        assert wire.written.count(b"\r\n\r\nreply") == many
