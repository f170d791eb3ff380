"""Everything that reads what comes over the network, with the most hostile input of each kind: at worst linear.

Regular expressions are looked at one by one in `test_linear_patterns`; here each parser is asked as requests ask it.
"""

import asyncio
import base64
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest
from pydantic import TypeAdapter

from app.core.explain.misses import _name_distance, _unlike
from app.core.index.prefixes import shared_length
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import CONFIG_NAMES, validate_config
from app.core.kafka.errors import ApiException
from app.core.kafka.hosts import is_loopback, parse_address, parse_cidr
from app.core.kafka.validation import validate_new_acl
from app.core.token import Token
from app.logs.json_text import json_string
from app.logs.redaction import redacted
from app.rest.bodies import strict_json
from app.rest.bodies.acls import CreateAclsRequest, DeleteAclsRequest
from app.rest.bodies.decisions import AuthorizeRequest
from app.rest.bodies.fields import OPERATION_CODES, unknown_word
from app.rest.bodies.reading import check_headers, read_struct, strict_decoder
from app.rest.bodies.strict_json import MAX_KEYS, parse
from app.rest.callers.authentication import shows_one_at_most
from app.rest.callers.certificates import names_of
from app.rest.callers.jwt_tokens import _glance
from app.rest.callers.roles import TokenRefusedError
from app.rest.errors import problem_response
from app.rest.http.correlation import mark_of_headers
from app.rest.http.framing import BadLineError, Framing, HeadTooLargeError
from app.runtime.listing import CURSORS
from tests.linear import is_linear
from tests.wires import CHUNKED, HEAD, LINE, connected, request

HEAD_BYTES = 4_096
"""And four times as many, as a head may have."""
BODY_BYTES = 32_768
STRUCT_BYTES = 110_000
"""Shorter ones are looked at by the decoder alone, which gives up early (`app.rest.bodies.reading`)."""
Parser = Callable[[Any], object]
Shape = Callable[[int], Any]
Row = tuple[Parser, dict[str, Shape], int]
REFUSALS = (
    *(ApiException, TokenRefusedError, BadLineError, HeadTooLargeError),
    *(msgspec.DecodeError, UnicodeDecodeError),
)
URL = "/v1/data"


def field(name: str) -> Parser:
    """What looks at one header."""
    return lambda value: check_headers([(name.encode(), value)], 1_000)


def texts(*units: str, begin: str = "", end: str = "") -> dict[str, Shape]:
    """Each of these again and again."""
    return {
        f"{begin}{unit!r}...{end}": lambda n, unit=unit: begin + unit * (n // len(unit)) + end  # type: ignore[misc]  # bound at once
        for unit in units
    }


def octets(*units: bytes, begin: bytes = b"", end: bytes = b"") -> dict[str, Shape]:
    """The same in bytes."""
    return {
        f"{begin!r}{unit!r}...{end!r}": lambda n, unit=unit: begin + unit * (n // len(unit)) + end  # type: ignore[misc]  # bound at once
        for unit in units
    }


def cut(data: bytes) -> list[int]:
    """Where a connection cuts what comes."""
    pieces, at, ends = Framing(), 0, []
    while at < len(data):
        begin = pieces.skip(data, at)
        at = pieces.end(data, begin) if begin < len(data) else begin
        ends.append(at)
        if data.startswith(b"POST", begin):
            pieces.end_head(None if b"chunked" in data[begin:at] else 0)
        if data.startswith(b"GET", begin):
            pieces.end_message()
    return ends


def say(data: bytes | list[bytes]) -> bytes:
    """A whole connection, whose application is not begun."""

    async def talk() -> bytes:
        connection, wire = connected()
        for segment in [data] if isinstance(data, bytes) else data:
            connection.data_received(segment)
        connection.connection_lost(None)
        return wire.written

    return asyncio.run(talk())


def dripped(n: int) -> list[bytes]:
    data = HEAD[:-2] + b"X: " + b"x" * n
    return [data[at : at + 1] for at in range(len(data))]


def read(struct: type[Any]) -> Parser:
    """A whole body, with the words for what is wrong with it."""
    decode = strict_decoder(struct)
    return lambda value: asyncio.run(read_struct(decode, json.dumps(value).encode()))


def refused(value: dict[str, object]) -> object:
    try:
        return read(AuthorizeRequest)(value)
    except ApiException as why:
        return problem_response(why)


class Transport(asyncio.BaseTransport):
    """Of a client whose certificate has these names."""

    def __init__(self, names: list[tuple[str, str]]) -> None:
        super().__init__()
        self._names = names

    def get_extra_info(self, name: str, _default: object = None) -> Any:  # noqa: ANN401 - as asyncio names it
        assert name == "peercert"
        return {"notAfter": "Jan  5 09:34:43 2038 GMT", "subjectAltName": tuple(self._names)}


def binding(name: str, host: str = "*") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, PatternType.LITERAL, "User:a", host, AclOperation.READ, AclPermissionType.ALLOW
    )


JSON_SHAPES = {
    **octets(
        b"[", b"{", b"]", b"[]", b"{}", b"[{", b'{"a":', b'"', b"\\", b'\\"', b" ", b"\n", b"0", b"9", b",", b"-", b"e"
    ),
    **octets(b"1", b"9", b"0", b"1,", begin=b'{"a":[', end=b"]}"),
    **octets(b"9", b"0", begin=b'{"a":0.', end=b"}"),
    **octets(b"9", b"0", begin=b'{"a":1e', end=b"}"),
    **octets(
        rb"\u0000",
        rb"\ud800",
        rb"\udc00\ud800",
        rb"\\",
        rb"\"",
        rb"\u00",
        b"\xc3",
        b"\xed\xa0\x80",
        begin=b'{"a":"',
        end=b'"}',
    ),
    **octets(b"NaN,", b"Infinity,", b"1e999,", b'"\\ud800",', b'"",', b"[],", b"{},", begin=b'{"a":[', end=b"1]}"),
    **octets(b'"a":1,', b'"\\u0061":1,', b'"":1,', b'"a":{"b":1,"b":2},', begin=b"{", end=b'"a":1}'),
    **octets(b'{"a":1,"a":2},', b'[[[[[[["\\ud800"]]]]]]],', begin=b'{"a":[', end=b"1]}"),
    "many keys": lambda n: json.dumps({f"k{at}": at for at in range(n // 10)}).encode(),
    "many objects with many keys": lambda n: json.dumps(
        {"a": [{f"k{at}": at for at in range(MAX_KEYS // 5)}] * (n // 2_000)}
    ).encode(),
    "a key that is long and comes twice": lambda n: b'{"%b":1,"%b":2}' % (b"k" * n, b"k" * n),
    "long keys over bad values": lambda n: json.dumps({"k" * n: {"k" * n: {"k" * n: ["\ud800"] * 30}}}).encode(),
}
FIELDS = {
    "no field is right": lambda n: {"context": {}, "actions": [{"x": 1, "y": 2}] * (n // 20)},
    "nothing is an object": lambda n: {"context": 1, "actions": [1] * (n // 2)},
    "unknown fields": lambda n: {f"f{at}": at for at in range(n // 10)},
    "a long unknown field": lambda n: {"f" * n: 1},
    "slashes": lambda n: {"~/" * (n // 2): 1},
    "long words": lambda n: {"context": {"principal": "U" * n, "client_address": "x" * n}, "actions": []},
}
TABLE: dict[str, Row] = {
    "content-type": (
        field("content-type"),
        {
            **octets(b" ", b"\t", b";", b" ;", b"; ", b" \t", b"charset=", b'"', begin=b"application/json", end=b"x"),
            **octets(b" ", b'"', begin=b"application/json;charset=utf-8", end=b"x"),
            **octets(b" ", begin=b"application/json;", end=b"charset=utf-9"),
            **octets(b"application/json", b"a", b"\xff"),
        },
        HEAD_BYTES,
    ),
    "content-encoding": (field("content-encoding"), octets(b"identity", b" ", b"gzip,"), HEAD_BYTES),
    "traceparent and x-request-id": (
        lambda value: mark_of_headers([(b"traceparent", value), (b"x-request-id", value)]),
        {
            **octets(b"-", b"00-", b"0", b"\n", b"a"),
            **octets(b"-", b"a", b"\n", begin=b"01-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01-"),
            **octets(b"klamm", b"klamm_", b"eyJ", b"~"),
        },
        HEAD_BYTES,
    ),
    "authorization": (
        lambda n: shows_one_at_most([(b"authorization", b"Bearer x")] * n),
        {"many": lambda n: n},
        HEAD_BYTES,
    ),
    "JWT": (
        _glance,
        {**texts(".", "a", "a.b.", "=", "é", "[[["), **texts("W1tb", "eyJh", "-_", begin="e30.", end=".x")},
        2_000,
    ),
    "request lines and chunks": (
        cut,
        {
            **octets(b"\r\n", b"\r", b"\n", b" ", b"G", b"GET ", b"GET / HTTP/1.1\r\n\r\n", b"\r\n\r\n\r"),
            **octets(b"x", b" ", b"/", begin=b"GET /", end=b" HTTP/1.1\r\n\r\n"),
            **octets(
                b"1\r\na\r\n",
                b"0",
                b"01\r\na\r\n",
                b"1;\r\na\r\n",
                b"1;a=b\r\na\r\n",
                b"f",
                b";",
                b"\r",
                b"\n",
                b"\r\n",
                begin=CHUNKED,
            ),
            **octets(b"10\r\n0123456789abcdef\r\n", b"X: y\r\n", begin=CHUNKED),
            **octets(b"X: y\r\n", b"\r", b"x", begin=CHUNKED + b"0\r\n"),
        },
        BODY_BYTES,
    ),
    "a connection": (
        say,
        {
            **octets(b"x", b" ", b"\r", b"\r\n", b"X: y\r\n", b" ,", begin=HEAD[:-2] + b"X: "),
            **octets(b"Upgrade,", b",", b" ", begin=HEAD[:-2] + b"Upgrade: h2c\r\nConnection: ", end=b"\r\n\r\nplain"),
            **octets(b"[", b":", b"a", b"0", b"%", begin=LINE + b"\r\nHost: ", end=b"/\r\n\r\n"),
            **octets(request(b"plain"), request(b"slow"), request(b"plain", b"Upgrade: h2c", b"Connection: Upgrade")),
            **octets(b"1\r\na\r\n", b"1;a\r\na\r\n", b"8\r\n\r\n\r\n\r\n\r\n\r\n", begin=CHUNKED),
            "byte by byte": dripped,
        },
        HEAD_BYTES,
    ),
    "query strings": (parse_qsl, texts("a=b&", "&", "=", "%", "%25", "+", "a=%ff&", ";"), HEAD_BYTES),
    "JSON": (parse, JSON_SHAPES, BODY_BYTES),
    "brackets and commas": (lambda body: sum(map(len, strict_json._structure(body))), JSON_SHAPES, STRUCT_BYTES),
    "authorize's JSON": (strict_decoder(AuthorizeRequest), JSON_SHAPES, STRUCT_BYTES),
    "createAcls' JSON": (strict_decoder(CreateAclsRequest), JSON_SHAPES, STRUCT_BYTES),
    "which fields of authorize are wrong": (read(AuthorizeRequest), FIELDS, BODY_BYTES),
    "which fields of createAcls are wrong": (
        read(CreateAclsRequest),
        {**FIELDS, "bindings": lambda n: {"context": {}, "bindings": [{"a": 1, "b": {}}] * (n // 20)}},
        BODY_BYTES,
    ),
    "which fields of deleteAcls are wrong": (
        read(DeleteAclsRequest),
        {**FIELDS, "filters": lambda n: {"context": {}, "filters": [{"host": 1}] * (n // 20)}},
        BODY_BYTES,
    ),
    "the words for wrong fields": (refused, FIELDS, BODY_BYTES),
    "enum words": (
        lambda word: (AclOperation.from_string(word), unknown_word(word, OPERATION_CODES)),
        texts("READ", "r", " ", "_", "ß", "İ"),
        100_000,
    ),
    "cursors": (
        CURSORS.decode,
        {
            **texts("A", "=", "W1tb", "é", "-_"),
            "brackets": lambda n: base64.urlsafe_b64encode(b"[" * n).decode(),
            "digits": lambda n: base64.urlsafe_b64encode(b"[" + b"9" * n + b"]").decode(),
            "names": lambda n: base64.urlsafe_b64encode(json.dumps([2, "x" * n, 3, "", "", 1, 1]).encode()).decode(),
        },
        BODY_BYTES,
    ),
    "tokens": (
        Token.parse,
        {**texts("0", "-", ":", "a"), **texts("1", begin="01234567-0123-0123-0123-0123456789ab:")},
        BODY_BYTES,
    ),
    "client addresses": (
        parse_address,
        {
            **texts("1", "1.", ":", "::", "0", "f:", "%"),
            **texts("e", begin="fe80::1%"),
            **texts("0", begin="::", end="g"),
        },
        BODY_BYTES,
    ),
    "ACL hosts": (
        parse_cidr,
        {
            **texts("1", "1.", ":", "::", "0:", "/", "0", "00:"),
            **texts("0", begin="::/"),
            **texts("0", begin="10.0.0.0/"),
            **texts("0", begin="::", end="g/64"),
            **texts("0", "0:", begin="::ffff:", end=".1.2.3/96"),
        },
        BODY_BYTES,
    ),
    "loopback": (is_loopback, texts("1", ":", ".", "0"), BODY_BYTES),
    "bindings": (
        lambda text: (validate_new_acl(binding(text)), validate_new_acl(binding("a", text))),
        texts("a", ".", "*", ":", " ", "/", "é", "\ud800"),
        BODY_BYTES,
    ),
    "configuration": (
        lambda text: [_quietly(validate_config, name, text) for name in (*CONFIG_NAMES, text)],
        texts(";", ",", " ", "User:a;", "a,", "9", "\0", "é"),
        BODY_BYTES,
    ),
    "names that are nearly alike": (
        lambda text: (shared_length(text, text + "a"), _unlike(text, text[:-1] + "b"), _name_distance(text, text)),
        texts("a", "ab", "é"),
        BODY_BYTES,
    ),
    "names of certificates": (
        lambda names: names_of(Transport(names)),
        {
            "many": lambda n: [("DNS", "a")] * n,
            "long": lambda n: [("URI", "a" * n)],
            "others": lambda n: [("IP", "")] * n,
        },
        BODY_BYTES,
    ),
    "what is logged": (
        lambda text: (redacted(text), json_string(text)),
        texts("bearer ", "password=", "klamm_", "a.", "\\", '"', "\u2028", "=", " ", "sha256:", "%20", "eyJ."),
        BODY_BYTES,
    ),
}


def _quietly(parser: Callable[..., object], *arguments: Any) -> object:  # noqa: ANN401 - whatever is parsed
    with suppress(*REFUSALS):
        return parser(*arguments)
    return None


@pytest.mark.parametrize(("parser", "shape"), [(parser, shape) for parser, row in TABLE.items() for shape in row[1]])
def test_a_parser_takes_no_longer_than_its_input_is_long(
    parser: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, shapes, size = TABLE[parser]
    # What exceeds them is read no further: the longer input of the two might be, and the shorter one not.
    monkeypatch.setattr(strict_json, "MAX_CONTAINERS", 1 << 40)
    monkeypatch.setattr(strict_json, "MAX_VALUES", 1 << 40)

    def work(n: int) -> Callable[[], object]:
        data = shapes[shape](n)
        return lambda: _quietly(read, data)

    assert is_linear(work, size)


def test_what_is_not_linear_is_seen() -> None:
    def pairs(n: int) -> Callable[[], object]:
        return lambda: sum(1 for _ in range(n) for _ in range(n))

    assert not is_linear(pairs, 64)
    assert is_linear(lambda n: lambda: sum(range(n)), 4_096)
    assert is_linear(lambda _: lambda: TypeAdapter(int).validate_python(1), 64)
