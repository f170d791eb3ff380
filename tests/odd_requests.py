"""Requests that are made to take long: bodies, forms, queries and headers, each within the bounds of its kind."""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

MIB = 1024 * 1024
_HEAD = 15 * 1024
_LARGE = 240 * 1024
_FEW = ("%x", "a,", "[],", "\\1", "READ t:a ", ":")
_MANY = (*_FEW, "%41", "%", "+", "&", "=", "a=b&", "a&", ";", "%25", "a.", "é", '"', "\\", '\\"', "a b ", "/", "1")


def texts(size: int, units: tuple[str, ...] = _MANY) -> Iterator[str]:
    """Long texts that parsers of queries, cookies, cursors and words may stumble over."""
    for unit in units:
        yield unit * (size // len(unit))


def few_texts(size: int) -> Iterator[str]:
    return texts(size, _FEW)


def repeated(unit: bytes, size: int, begin: bytes = b"", end: bytes = b"") -> bytes:
    return begin + unit * ((size - len(begin) - len(end)) // len(unit)) + end


def bodies(valid: Mapping[str, Any], most: int) -> Iterator[tuple[str, bytes]]:
    """JSON bodies around a route's valid one, up to the `most` bytes that it takes."""
    begin = json.dumps(valid).encode()[:-1] + (b"," if valid else b"")
    for size in {_LARGE, most - 100}:
        for what, body in (*_values(begin, size), *_keys(begin, size)):
            yield f"{what}, {size}", body
    yield "60,000 empty objects", begin + b'"n":[' + b"{}," * 60_000 + b"{}]}"
    for name, value in valid.items():
        if isinstance(value, list) and value:
            yield from _lists(valid, name, value[0])
        if isinstance(value, dict):
            yield from _long_texts(valid, name, value)
    for name in ("cursor", "at", "at_least", "since", "until", "actor", "comment", "if_unchanged_since", "principal"):
        for at, long in enumerate((*few_texts(30_000), *cursors())):
            yield f"{name}, text {at}", json.dumps({**valid, name: long}).encode()
    if "context" in valid:
        for groups in (["g"] * 200, [f"{'g' * 250}{at}" for at in range(200)], ["g"] * 20_000):
            yield "groups", json.dumps({**valid, "context": {**valid["context"], "groups": groups}}).encode()


def _values(begin: bytes, size: int) -> Iterator[tuple[str, bytes]]:
    for unit in (b"{},", b"[],", b"0,", b"1e9,", b"NaN,", b'"",', b'"\\ud800",', b'"\\n",', b'{"a":1},', b"[[]],"):
        yield f"{unit!r} in a field", repeated(unit, size, begin + b'"n":[', b"0]}")
    deep = b'","m":' + b"[" * 40 + b"]" * 40 + b"}"
    for unit in (b"a", b"\\n", b'\\"', b"\\u00e9", b"{", b":", b",", b"\xc3\xa9", b"\\ud800"):
        yield f"{unit!r} in a text", repeated(unit, size, begin + b'"n":"', b'"}')
        yield f"{unit!r} in a text before many levels", repeated(unit, size, begin + b'"n":"', deep)
    for unit in (b"[", b"{", b'"', b"\\", b" ", b"]", b"1", b",", b'{"a":', b"%x", b"\xff", b"\x00"):
        yield f"{unit!r}", repeated(unit, size)


def _keys(begin: bytes, size: int) -> Iterator[tuple[str, bytes]]:
    keys = b",".join(b'"k%d":0' % at for at in range(size // 14))
    yield "keys", begin + keys + b"}"
    yield "one key", repeated(b'"k":0,', size, begin, b'"z":1}')
    yield "objects with many keys", begin + b'"n":[' + b",".join([b"{" + keys[:9_000] + b"0}"] * 20) + b"]}"


def _long_texts(valid: Mapping[str, Any], name: str, value: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    for key in (key for key, text in value.items() if isinstance(text, str)):
        for long in ("x" * 30_000, "/" * 30_000, "1:" * 15_000, "é" * 15_000):
            yield f"{name}.{key} long", json.dumps({**valid, name: {**value, key: long}}).encode()


def _lists(valid: Mapping[str, Any], name: str, entry: Any) -> Iterator[tuple[str, bytes]]:  # noqa: ANN401 - JSON
    yield f"1,000 {name}", json.dumps({**valid, name: [entry] * 1_000}).encode()
    if not isinstance(entry, dict):
        return
    for key in (*entry, "pattern_type", "host"):
        # 10,000 only of what is refused: the store of these tests works in the event loop.
        count = 10_000 if key in _CODED else 1_000
        for word in ("x", "REED", 1, None):
            some = [{**entry, key: word}] * count
            yield f"{count} {name}, {key} {word!r}", json.dumps({**valid, name: some}).encode()
    wrong = {key: "DESCRIBE_CONFIG" if isinstance(value, str) else value for key, value in entry.items()}
    yield f"{name}, all wrong", json.dumps({**valid, name: [wrong] * 10_000}).encode()
    yield f"{name}, all wrong, 1,000", json.dumps({**valid, name: [wrong] * 1_000}).encode()
    yield f"{name}, empty", json.dumps({**valid, name: [{}] * 10_000}).encode()


_CODED = ("resource_type", "operation", "permission_type", "pattern_type", "security_protocol", "port")


def cursors() -> Iterator[str]:
    """Cursors as pages give them out, which hold something else."""
    for raw in (
        b"[" * 20_000,
        b"[" + b"9" * 20_000 + b"]",
        b"[" + b"0," * 10_000 + b"0]",
        b"[" + b"[]," * 7_000 + b"0]",
    ):
        yield base64.urlsafe_b64encode(raw).decode()
    yield base64.urlsafe_b64encode(json.dumps([2, "x" * 20_000, 3, "", "", 1, 1]).encode()).decode()


def packed(text: str) -> str:
    return base64.urlsafe_b64encode(zlib.compress(text.encode())).rstrip(b"=").decode()


ACL = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:a",
    "host": "*",
    "operation": "READ",
    "permission_type": "ALLOW",
}


def changes(size: int) -> Iterator[tuple[str, str]]:
    """Plans as a form or an address carries them, of about this many characters."""
    for unit in ("[]", "{}", "0", "1e9", "NaN", '""', '"\\n"', "[[[]]]", '{"a":1}', json.dumps(ACL)):
        many = ",".join([unit] * (size // (len(unit) + 1)))
        yield f"creates {unit}", '{"create":[' + many + '],"delete":[]}'
        yield f"a field of {unit}", '{"create":[],"delete":[],"n":[' + many + "]}"
    some = [{**ACL, "resource_name": f"t{at}"} for at in range(500)]
    yield "500 ACLs", json.dumps({"create": some, "delete": []})
    yield "500 ACLs to delete", json.dumps({"create": [], "delete": some})
    for field in ("host", "principal", "resource_name", "expires_at", "owner"):
        yield (
            f"500 with a long {field}",
            json.dumps({"create": [{**each, field: "x" * (size // 600)} for each in some]}),
        )
    yield "brackets", "[" * size
    yield "a text", json.dumps("x" * size)
    yield "escapes", '{"create":"' + "\\u00e9" * (size // 6) + '"}'


def forms(token: str, most: int) -> Iterator[tuple[str, bytes]]:
    """Forms of up to so many bytes, the `token` of a session in front."""
    begin = f"form_token={token}&".encode()
    for at, text in enumerate(texts(most - 200)):
        yield f"text {at}", (begin + text.encode())[:most]
        yield f"text {at} without the token", text.encode()[:most]
    for at, text in enumerate(few_texts(most - 200)):
        for field in ("change", "fields", "back", "next", "token", "ends", "comment", "principal", "topics", "owner"):
            yield f"{field}, text {at}", (begin + f"{field}=".encode() + quote(text)[: most // 2].encode())[:most]
    yield "5,000 fields", begin + b"&".join(b"f%d=1" % at for at in range(4_990))
    producer = b"preset=producer&principal=User:a&resource_type=TOPIC&operation=READ&"
    for unit in (b"a,", b"%2C", b"ab,", b","):
        yield f"topics {unit!r}", repeated(unit, most - 100, begin + producer + b"topics=a,")
        yield (
            f"inputs {unit!r}",
            repeated(unit, most - 100, begin + b"preset=streams&principal=User:a&application_id=x&inputs=a,"),
        )
    for what, change in changes(most // 3):
        form = begin + b"token=x&change=" + quote(change).encode()
        if len(form) < most:
            yield f"change, {what}", form


FIELDS = (
    *("q", "at", "at_least", "made", "cursor", "principal", "groups", "type", "name", "host", "view", "run", "stop"),
    *(
        "until",
        "since",
        "actor",
        "comment",
        "change",
        "fields",
        "next",
        "instead",
        "preset",
        "topics",
        "wrong",
        "after",
    ),
    *("resource_type", "resource_name", "pattern_type", "operation", "permission_type", "verbose", "snapshot", "owner"),
)


def queries() -> Iterator[tuple[str, str]]:
    for at, text in enumerate(texts(_HEAD)):
        yield f"text {at}", text.replace(" ", "+").encode("ascii", "ignore").decode()
        yield f"q, text {at}", f"q={quote(text, safe='%+,.;/[]:')[:_HEAD]}"
    for at, text in enumerate(few_texts(_HEAD)):
        for field in FIELDS:
            yield f"{field}, text {at}", f"{field}={quote(text, safe='%+,.;/[]:')[:_HEAD]}"
    for cursor in cursors():
        yield "cursor", f"cursor={cursor[:_HEAD]}"
    for what, change in changes(250_000):
        if len(short := packed(change)) < _HEAD:
            yield f"change, {what}", f"change={short}"
    yield "all fields", "&".join(f"{field}={'x' * 300}" for field in FIELDS)
    yield "a creation", "wrong=yes&preset=producer&principal=User:a&topics=" + "a," * 7_000
    yield "groups", "principal=User:a&groups=" + "a," * 7_000
    yield "words", "q=" + "+".join(["READ"] * 2_900)
    yield "words nearly right", "q=" + "+".join(["a:b", "RAED"] * 1_600)
    yield "groups of a question", "q=User:bob+(groups+" + "a," * 7_000 + ")+READ+topic:a"


def headers(cookie: str) -> Iterator[tuple[str, str]]:
    """Header lines, by what they are; `cookie` is the name of the session's."""
    for at, text in enumerate(texts(_HEAD - 200)):
        value = text.encode("ascii", "ignore").decode()
        yield f"cookie, text {at}", f"cookie: {value}"
        yield f"cookie {cookie}, text {at}", f"cookie: {cookie}={value}"
        yield f"quoted cookie {cookie}, text {at}", f'cookie: {cookie}="{value}"'
    for at, text in enumerate(few_texts(_HEAD - 200)):
        for name in ("authorization", "accept", "content-type", "host", "origin", "last-event-id", "traceparent"):
            yield f"{name}, text {at}", f"{name}: {text}"
        yield f"JWT, text {at}", f"authorization: Bearer eyJhbGciOiJSUzI1NiJ9.{text}.x"
    yield "cookies", "cookie: " + f"{cookie}=a; " * 700
    yield "a sealed cookie", f"cookie: {cookie}=gAAAAA" + "A" * (_HEAD - 300)
