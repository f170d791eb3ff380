"""The OPA door's short cut: whatever comes, it answers, counts and logs as the long way does, byte for byte."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.core.kafka.codes import AclOperation
from app.rest.http.connection import Phase
from app.rest.http.heads import plain_head
from app.rest.routes import opa
from tests.unit.rest.harness import Service, allow, serving
from tests.unit.rest.opa_bodies import HEADER, OPA_PATH, asked, by_type, spoiled, with_context
from tests.unit.rest.opa_twins import BROKER, QUOTA, Twin, Twins, twins
from tests.unit.rest.wires import Clock

ACLS = [
    allow("READ", "orders"),
    allow("READ", "ord", pattern="PREFIXED", principal="User:bob"),
    allow("ALL", "*", type_="GROUP", principal="User:*"),
    allow("WRITE", "orders", permission="DENY", host="10.1.2.3"),
    allow("WRITE", "pay", pattern="PREFIXED"),
    allow("READ", "orders", principal="User:orders-1", host="0:0:0:0:0:0:0:1"),
    allow("IDEMPOTENT_WRITE", "kafka-cluster", type_="CLUSTER"),
]
pytestmark = pytest.mark.usefixtures("still")
OFFER = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQ")
TRACE = b"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TARGETS = ("/v1/data/other", "//v1/data/kafka/authz/allow", f"http://k{OPA_PATH}", "/v1/authorize", "/readyz")
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


@pytest.fixture
def still(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn is late and no deadline passes, however busy the machine is."""
    monkeypatch.setattr(opa, "monotonic", clock)
    monkeypatch.setattr(opa, "OPA_DEADLINE_S", 3_600.0)


def question(draw: random.Random) -> dict[str, Any]:
    """One that the plugin may ask."""
    principal = draw.choice(["alice", "bob", "carol", "admin", "orders-1", "CN=a:b,O=c", "ä", ""])
    if draw.random() < 0.15:
        return by_type(draw.choice(["WRITE", "READ", "LATER"]), draw.choice(["TOPIC", "GROUP"]), principal)
    address = draw.choice(
        ["/10.1.2.3", "10.1.2.3", "a.b/10.9.9.9", "/0:0:0:0:0:0:0:1", "/fe80:0:0:0:0:0:0:1%eth0", "/x"]
    )
    body = asked(
        draw.choice([*AclOperation.__members__, "READ", "READ", "WRITE"]),
        draw.choice(["orders", "order", "payments", "kafka-cluster", "", "ü", 'a"b\\c', "a/b:c"]),
        type_=draw.choice(["TOPIC", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "LATER"]),
        principal=principal,
        address=address,
        resourceReferenceCount=draw.choice([1, 1, 0, 7]),
        logIfAllowed=draw.random() < 0.5,
        logIfDenied=draw.random() < 0.5,
    )
    shapes: list[object] = [{"name": HEADER, "headerVersion": 2}, {"data": HEADER}, None, {}, {"name": None}]
    body["input"]["requestContext"]["header"] = draw.choice(shapes)
    return body


def bodies(draw: random.Random) -> Iterator[bytes]:
    """Questions, questions out of order, and what is none."""
    worse = spoiled(draw)
    changes: tuple[Callable[[bytes], bytes], ...] = (
        lambda body: body.replace(b'"name"', b'"name": "admin", "name"', 1),
        lambda body: body.replace(b'"operation"', b'"later": {"a": 1, "a": 2}, "operation"'),
        lambda body: body.replace(b'"operation"', b'"later": [1, "x:y"], "operation"'),
        lambda body: body.replace(b'"input"', b'"inp\\u0075t"'),
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
            yield next(worse)
            continue
        body = json.dumps(question(draw), ensure_ascii=draw.random() < 0.3).encode()
        yield draw.choice(changes)(body) if draw.random() < 0.3 else body


def target_of(draw: random.Random, cluster: str) -> str:
    """Mostly the door's."""
    if draw.random() < 0.8:
        return draw.choice([OPA_PATH, OPA_PATH, f"{OPA_PATH}/{cluster}"])
    near = [f"{OPA_PATH}{end}" for end in ("/", "/other", "?pretty", "#x", "/a%2Db", "/a/b", "/a.b", "ed")]
    return draw.choice([*near, OPA_PATH.replace("data", "dat%61"), *TARGETS])


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


async def compare(it: Twins, draw: random.Random, cluster: str, *, at_least: int) -> tuple[int, int]:
    """Say 1,000 requests to both, over some connections, and more until so many are decided at once.

    How many were decided, and how many of them at once.
    """
    said, decided, stream, before = 0, 0, bodies(draw), it.fast.answered
    it.connect()
    while said < 1_000 or min(decided, it.fast.answered - before) < at_least:
        said += 1
        if it.is_closed or draw.random() < 0.05:
            it.connect(BROKER if draw.random() < 0.5 else None)
        head, body = request(draw, next(stream), target_of(draw, cluster), it.tokens)
        written = await it.say(*segments_of(draw, head, body))
        decided += written.count(b'{"result":')
        if not it.fast.wire.closed and not (it.fast.connection and it.fast.connection.phase is Phase.BETWEEN):
            # What waits for the rest of a body is of no use to the next request.
            it.connect()
    return decided, it.fast.answered - before


@pytest.mark.long
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("level", ["INFO", pytest.param("DEBUG", marks=pytest.mark.slow)])
async def test_nobody_can_tell_it_from_the_long_way(
    service: Service,
    tmp_path: Path,
    guarded: bool,  # noqa: FBT001 - a parameter of a table
    level: str,
) -> None:
    await service.grant(ACLS)
    await service.configure("audit.level", level)
    seed = random.randrange(1 << 30)
    try:
        async with twins(service, tmp_path, guarded=guarded) as it:
            decided, at_once = await compare(
                it, random.Random(seed), str(service.authorizer.image.cluster_id), at_least=200
            )
            audited, logged = it.end()
    except AssertionError as fault:
        raise AssertionError(f"seed {seed}") from fault
    assert min(audited, logged) > 10
    assert at_once > decided // 2


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"reachable": False}, {"enabled": False}])
async def test_nor_where_nothing_is_loaded_or_everything_allowed(tmp_path: Path, how: dict[str, bool]) -> None:
    seed = random.randrange(1 << 30)
    async with serving(**how) as service:  # type: ignore[arg-type]  # one of them
        try:
            async with twins(service, tmp_path) as it:
                await compare(it, random.Random(seed), "some", at_least=10)
                it.end()
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}") from fault


def plain(body: object, *more: bytes, path: str = OPA_PATH) -> bytes:
    """A request as the plugin makes it."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = (f"POST {path} HTTP/1.1".encode(), b"Host: localhost", b"Content-Type: application/json", *more)
    return b"\r\n".join((*lines, b"Content-Length: %d" % len(content), b"", b"")) + content


@pytest.mark.parametrize("body", [asked(), by_type(), with_context(header={"data": HEADER}), asked(later={"a": [1]})])
@pytest.mark.parametrize("path", [OPA_PATH, f"{OPA_PATH}/fake-cluster"])
@pytest.mark.parametrize("offer", [OFFER, ()])
async def test_what_the_plugin_asks_is_answered_at_once(
    service: Service, tmp_path: Path, body: object, path: str, offer: tuple[bytes, ...]
) -> None:
    whole = plain(body, *offer, path=path)
    end = whole.index(b"\r\n\r\n") + 4
    async with twins(service, tmp_path) as it:
        it.connect()
        # With the parser, by the head that is remembered, and in two pieces as Java may send it.
        for segments in ((whole,), (whole,), (whole[:end], whole[end:])):
            assert (await it.say(*segments)).endswith(b'{"result":false}')
        assert it.fast.answered == 3
        it.end()


async def test_a_head_of_one_s_is_never_another_s(service: Service, tmp_path: Path) -> None:
    # As long, and remembered for all connections; what was asked under the one is no answer to the other.
    await service.grant([allow("READ", "orders")])
    question = {"context": {"principal": "User:alice", "client_address": "10.1.2.3"}, "actions": []}
    async with twins(service, tmp_path) as it:
        it.connect()
        for _ in range(2):
            assert (await it.say(plain(asked()))).endswith(b'{"result":true}')
            assert b"404" in await it.say(plain(asked(), path=f"{OPA_PATH}/"))
            assert b"409" in await it.say(plain(asked(), path=f"{OPA_PATH}/other"))
            assert b"400" in await it.say(plain(asked(), path="/v1/authorize"))
            assert b"400" in await it.say(plain(question))
        it.end()


@pytest.mark.parametrize("end", ["/any", "/a%2Fb", "/a%2Db", "/a?b", "/a#b", "/a.b", "/%22"])
async def test_a_cluster_s_name_is_read_in_one_way_only(unloaded: Service, tmp_path: Path, end: str) -> None:
    async with twins(unloaded, tmp_path) as it:
        it.connect()
        for _ in range(2):
            status = (await it.say(plain(asked(principal="admin"), path=OPA_PATH + end)))[9:12]
            assert status == (b"404" if "%2F" in end else b"200")
        assert it.fast.answered == (2 if end == "/any" else 0)
        it.end()


async def test_what_changes_is_seen_by_the_next_question(service: Service, tmp_path: Path) -> None:
    async with twins(service, tmp_path) as it:
        it.connect()
        assert (await it.say(plain(asked()))).endswith(b'{"result":false}')
        await service.grant([allow("READ", "orders")])
        assert (await it.say(plain(asked()))).endswith(b'{"result":true}')
        await service.grant([allow("READ", "orders", permission="DENY")])
        assert (await it.say(plain(asked()))).endswith(b'{"result":false}')
        assert it.fast.answered == 3
        it.end()


async def test_a_quota_is_spent_alike(service: Service, tmp_path: Path) -> None:
    async with twins(service, tmp_path, guarded=True) as it:
        shown = b"Authorization: Bearer " + it.tokens["limited"].encode()
        wrong: list[object] = [asked(principal="admin"), asked("LATER"), asked(address="/x"), {}]
        wrong += [by_type("LATER"), by_type(principal="admin")]
        it.connect()
        requests = [plain(body, shown) for body in (asked(), by_type(), *wrong)]
        requests.append(plain(asked(), shown, path=f"{OPA_PATH}/other"))
        for at in range(QUOTA + 5):
            status = (await it.say(requests[at % len(requests)]))[9:12]
            assert (status == b"429") == (at >= QUOTA)
        # The first one tells who shows this token.
        assert it.fast.answered == 2 * (QUOTA // len(requests)) + 1
        it.end()


async def test_certificates_tell_who_asks(service: Service, tmp_path: Path) -> None:
    async with twins(service, tmp_path, guarded=True) as it:
        for peercert, status in ((BROKER, b"200"), (None, b"401")):
            it.connect(peercert)
            for _ in range(2):
                assert (await it.say(plain(asked())))[9:12] == status
        assert it.fast.answered == 2
        it.end()


async def test_in_a_drain_the_reply_is_the_last(service: Service, tmp_path: Path) -> None:
    async with twins(service, tmp_path) as it:
        it.connect()
        await it.say(plain(asked()))
        for each in (it.fast, it.slow):
            each.shared.drain()
        assert b"connection: close\r\n" in await it.say(plain(asked()))
        assert it.is_closed
        it.end()


@pytest.mark.parametrize("late_s", [0.0, 0.01, 0.03, 5.0])
async def test_who_comes_too_late_is_refused_as_ever(
    service: Service, tmp_path: Path, clock: Clock, late_s: float
) -> None:
    async with twins(service, tmp_path) as it:
        it.connect()
        await it.say(plain(asked()))
        for each in (it.fast, it.slow):
            each.before = partial(_take, each, clock, late_s)
        written = await it.say(plain(asked()))
        # Within two budgets of a turn the long way still decides.
        assert (written[9:12] == b"429") == (late_s > 0.02)
        assert it.fast.answered == (1 if late_s else 2)
        it.end()


def _take(twin: Twin, clock: Clock, seconds: float) -> None:
    # A turn after one that refused something, which has taken so long already.
    twin.shared._calm = twin.shared._steady = False
    twin.shared.begin_turn(asyncio.get_running_loop())
    clock.now += seconds


async def test_a_body_too_long_for_a_step_is_no_matter_of_a_step(service: Service, tmp_path: Path) -> None:
    async with twins(service, tmp_path) as it:
        it.connect()
        for size, at_once in ((200_000, 1), (300_000, 1)):
            assert (await it.say(plain(json.dumps(asked()).encode() + b" " * size)))[9:12] == b"200"
            assert it.fast.answered == at_once
        it.end()


async def test_heads_of_the_door_are_remembered(service: Service, tmp_path: Path) -> None:
    async with twins(service, tmp_path) as it:
        it.connect()
        whole = plain(asked(), *OFFER)
        await it.say(whole)
        head = whole[: whole.index(b"\r\n\r\n") + 4]
        known = plain_head(head)
        assert known is not None
        assert (known.target, known.length) == (OPA_PATH.encode(), len(whole) - len(head))
        assert all(name not in (b"upgrade", b"http2-settings") for name, _ in known.headers)
        it.end()
