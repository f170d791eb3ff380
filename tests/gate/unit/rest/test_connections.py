"""What all connections share: the drain, and overload; and who asks."""

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from app.core.kafka.errors import OverloadedException
from app.metrics.declared import Metrics
from app.rest.errors import problem_response
from app.rest.http.bounds import OVERLOADED
from app.rest.http.connections import Connections
from app.rest.http.protocol import KlammProtocol
from tests.wires import (
    HEAD,
    PROBE,
    Clock,
    Wire,
    connected,
    later,
    request,
    statuses,
    turns,
    unread,
)

# the drain


async def test_a_drain_ends_each_connection_with_its_next_reply(shared: Connections) -> None:
    made = [connected(shared=shared) for _ in range(3)]
    for connection, _ in made:
        connection.data_received(HEAD + b"plain")
    shared.drain()
    assert not any(wire.closed for _, wire in made)
    new = connected(shared=shared)
    for (connection, wire), body in zip((*made, new), (b"plain", b"slow!", b"other", b"plain"), strict=True):
        connection.data_received(HEAD + body)
        await turns()
        assert wire.written.count(b"\r\nconnection: close\r\n") == 1
        assert wire.closed
        assert wire.gone, "nothing of this client is unread"
    assert all(statuses(wire) == [200, 200] for _, wire in made)


async def test_a_drain_is_said_by_the_very_next_reply(shared: Connections) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(HEAD + b"plain")
    assert b"connection: close" not in wire.written
    shared.drain()
    connection.data_received(HEAD + b"plain")
    assert wire.written.count(b"\r\nconnection: close\r\n") == 1
    assert wire.gone


async def test_a_drain_reaches_the_reply_under_way(shared: Connections) -> None:
    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await unread(scope, receive, send)

    go_on = asyncio.Event()
    connection, wire = connected(waits, shared)
    connection.data_received(HEAD + b"slow!" + PROBE)
    await turns()
    shared.drain()
    go_on.set()
    await turns()
    assert statuses(wire) == [404, 200]
    assert wire.written.count(b"connection: close") == 1
    assert wire.gone


async def test_nothing_is_begun_behind_the_last_reply(shared: Connections) -> None:
    begun: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["path"])
        await unread(scope, receive, send)

    connection, wire = connected(app, shared)
    shared.drain()
    connection.data_received(request(b"plain") + request(b"other") + request(b"slow") + PROBE + b"garbage")
    await turns()
    assert statuses(wire) == [200]
    assert wire.gone
    assert begun == []


# overload


async def fresh_turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def ask_all(clock: Clock, made: list[tuple[KlammProtocol, Wire]], cost_s: float) -> list[int]:
    """Each asks once in the same turn of the loop, an answer costs so much: the statuses."""
    before = [len(statuses(wire)) for _, wire in made]
    for connection, wire in made:
        count = wire.written.count(b" 200 OK")
        connection.data_received(HEAD + b"plain")
        clock.now += cost_s if wire.written.count(b" 200 OK") > count else 0.0
    return [statuses(wire)[count] for (_, wire), count in zip(made, before, strict=True)]


async def test_a_turn_that_lasts_too_long_refuses_the_rest(clock: Clock, metrics: Metrics) -> None:
    shared = Connections(metrics)
    made = [connected(shared=shared) for _ in range(40)]
    # After a calm turn a burst is answered; then the turns are short.
    assert ask_all(clock, made, 0.0021) == [200] * 28 + [429] * 12
    await fresh_turn()
    for _ in range(3):
        assert ask_all(clock, made, 0.0021) == [200] * 4 + [429] * 36
        await fresh_turn()
    assert metrics.requests_shed == 12 + 3 * 36
    assert metrics.http_requests["authorize"][3] == metrics.requests_shed
    for _ in range(3):
        assert ask_all(clock, made[:3], 0.002) == [200] * 3
        await fresh_turn()
    assert ask_all(clock, made, 0.0021).count(200) == 28
    assert not any(wire.closed for _, wire in made)


async def test_callers_that_wait_for_their_answers_are_not_refused(clock: Clock, metrics: Metrics) -> None:
    shared = Connections(metrics)
    made = [connected(shared=shared) for _ in range(9)]
    for _ in range(20):
        assert ask_all(clock, made, 0.0021) == [200] * 9
        await fresh_turn()
    assert metrics.requests_shed == 0


async def test_turns_that_grow_are_overload_until_none_is_refused(clock: Clock, shared: Connections) -> None:
    made = [connected(shared=shared) for _ in range(40)]
    assert ask_all(clock, made[:9], 0.0021) == [200] * 9
    await fresh_turn()
    # Up to 20 ms, and from then on 6.5 ms.
    assert ask_all(clock, made, 0.0021) == [200] * 10 + [429] * 30
    await fresh_turn()
    for _ in range(3):
        assert ask_all(clock, made[:9], 0.0021) == [200] * 4 + [429] * 5
        await fresh_turn()
    assert ask_all(clock, made[:4], 0.0021) == [200] * 4
    await fresh_turn()
    assert ask_all(clock, made[:9], 0.0021) == [200] * 9


async def test_time_that_other_processes_take_is_no_overload_up_to_a_bound(clock: Clock, metrics: Metrics) -> None:
    made = [connected(shared=Connections(metrics)) for _ in range(1)]
    shared = made[0][0].shared
    made += [connected(shared=shared) for _ in range(39)]
    assert ask_all(clock, made, 0.0021).count(429) == 12
    await fresh_turn()
    for _ in range(3):
        made[0][0].data_received(HEAD + b"plain")
        clock.now += 0.02
        clock.elsewhere += 0.02
        assert ask_all(clock, made, 0.0021) == [200] * 4 + [429] * 36
        await fresh_turn()
    made[0][0].data_received(HEAD + b"plain")
    clock.now += 0.251
    clock.elsewhere += 0.251
    assert set(ask_all(clock, made, 0.0021)) == {429}


async def test_a_pause_ends_overload(clock: Clock, shared: Connections) -> None:
    made = [connected(shared=shared) for _ in range(40)]
    burst = ask_all(clock, made, 0.0021).count(200)
    await fresh_turn()
    assert ask_all(clock, made, 0.0021).count(200) == 4, "the turn before was a long one"
    await fresh_turn()
    clock.now += 0.051
    assert ask_all(clock, made, 0.0021).count(200) == burst


async def test_a_long_request_is_answered_when_the_turn_is_young(clock: Clock, shared: Connections) -> None:
    made = [connected(shared=shared) for _ in range(3)]
    assert ask_all(clock, made, 1.0) == [200, 200, 429]
    await fresh_turn()
    assert ask_all(clock, made, 1.0) == [200, 429, 429]


async def test_the_refusal_is_like_every_other(clock: Clock, shared: Connections) -> None:
    made = [connected(shared=shared) for _ in range(3)]
    ask_all(clock, made, 1.0)
    head, _, body = made[2][1].written.partition(b"\r\n\r\n")
    why = OverloadedException("the service is overloaded; nothing was done, try again shortly")
    expected = problem_response(why)
    assert body == expected.body == OVERLOADED.body
    assert head.split(b"\r\n")[0] == b"HTTP/1.1 429 Too Many Requests"
    sent = dict(line.split(b": ") for line in head.split(b"\r\n")[1:])
    own = {name: value for name, value in expected.raw_headers if name != b"date"}
    assert sent == {**own, b"date": b"now", b"connection": b"keep-alive", b"keep-alive": b"timeout=2"}


async def test_an_application_can_tell_how_late_it_is(clock: Clock, shared: Connections, metrics: Metrics) -> None:
    late: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["klamm.names"] == ()
        late.append(shared.is_late(scope["klamm.began"]))
        clock.now += 0.011
        await unread(scope, receive, send)

    async def round_of(count: int) -> list[bool]:
        late.clear()
        for connection, _ in made[:count]:
            connection.data_received(HEAD + b"slow!")
        await turns()
        return list(late)

    made = [connected(app, shared) for _ in range(9)]
    for connection, _ in made:
        # Known callers: the time that others take makes nobody late.
        connection.data_received(HEAD + b"plain")
    await turns()
    assert await round_of(9) == [False] * 7 + [True] * 2
    await turns()
    connected(shared=shared)[0].data_received(HEAD + b"plain")
    assert await round_of(9) == [False] * 2 + [True] * 7
    assert metrics.requests_shed == 9


# who asks


async def test_the_names_of_a_certificate_come_with_every_request(
    monkeypatch: pytest.MonkeyPatch, shared: Connections
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("app.rest.http.connection.names_of", lambda transport: (f"DNS:{transport.peercert}",))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["klamm.names"])
        await unread(scope, receive, send)

    connection, wire = connected(app, shared)

    def answer(_headers: object, body: bytes, names: object, _target: bytes = b"") -> bytes | None:
        asked.append((body, names))
        return None if body == b"slow!" else b"content-length: 0\r\n\r\n"

    connection._answer = answer
    for body in (b"plain", b"plain", b"slow!"):
        connection.data_received(HEAD + body)
        await turns()
    names = ("DNS:None",)
    assert asked == [(b"plain", names), (b"plain", names), (b"slow!", names), names]
    assert statuses(wire) == [200, 200, 404]


async def test_a_server_that_ends_waits_for_the_first_request_of_who_has_just_connected(
    clock: Clock, shared: Connections
) -> None:
    asks, is_silent = (connected(unread, shared) for _ in range(2))
    shared.drain()
    for connection, wire in (asks, is_silent):
        connection.shutdown()
        assert not wire.gone
    asks[0].data_received(HEAD + b"slow!")
    await turns()
    assert statuses(asks[1]) == [404]
    assert asks[1].gone
    later(clock, shared, 0.9)
    assert not is_silent[1].gone
    later(clock, shared, 0.2)
    assert is_silent[1].gone
    assert is_silent[1].written == b""


async def test_a_server_that_ends_waits_for_what_is_on_its_way_only(shared: Connections) -> None:
    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await unread(scope, receive, send)

    go_on = asyncio.Event()
    idle, half, busy = connected(unread, shared), connected(waits, shared), connected(waits, shared)
    idle[0].data_received(HEAD + b"slow!")
    await turns()
    assert statuses(idle[1]) == [404]
    half[0].data_received(HEAD[:20])
    busy[0].data_received(HEAD + b"slow!")
    await turns()
    shared.drain()
    for connection, _ in (idle, half, busy):
        connection.shutdown()
    assert [wire.gone for _, wire in (idle, half, busy)] == [True, False, False]
    go_on.set()
    half[0].data_received(HEAD[20:] + b"slow!")
    await turns()
    for _, wire in (half, busy):
        assert statuses(wire) == [404]
        assert wire.gone
