"""Request ids and trace context: kept if they are good, made or left out if they are not."""

import re

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.logs.service import REQUEST_MARK, RequestMark
from app.rest.http.correlation import mark_of, mark_of_headers, reply_header_list, reply_headers
from tests.klamm import in_process

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{PARENT}-01"
MADE = re.compile(r"[0-9a-f]{12}-[0-9a-f]+")


def test_a_request_without_an_id_gets_one_of_its_own() -> None:
    ids = [mark_of({}).request_id for _ in range(1000)]
    assert all(MADE.fullmatch(each) for each in ids)
    assert len(set(ids)) == 1000
    assert len({each.partition("-")[0] for each in ids}) == 1


@pytest.mark.parametrize("own", [b"a", b"x" * 128, b"3f9a:/+=_.~!{}\"'", b"0"])
def test_a_good_id_is_kept(own: bytes) -> None:
    assert mark_of({b"x-request-id": own}).request_id == own.decode()


def test_any_other_is_replaced(subtests: pytest.Subtests) -> None:
    for own in [
        b"",
        b"x" * 129,
        b"a b",
        b"a\tb",
        b"a\r\nx: y",
        b"a\n",
        b"\x1b[2J",
        b"\x7f",
        b"\xc3\xa9",
        b"\x00",
        b" a",
    ]:
        with subtests.test(own=own):
            assert MADE.fullmatch(mark_of({b"x-request-id": own}).request_id)


def test_trace_context_is_read_as_w3c_has_it(subtests: pytest.Subtests) -> None:
    for sent, kept in [
        (GOOD, GOOD),
        (f"00-{TRACE}-{PARENT}-00", f"00-{TRACE}-{PARENT}-00"),
        (f"01-{TRACE}-{PARENT}-01", GOOD),
        (f"cc-{TRACE}-{PARENT}-ff-what the future holds", GOOD),
        (f"fe-{TRACE}-{PARENT}-02-", f"00-{TRACE}-{PARENT}-00"),
        (f"ff-{TRACE}-{PARENT}-01", None),
        (f"00-{'0' * 32}-{PARENT}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"01-{'0' * 32}-{PARENT}-01", None),
        (f"{GOOD}-", None),
        (f"{GOOD}-extra", None),
        (f"01-{TRACE}-{PARENT}-01extra", None),
        (GOOD.upper(), None),
        (GOOD[:-1], None),
        (f" {GOOD}", None),
        (f"{GOOD}\n", None),
        (f"0g-{TRACE}-{PARENT}-01", None),
        (f"00-{TRACE}-{PARENT}-0x", None),
        (f"00_{TRACE}_{PARENT}_01", None),
        ("", None),
    ]:
        with subtests.test(sent=sent, kept=kept):
            mark = mark_of({b"traceparent": sent.encode()})
            assert mark.traceparent == kept
            assert mark.trace_id == (None if kept is None else TRACE)


def test_headers_that_came_twice_count_as_none() -> None:
    twice = [(b"x-request-id", b"a"), (b"traceparent", GOOD.encode()), (b"host", b"h")]
    mark = mark_of_headers([*twice, *twice])
    assert MADE.fullmatch(mark.request_id)
    assert mark.traceparent is None
    once = mark_of_headers(twice)
    assert (once.request_id, once.traceparent) == ("a", GOOD)


def test_the_reply_repeats_what_holds() -> None:
    assert reply_headers(RequestMark("abc")) == b"x-request-id: abc\r\n"
    assert reply_header_list(RequestMark("abc")) == [(b"x-request-id", b"abc")]
    traced = RequestMark("abc", GOOD)
    assert reply_headers(traced) == f"x-request-id: abc\r\ntraceparent: {GOOD}\r\n".encode()
    assert b"".join(b"%b: %b\r\n" % each for each in reply_header_list(traced)) == reply_headers(traced)


async def told(
    monkeypatch: pytest.MonkeyPatch, headers: list[tuple[bytes, bytes]], kind: str = "http"
) -> tuple[list[Message], list[RequestMark | None]]:
    """The messages of an application behind the marks, and the marks that it saw."""
    messages: list[Message] = []
    seen: list[RequestMark | None] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        seen.append(REQUEST_MARK.get())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"x"})

    async def send(message: Message) -> None:
        messages.append(message)

    async def receive() -> Message:
        raise AssertionError("nobody asks")

    async with in_process() as service:
        monkeypatch.setattr(service.app, "_application", app)
        await service.app({"type": kind, "headers": headers}, receive, send)
    return messages, seen


async def test_a_request_has_its_mark_while_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    messages, [mark] = await told(monkeypatch, [(b"x-request-id", b"abc"), (b"traceparent", GOOD.encode())])
    assert mark is not None
    assert (mark.request_id, mark.trace_id, mark.caller) == ("abc", TRACE, None)
    assert messages[0]["headers"] == [(b"a", b"b"), (b"x-request-id", b"abc"), (b"traceparent", GOOD.encode())]
    assert messages[1] == {"type": "http.response.body", "body": b"x"}
    assert REQUEST_MARK.get() is None


async def test_the_life_of_the_application_has_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    messages, seen = await told(monkeypatch, [], kind="lifespan")
    assert seen == [None]
    assert messages[0]["headers"] == [(b"a", b"b")]


@pytest.mark.parametrize("token", [b"klamm_Q2hlY2tzIGZvciBhIHRva2VuIGFy", b"x-eyJhbGciOiJub25lIn0.e30."])
def test_a_token_is_no_request_id(token: bytes) -> None:
    assert token.decode() not in mark_of({b"x-request-id": token}).request_id
