"""authorize answered at once: whatever comes, it answers, counts and logs as its route does, byte for byte."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.core.kafka.codes import AclOperation
from app.rest.http.connection import Phase
from app.rest.http.heads import plain_head
from tests.gate.unit.rest.twins import BROKER, QUOTA, Twins, twins
from tests.klamm import InProcess, acl, in_process

PATH = "/v1/authorize"
ACLS = [
    acl("orders"),
    acl("ord", "User:bob", pattern_type="PREFIXED"),
    acl("*", "User:*", "ALL", resource_type="GROUP"),
    acl("orders", operation="WRITE", permission_type="DENY", host="10.1.2.3"),
    acl("pay", operation="WRITE", pattern_type="PREFIXED"),
    acl("orders", "User:orders-1", host="0:0:0:0:0:0:0:1"),
    acl("kafka-cluster", operation="IDEMPOTENT_WRITE", resource_type="CLUSTER"),
]
OFFER = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQ")
TRACE = b"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TARGETS = (
    "/v1/data/kafka/authz/allow",
    "/readyz",
    *(f"{PATH}{end}" for end in ("/", "?pretty", "#x", "d")),
    "/v1/%61uthorize",
    f"/{PATH}",
    f"http://k{PATH}",
)
ODD_HEADERS: tuple[tuple[bytes, ...], ...] = (
    (b"Content-Type: text/plain",),
    (b"Content-Type: application/json; charset=utf-8",),
    (b"Content-Encoding: gzip",),
    (b"Content-Encoding: identity",),
    (b"Origin: http://evil.example.com",),
    (b"Connection: close",),
    (b"Connection: keep-alive",),
    (b"Expect: 100-continue",),
    (b"Transfer-Encoding: chunked",),
    (b"Host: again",),
    (b"Via: a", b"Via: b"),
    (b"X-Request-Id: mine",),
    (b"X-Request-Id: mine", b"X-Request-Id: yours"),
    (b"X-Request-Id: klamm_" + b"s" * 43,),
    (TRACE,),
    (TRACE, TRACE),
    (TRACE[:-2] + b"zz",),
    (TRACE.replace(b" 00-", b" 01-") + b"-more",),
    (b"X: " + b"x" * 3_000,),
    (b"Bad Header: x",),
    (b"Authorization: Bearer wrong",),
    (b"Authorization: Bearer wrong", b"Authorization: Bearer wrong"),
    (b"Authorization: Basic YTpi",),
)


def one_action(operation: str = "READ", name: str = "orders", type_: str = "TOPIC", **more: object) -> dict[str, Any]:
    return {"operation": operation, "resource_type": type_, "resource_name": name, **more}


def asking(*actions: dict[str, Any], principal: str = "User:alice", address: str = "10.1.2.3") -> dict[str, Any]:
    """A body; without actions, one about `orders`."""
    context = {"principal": principal, "client_address": address}
    return {"context": context, "actions": actions or [one_action()]}


def question(draw: random.Random) -> dict[str, Any]:
    """One that a client may ask."""
    actions = [
        one_action(
            draw.choice([*AclOperation.__members__, "READ", "READ", "WRITE"]),
            draw.choice(["orders", "order", "payments", "kafka-cluster", "", "ü", 'a"b\\c', "a/b:c"]),
            draw.choice(["TOPIC", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "LATER"]),
            log_if_allowed=draw.random() < 0.5,
            log_if_denied=draw.random() < 0.5,
        )
        for _ in range(draw.choice([1, 1, 2, 30]))
    ]
    for action in actions if draw.random() < 0.7 else ():
        # Words that are not known refuse the whole request: most requests have none.
        action.update(operation="WRITE" if "W" in action["operation"] else "READ", resource_type="TOPIC")
        action["resource_name"] = action["resource_name"] or "orders"
    body = asking(
        *actions,
        principal=draw.choice(
            ["User:alice", "User:bob", "User:admin", "User:orders-1", "User:CN=a:b,O=c", "User:ä", ""]
        ),
        address=draw.choice(["10.1.2.3", "10.9.9.9", "::1", "0:0:0:0:0:0:0:1", "fe80::1%eth0", "x"]),
    )
    if draw.random() < 0.3:
        body["context"] |= draw.choice(
            [{"groups": ["a"]}, {"listener_name": "CLIENT"}, {"correlation_id": 3}, {"later": 1}]
        )
    if draw.random() < 0.2:
        body |= draw.choice([{"with_rules": True}, {"at_least": "garbage"}, {"later": {"a": 1}}])
    return body


def spoiled(draw: random.Random) -> bytes:
    """A body that is a little, or much, out of order."""
    junk: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], {}, {"result": True}, "true", 2**70, "\0", "/", ":")
    body = copy.deepcopy(question(draw))
    for _ in range(draw.choice([1, 1, 2, 5])):
        at: Any = body
        while isinstance(at, dict) and at:
            key = draw.choice(list(at))
            if draw.random() < 0.3 or not isinstance(at[key], dict):
                at[draw.choice([key, key, "results", "later"])] = copy.deepcopy(draw.choice(junk))
                break
            at = at[key]
    text = bytearray(json.dumps(body).encode())
    if draw.random() < 0.4:
        for _ in range(draw.choice([1, 2, 8])):
            text[draw.randrange(len(text))] = draw.choice(b'"{}[],:\\ \x00\xff0a')
    if draw.random() < 0.2:
        text = text[: draw.randrange(len(text))]
    return bytes(text)


def bodies(draw: random.Random) -> Iterator[bytes]:
    """Questions, questions out of order, and what is none."""
    changes: tuple[Callable[[bytes], bytes], ...] = (
        lambda body: body.replace(b'"principal"', b'"principal": "User:admin", "principal"', 1),
        lambda body: body.replace(b'"operation"', b'"later": {"a": 1, "a": 2}, "operation"'),
        lambda body: body.replace(b'"actions"', b'"act\\u0069ons"'),
        lambda body: body.replace(b"orders", b"ord\xffers"),
        lambda body: body.replace(b"orders", b"ord\\ud800ers"),
        lambda body: body.replace(b"orders", b"ord\\u0000ers"),
        lambda body: b"\xef\xbb\xbf" + body,
        lambda body: b"\r\n\t " + body + b"\n",
        lambda body: body + b"{}",
        lambda body: body[:-1],
        lambda body: body[:0],
        lambda body: b"[" * 200 + body,
        lambda body: body + b" " * draw.choice([70_000, 300_000, 1_100_000]),
    )
    while True:
        if draw.random() < 0.2:
            yield spoiled(draw)
            continue
        body = json.dumps(question(draw), ensure_ascii=draw.random() < 0.3).encode()
        yield draw.choice(changes)(body) if draw.random() < 0.3 else body


def request(draw: random.Random, body: bytes, target: str, tokens: dict[str, str]) -> tuple[bytes, bytes]:
    """Head and body."""
    method = "POST" if draw.random() < 0.95 else draw.choice(["GET", "PUT", "HEAD", "CONNECT"])
    version = "1.1" if draw.random() < 0.97 else draw.choice(["1.0", "2.0", "x"])
    lines = [f"{method} {target} HTTP/{version}".encode(), b"Host: localhost"]
    lines += OFFER if draw.random() < 0.3 else ()
    if tokens and draw.random() < 0.9:
        lines.append(f"Authorization: Bearer {tokens[draw.choice(list(tokens))]}".encode())
    if draw.random() < 0.2:
        lines += draw.choice(ODD_HEADERS)
    if draw.random() < 0.97:
        lines.append(b"Content-Type: application/json")
    length = len(body) if draw.random() < 0.97 else max(0, len(body) + draw.choice([-1, 1, 40]))
    if draw.random() < 0.98:
        lines.append(b"Content-Length: %d" % length)
    return b"\r\n".join((*lines, b"", b"")), body


def segments_of(draw: random.Random, head: bytes, body: bytes) -> list[bytes]:
    """The request as it comes: at once, in two, cut anywhere, with another one behind it."""
    whole, cut = head + body, draw.randrange(1, len(head) + 1)
    shapes = [[whole], [whole], [whole, whole], [head, body], [whole[:cut], whole[cut:]], [whole + whole]]
    return [each for each in draw.choice(shapes) if each]


async def compare(it: Twins, draw: random.Random, requests: int, *, at_least: int) -> tuple[int, int]:
    """Say so many requests to both, over some connections, and more until so many are decided at once.

    How many were decided, and how many of them at once.
    """
    said, decided, stream, before = 0, 0, bodies(draw), it.fast.answered
    it.connect()
    while said < requests or min(decided, it.fast.answered - before) < at_least:
        said += 1
        if it.is_closed or draw.random() < 0.05:
            it.connect(BROKER if draw.random() < 0.5 else None)
        head, body = request(draw, next(stream), PATH if draw.random() < 0.9 else draw.choice(TARGETS), it.tokens)
        written = await it.say(*segments_of(draw, head, body))
        decided += written.count(b'{"results":')
        if not it.fast.wire.closed and not (it.fast.connection and it.fast.connection.phase is Phase.BETWEEN):
            # What waits for the rest of a body is of no use to the next request.
            it.connect()
    return decided, it.fast.answered - before


async def compare_on(service: InProcess, tmp_path: Path, seed: int, requests: int, *, guarded: bool) -> None:
    """A fifth of the requests is decided at once, or more."""
    await service.create(*ACLS)
    try:
        async with twins(service, tmp_path, guarded=guarded) as it:
            decided, at_once = await compare(it, random.Random(seed), requests, at_least=requests // 5)
            audited, logged = it.end()
    except AssertionError as fault:
        raise AssertionError(f"seed {seed}") from fault
    assert min(audited, logged) > 10
    assert at_once > decided // 2


async def compare_started(how: dict[str, bool], tmp_path: Path, seed: int, requests: int) -> None:
    async with in_process(**how) as service:  # type: ignore[arg-type]  # one of them
        try:
            async with twins(service, tmp_path) as it:
                await compare(it, random.Random(seed), requests, at_least=requests // 100)
                it.end()
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}") from fault


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
async def test_nobody_can_tell_it_from_the_route(
    service: InProcess,
    tmp_path: Path,
    guarded: bool,  # noqa: FBT001 - a parameter of a table
    level: str,
) -> None:
    await service.configure("audit.level", level)
    await compare_on(service, tmp_path, 4711, 200, guarded=guarded)


@pytest.mark.parametrize("how", [{"reachable": False}, {"enabled": False}])
async def test_nor_where_nothing_is_loaded_or_everything_allowed(tmp_path: Path, how: dict[str, bool]) -> None:
    await compare_started(how, tmp_path, 4711, 200)


def plain(body: object, *more: bytes) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = (f"POST {PATH} HTTP/1.1".encode(), b"Host: localhost", b"Content-Type: application/json", *more)
    return b"\r\n".join((*lines, b"Content-Length: %d" % len(content), b"", b"")) + content


DENIED, ALLOWED = b'{"results":["DENIED"]', b'{"results":["ALLOWED"]'


@pytest.mark.parametrize("offer", [OFFER, ()])
async def test_a_plain_request_is_answered_at_once(
    service: InProcess, tmp_path: Path, offer: tuple[bytes, ...]
) -> None:
    whole = plain(asking(), *offer)
    end = whole.index(b"\r\n\r\n") + 4
    async with twins(service, tmp_path) as it:
        it.connect()
        # With the parser, by the head that is remembered, and in two pieces as Java may send it.
        for segments in ((whole,), (whole,), (whole[:end], whole[end:])):
            assert DENIED in await it.say(*segments)
        assert it.fast.answered == 3
        it.end()


async def test_what_changes_is_seen_by_the_next_question(service: InProcess, tmp_path: Path) -> None:
    async with twins(service, tmp_path) as it:
        it.connect()
        assert DENIED in await it.say(plain(asking()))
        await service.create(acl("orders"))
        assert ALLOWED in await it.say(plain(asking()))
        await service.create(acl("orders", permission_type="DENY"))
        assert DENIED in await it.say(plain(asking()))
        assert it.fast.answered == 3
        it.end()


async def test_a_quota_is_spent_alike(service: InProcess, tmp_path: Path) -> None:
    async with twins(service, tmp_path, guarded=True) as it:
        shown = b"Authorization: Bearer " + it.tokens["limited"].encode()
        wrong: list[object] = [asking(principal="User:admin"), asking(one_action("LATER")), asking(address="x"), {}]
        it.connect()
        requests = [plain(body, shown) for body in (asking(), *wrong)]
        for at in range(QUOTA + 5):
            status = (await it.say(requests[at % len(requests)]))[9:12]
            assert (status == b"429") == (at >= QUOTA)
        # The first one tells who shows this token.
        assert it.fast.answered == QUOTA // len(requests) - 1
        it.end()


async def test_certificates_tell_who_asks(service: InProcess, tmp_path: Path) -> None:
    async with twins(service, tmp_path, guarded=True) as it:
        for peercert, status in ((BROKER, b"200"), (None, b"401")):
            it.connect(peercert)
            for _ in range(2):
                assert (await it.say(plain(asking())))[9:12] == status
        assert it.fast.answered == 2
        it.end()


async def test_a_body_too_long_for_a_step_is_no_matter_of_a_step(service: InProcess, tmp_path: Path) -> None:
    async with twins(service, tmp_path) as it:
        it.connect()
        for size, at_once in ((200_000, 1), (300_000, 1)):
            assert (await it.say(plain(json.dumps(asking()).encode() + b" " * size)))[9:12] == b"200"
            assert it.fast.answered == at_once
        it.end()


async def test_heads_are_remembered(service: InProcess, tmp_path: Path) -> None:
    async with twins(service, tmp_path) as it:
        it.connect()
        whole = plain(asking(), *OFFER)
        await it.say(whole)
        head = whole[: whole.index(b"\r\n\r\n") + 4]
        known = plain_head(head)
        assert known is not None
        assert (known.target, known.length) == (PATH.encode(), len(whole) - len(head))
        assert all(name not in (b"upgrade", b"http2-settings") for name, _ in known.headers)
        it.end()
