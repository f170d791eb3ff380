"""Plain requests: to answer them at once changes what a request costs, never what is answered."""

import asyncio
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.rest.http import protocol
from app.rest.http.heads import plain_head
from tests.wires import HOST, LINE, TYPE, connected, plain_reply, request, turns


async def conversation(segments: Iterable[bytes]) -> tuple[bytes, bool]:
    """What a connection that gets these segments writes, and whether it is closed then."""
    connection, wire = connected()
    for segment in segments:
        if wire.closed:
            break
        connection.data_received(segment)
        await turns()
    written, closed = wire.written, wire.closed
    connection.connection_lost(None)
    return written, closed


REQUESTS = st.builds(
    lambda body, more, line, end: request(body, *more, line=line, end=end),
    st.sampled_from([b"", b"a", b"bb", b"\r\n\r\n", b"x\r\n\r\ny", LINE, request(b"in"), b"slow"]),
    st.lists(
        st.sampled_from(
            [b"Host: a", b"X-A:  b ", b"Connection: close", b"X: \xff", b"Expect: 100-continue", b"Content-Length: 1"]
        ),
        max_size=2,
    ),
    st.sampled_from(
        [LINE, LINE, LINE, b"POST /v1/authorize HTTP/1.0", b"POST /v1/authorize?a HTTP/1.1", b"GET / HTTP/1.1"]
    ),
    st.sampled_from([b"\r\n", b"\r\n", b"\n"]),
)
ODD = b"%b\r\n%b\r\n%b\nContent-Length: 7\n\n\r\n\r\nabc" % (LINE, HOST, TYPE)
CHUNKED = b"\r\n".join((LINE, HOST, TYPE, b"Transfer-Encoding: chunked", b"", b"2", b"ab", b"0", b"", b""))


def cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    start = 0
    for place in sorted(places):
        if start < place < len(data):
            yield data[start:place]
            start = place
    yield data[start:]


@given(
    st.lists(REQUESTS | st.sampled_from([CHUNKED, b"\r\n"]), max_size=6),
    st.lists(st.integers(1, 800), max_size=8),
    st.booleans(),
)
@example([request(b"a"), request(b"b"), request(b"b") + request(b"c")], [], True)  # noqa: FBT003 - drawn
@example([request(b"a"), request(b"slow"), request(b"abcd")], [], True)  # noqa: FBT003 - drawn
# A body that looks like a request, in a segment of its own.
@example([request(b"in"), request(request(b"in"))[: -len(request(b"in"))], request(b"in")], [], True)  # noqa: FBT003 - drawn
# A head that ends before the first empty line does.
@example([ODD, ODD], [], True)  # noqa: FBT003 - drawn
def test_a_remembered_head_changes_no_answer(messages: list[bytes], places: list[int], whole: bool) -> None:  # noqa: FBT001 - drawn
    # Segments are requests (as a rule they are), or pieces of any size.
    segments = messages if whole else list(cut(b"".join(messages), places))
    with pytest.MonkeyPatch.context() as patch:
        # As if no head were plain by itself.
        patch.setattr(protocol, "plain_head", lambda _: None)
        expected = asyncio.run(conversation(segments))
    first = asyncio.run(conversation(segments))
    again = asyncio.run(conversation(segments))
    assert first == expected
    assert again == expected


def test_a_head_is_plain_only_if_it_ends_with_its_bytes() -> None:
    good = request(b"a")[:-1]
    found = plain_head(good)
    assert found is not None
    assert (found.headers[0], found.length, found.target) == ((b"host", b"localhost"), 1, b"/v1/authorize")
    smuggled = b"%b\r\nHost: k\r\nContent-Length: 0\n\n%b" % (LINE, good)
    for bad in (good[:-2], good + b"\r\n", good + good, smuggled, good.replace(b"\r\n", b"\n"), b"\r\n" + good):
        assert plain_head(bad) is None, bad


async def test_the_number_and_size_of_remembered_heads_are_bounded() -> None:
    plain_head.cache_clear()
    for at in range(1_100):
        plain_head(request(b"a", b"X: %d" % at)[:-1])
    assert plain_head.cache_info().currsize == 1_024
    plain_head.cache_clear()
    assert (await conversation([request(b"a", b"X: " + b"x" * 2_048)]))[0].startswith(b"HTTP/1.1 200 OK")
    assert plain_head.cache_info().currsize == 0


async def test_head_and_body_of_a_reply_are_written_together() -> None:
    connection, wire = connected()
    connection.data_received(request(b"slow"))
    await turns()
    assert wire.writes == 1
    assert wire.written.endswith(plain_reply([], b"slow")[-8:])


async def test_a_plain_answer_does_not_overtake_what_is_held_back() -> None:
    connection, wire = connected()
    connection.writer.write(b"before ")
    connection.data_received(request(b"a"))
    await turns()
    assert wire.written.startswith(b"before HTTP/1.1 200 OK")


@pytest.mark.parametrize("end", ["shutdown", "garbage"])
async def test_what_is_held_back_is_written_before_the_end(end: str) -> None:
    connection, wire = connected()
    connection.data_received(request(b"a"))
    answered = len(wire.written)
    connection.writer.write(b"before ")
    if end == "shutdown":
        connection.shutdown()
    else:
        connection.data_received(b"garbage")
    assert wire.closed
    assert wire.written[answered:].startswith(b"before ")
    await turns()
    assert wire.written.count(b"before ") == 1


async def test_nothing_is_written_to_a_connection_that_is_lost() -> None:
    connection, wire = connected()
    connection.writer.write(b"late")
    connection.connection_lost(ConnectionResetError())
    await turns()
    assert wire.written == b""


async def test_a_new_date_reaches_the_next_answer() -> None:
    connection, wire = connected()
    for date in (b"yesterday", b"today"):
        connection.server_state.default_headers = [(b"date", date)]
        connection.data_received(request(b"a"))
        connection.data_received(request(b"a"))
    assert wire.written.count(b"date: yesterday\r\n") == wire.written.count(b"date: today\r\n") == 2
    connection.connection_lost(None)


async def test_the_idle_time_ends_with_the_next_request_though_it_came_in_the_same_segment() -> None:
    connection, wire = connected()
    connection.data_received(request(b"a") + request(b"slow and more")[:-5])
    assert wire.written.count(b"HTTP/1.1 200 OK") == 1
    assert connection.timeout_keep_alive_task is None
    connection.data_received(request(b"slow and more")[-5:])
    await turns()
    assert wire.written.count(b"HTTP/1.1 200 OK") == 2
    connection.connection_lost(None)
