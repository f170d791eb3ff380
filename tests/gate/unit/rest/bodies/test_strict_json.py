"""The one reader of bodies: what it refuses, where it says so, and that it refuses nothing else."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect
from starlette.types import Message

from app.core.kafka.errors import InvalidRequestException, RequestTooLargeException
from app.rest.bodies import reading, strict_json
from app.rest.bodies.reading import check_headers, off_loop, read_body
from app.rest.bodies.strict_json import parse
from app.rest.errors import BodyTimedOutException, InvalidFieldsException, UnsupportedMediaTypeException


def pointers(body: bytes) -> list[str]:
    with pytest.raises(InvalidFieldsException) as refusal:
        parse(body)
    return [each.pointer for each in refusal.value.errors]


def nested(depth: int) -> bytes:
    """An object that is `depth` levels deep."""
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@given(st.dictionaries(TEXT, VALUES), st.booleans(), st.sampled_from([None, 1]))
def test_clean_objects_come_through_unchanged(value: dict[str, object], as_ascii: bool, indent: int | None) -> None:  # noqa: FBT001 - drawn
    body = json.dumps(value, ensure_ascii=as_ascii, indent=indent).encode()
    if depth_of(value) <= strict_json.MAX_DEPTH:
        assert parse(body) == value
    else:
        with pytest.raises(InvalidRequestException, match="nests deeper than 16"):
            parse(body)


@given(st.integers(1, 40), TEXT, st.sampled_from("[{"))
def test_depth_is_counted_outside_of_texts_only(depth: int, text: str, bracket: str) -> None:
    opening, closing = ("[", "]") if bracket == "[" else ('{"k":', "}")
    innermost = json.dumps(text + '[{\\"' + text)
    body = ('{"a":' + opening * (depth - 1) + innermost + closing * (depth - 1) + "}").encode()
    if depth <= strict_json.MAX_DEPTH:
        parse(body)
    else:
        with pytest.raises(InvalidRequestException, match="nests deeper"):
            parse(body)


def test_sixteen_levels_pass_and_seventeen_do_not() -> None:
    assert parse(nested(16))
    with pytest.raises(InvalidRequestException, match="nests deeper than 16 levels"):
        parse(nested(17))


@given(
    st.recursive(
        st.text(alphabet='{}[]"\\,:a', max_size=12),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='{]"\\', max_size=3), inner, max_size=3)
        ),
        max_leaves=20,
    ),
    st.integers(0, 20),
    st.integers(1, 9),
)
def test_brackets_in_strings_do_not_count_wherever_the_pieces_are_cut(inner: object, depth: int, piece: int) -> None:
    value = inner
    for _ in range(depth):
        value = [value, "}]"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "_PIECE_BYTES", piece)
        assert strict_json._is_too_deep(json.dumps(value).encode()) == (depth_of(value) > strict_json.MAX_DEPTH)


def test_alternating_brackets_count_one_level_each() -> None:
    deep = b'{"a":' + b'[{"a":' * 8 + b"1" + b"}]" * 8 + b"}"
    with pytest.raises(InvalidRequestException, match="nests deeper"):
        parse(deep)


def test_many_flat_values_are_no_depth() -> None:
    assert len(parse(b'{"a":[' + b",".join([b"{}"] * 5000) + b"]}")["a"]) == 5000  # type: ignore[arg-type]  # a list


def test_bodies_that_are_no_clean_json_object_are_refused(subtests: pytest.Subtests) -> None:
    for body, text in [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":"\xff"}', "not UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
        ('{"a":1}'.encode("utf-16-le"), "not JSON"),
        (b"{", "not JSON"),
        (b"{'a':1}", "not JSON"),
        (b'{"a":1,}', "not JSON"),
        (b"{} {}", "not JSON"),
        (b'{"a":"\n"}', "not JSON"),
        (b"[" * 20_001, "too many values"),
        (b"[" * 20_000, "nests deeper"),
        (b'{"a":[' + b"1," * 200_001 + b"1]}", "too many values"),
        (b'{"a":' + b"9" * 5000 + b"}", "too many digits"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b'"text"', "not an object"),
        (b"1", "not an object"),
    ]:
        with subtests.test(body=body, text=text), pytest.raises(InvalidRequestException, match=text):
            parse(body)


def test_faults_within_the_object_are_named_by_field(subtests: pytest.Subtests) -> None:
    for body, expected in [
        (b'{"a":1,"a":1}', ["/a"]),
        (b'{"x":{"b":[{"c":1,"c":2}]}}', ["/x/b/0/c"]),
        (b'{"a":1,"\\u0061":1}', ["/a"]),
        (b'{"a/b~c":1,"a/b~c":1}', ["/a~1b~0c"]),
        (b'{"a":NaN}', ["/a"]),
        (b'{"a":[0,Infinity,-Infinity]}', ["/a/1", "/a/2"]),
        (b'{"a":1e999}', ["/a"]),
        (b'{"a":"\\u0000"}', ["/a"]),
        (b'{"\\u0000":1}', ["/\0"]),
        (b'{"a":["\\ud800"]}', ["/a/0"]),
        (b'{"a":"\\uDFFF"}', ["/a"]),
        (b'{"a":"\\udc00\\ud800"}', ["/a"]),
        (b'{"\\udabc":1}', ["/\\udabc"]),
        (b'{"a":NaN,"b":"\\u0000","c":{"d":1,"d":2}}', ["/a", "/b", "/c/d"]),
    ]:
        with subtests.test(body=body, expected=expected):
            assert pointers(body) == expected


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a":"\\\\u0000"}', "\\u0000"),
        (b'{"a":"\\ud83d\\ude00"}', "😀"),
        (b'{"a":"\\\\ud800"}', "\\ud800"),
        (b'{"a":1e3}', 1000.0),
        (b'{"a":"NaN"}', "NaN"),
    ],
)
def test_what_only_looks_like_a_fault_passes(body: bytes, value: object) -> None:
    assert parse(body) == {"a": value}


def test_a_key_that_comes_very_often_is_named_once_and_at_once() -> None:
    assert pointers(b"{" + b",".join([b'"a":1'] * 100_000) + b"}") == ["/a"]


def test_no_more_than_twenty_fields_are_named() -> None:
    assert len(pointers(b'{"a":[' + b",".join([b"NaN"] * 1000) + b"]}")) == 20


@given(st.dictionaries(TEXT, VALUES, min_size=1, max_size=5), st.data())
def test_a_repeated_key_is_always_refused(value: dict[str, object], data: st.DataObject) -> None:
    pairs = list(value.items())
    repeated = (data.draw(st.sampled_from(pairs))[0], data.draw(VALUES))
    pairs.insert(data.draw(st.integers(0, len(pairs))), repeated)
    body = "{" + ",".join(f"{json.dumps(key)}:{json.dumps(each)}" for key, each in pairs) + "}"
    with pytest.raises(InvalidRequestException):
        parse(body.encode())


async def test_large_bodies_are_read_like_small_ones() -> None:
    large = json.dumps({"a": ["x" * 100] * 5000}).encode()
    assert len(large) > 256 * 1024
    assert await off_loop(parse, large) == json.loads(large)
    assert await off_loop(parse, b'{"a":1}') == {"a": 1}


def test_json_in_utf_8_is_taken(subtests: pytest.Subtests) -> None:
    for content_type in [
        b"application/json",
        b"Application/JSON",
        b"application/json;charset=utf-8",
        b'application/json; charset="UTF-8"',
        b"application/json ; charset=UTF-8 ",
        b"application/json;",
    ]:
        with subtests.test(content_type=content_type):
            check_headers([(b"host", b"klamm"), (b"content-type", content_type), (b"content-length", b"10")], 10)


def test_other_media_types_are_refused(subtests: pytest.Subtests) -> None:
    for headers in [
        [],
        [(b"content-type", b"")],
        [(b"content-type", b"text/plain")],
        [(b"content-type", b"application/jsonp")],
        [(b"content-type", b"application/problem+json")],
        [(b"content-type", b"application/json; charset=latin-1")],
        [(b"content-type", b"application/json; charset=utf-16")],
        [(b"content-type", b"\xff\xfe")],
        [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")],
    ]:
        with subtests.test(headers=headers), pytest.raises(UnsupportedMediaTypeException):
            check_headers(headers, 10)


def test_the_identity_encoding_is_none() -> None:
    check_headers([(b"content-type", b"application/json"), (b"content-encoding", b"Identity")], 10)


def test_a_length_above_the_bound_is_refused_before_the_body_is_read() -> None:
    with pytest.raises(RequestTooLargeException, match="larger than 10 bytes"):
        check_headers([(b"content-type", b"application/json"), (b"content-length", b"11")], 10)


class Caller:
    """Sends its chunks, then nothing."""

    def __init__(self, *messages: Message) -> None:
        self.messages = list(messages)

    async def __call__(self) -> Message:
        if not self.messages:
            await asyncio.Event().wait()
        return self.messages.pop(0)


def chunk(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_chunks_make_one_body() -> None:
    assert await read_body(Caller(chunk(b"a"), chunk(b""), chunk(b"b", more=False)), 2) == b"ab"
    assert await read_body(Caller(chunk(b"a"), chunk(b"b", more=False)), 2) == b"ab"
    assert await read_body(Caller({"type": "http.request"}), 2) == b""


async def test_a_body_without_a_length_is_counted_while_it_comes() -> None:
    caller = Caller(*[chunk(b"xx")] * 10)
    with pytest.raises(RequestTooLargeException):
        await read_body(caller, 5)
    assert len(caller.messages) == 7


async def test_a_caller_that_leaves_ends_the_reading() -> None:
    with pytest.raises(ClientDisconnect):
        await read_body(Caller(chunk(b"a"), {"type": "http.disconnect"}), 10)


async def test_a_body_that_does_not_come_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BODY_TIMEOUT_S", 0.01)
    with pytest.raises(BodyTimedOutException):
        await read_body(Caller(chunk(b"a")), 10)


def test_the_reader_gives_plain_values() -> None:
    value: Any = parse(b'{"a":{"b":[1.5,true,null]}}')
    assert type(value) is dict
    assert value == {"a": {"b": [1.5, True, None]}}
