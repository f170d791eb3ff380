"""Unauthenticated clients share a small budget of each turn; whoever exceeds it waits, and is answered in order."""

import asyncio
from itertools import pairwise

import pytest
from starlette.types import Receive, Scope, Send

from app.rest.http import bounds
from app.rest.http.connections import Connections
from app.rest.http.heads import WholeHead
from app.rest.http.protocol import KlammProtocol
from app.rest.http.unauthenticated import Measured, PreparedReply
from tests.wires import HEAD, Clock, Wire, connected, later, request, statuses, turns, unread

GET = b"GET /nothing HTTP/1.1\r\nHost: k\r\n\r\n"
KNOWN = b"GET /nothing HTTP/1.1\r\nHost: k\r\nAuthorization: good\r\n\r\n"
COST_S = 0.0001
SERVED_IN_A_TURN = 3
"""So many replies use up a budget of 0.25 ms."""


class Costly:
    """Prepared replies, each of which takes some time; `asked` has the connections' names in the order of replies."""

    def __init__(self, clock: Clock, cost_s: float = COST_S) -> None:
        self._clock = clock
        self._cost_s = cost_s

    def is_known(self, head: WholeHead, _names: tuple[str, ...]) -> bool:
        return (b"authorization", b"good") in head.headers

    def reply(self, head: WholeHead, _names: tuple[str, ...]) -> PreparedReply | None:
        self._clock.now += self._cost_s
        if head.target != b"/nothing":
            return None
        return PreparedReply(b"HTTP/1.1 404 Not Found\r\n", b"content-length: 0\r\n\r\n")

    def wait(self, shared: Connections) -> None:
        """Behind a turn, the next one has the usual budget."""
        shared.unauthenticated.may_serve(self._clock.now)
        self._clock.now += 0.00001


class Paused(Wire):
    """Notes whether anything is read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


@pytest.fixture
def costly(clock: Clock) -> Costly:
    return Costly(clock)


def crowd(shared: Connections, prepared: Costly, count: int) -> list[tuple[KlammProtocol, Paused]]:
    """So many connections that no known caller uses."""
    made = []
    for _ in range(count):
        wire = Paused()
        connection, _ = connected(unread, shared, wire)
        connection._prepared = prepared
        made.append((connection, wire))
    prepared.wait(shared)
    return made


def known_one(shared: Connections) -> tuple[KlammProtocol, Wire]:
    connection, wire = connected(shared=shared)
    connection.data_received(HEAD + b"plain")
    assert connection.known
    wire.written = b""
    return connection, wire


def answered(made: list[tuple[KlammProtocol, Paused]]) -> list[int]:
    """Which of them have an answer."""
    return [at for at, (_, wire) in enumerate(made) if statuses(wire)]


async def test_in_each_turn_some_are_answered_and_all_in_order(costly: Costly, shared: Connections) -> None:
    made = crowd(shared, costly, 10)
    for connection, _ in made:
        connection.data_received(GET)
    assert answered(made) == [0, 1, 2]
    seen = [answered(made)]
    while len(seen[-1]) < len(made):
        await asyncio.sleep(0)
        seen.append(answered(made))
    assert all(each == list(range(len(each))) for each in seen), "the oldest first"
    assert all(len(after) - len(before) <= SERVED_IN_A_TURN for before, after in pairwise(seen))
    assert [statuses(wire) for _, wire in made] == [[404]] * 10


async def test_no_known_caller_is_late_by_the_time_of_others(clock: Clock, shared: Connections) -> None:
    made = crowd(shared, Costly(clock, 1.0), 3)
    known = [known_one(shared) for _ in range(2)]
    for _ in range(4):
        for connection, _ in made:
            connection.data_received(GET)
        for connection, _ in known:
            connection.data_received(HEAD + b"plain")
        await turns()
    assert [statuses(wire) for _, wire in known] == [[200] * 4] * 2


async def test_no_known_caller_is_late_by_the_tasks_of_others(clock: Clock, shared: Connections) -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        clock.now += 0.1
        late.append(shared.is_late(scope["klamm.began"]))
        await unread(scope, receive, send)

    late: list[bool] = []
    made = [connected(slow, shared)[0] for _ in range(4)]
    known, known_wire = known_one(shared)
    for _ in range(3):
        for connection in made:
            connection.data_received(b"GET /elsewhere HTTP/1.1\r\nHost: k\r\n\r\n")
        known.data_received(HEAD + b"slow!")
        known.data_received(HEAD + b"plain")
        for _ in range(100):
            await turns()
            clock.now += 0.001
    assert statuses(known_wire) == [200] * 6
    assert late == [False] * 12


async def test_who_shows_known_credentials_passes_those_who_wait(costly: Costly, shared: Connections) -> None:
    made = crowd(shared, costly, 10)
    for connection, _ in made:
        connection.data_received(GET)
    (by_route, route_wire), (plain, plain_wire), (long, long_wire) = crowd(shared, costly, 3)
    by_route.data_received(KNOWN)
    plain.data_received(HEAD + b"plain")
    long.data_received(request(b"slow" + b"x" * 9, b"Authorization: good")[:-5])
    long.data_received(b"x" * 5)
    assert len(answered(made)) == SERVED_IN_A_TURN
    assert not any(connection.deferred for connection in (by_route, plain, long))
    await turns()
    assert (statuses(route_wire), statuses(plain_wire), statuses(long_wire)) == ([404], [200], [404])


async def test_of_who_waits_nothing_more_is_read(costly: Costly, shared: Connections) -> None:
    made = crowd(shared, costly, 5)
    for connection, _ in made:
        connection.data_received(GET)
    (waiting, wire), *_ = made[-1:]
    assert not wire.is_paused
    waiting.data_received(GET)
    assert wire.is_paused
    await turns()
    assert not wire.is_paused
    assert statuses(wire) == [404, 404], "in pieces or not, what was sent is answered"


async def test_the_wait_is_no_idle_time(clock: Clock, costly: Costly, shared: Connections) -> None:
    made = crowd(shared, costly, 5)
    for connection, _ in made:
        connection.data_received(GET)
    later(clock, shared, 60.0)
    assert [wire.closed for _, wire in made] == [True] * 3 + [False] * 2
    await turns()
    assert statuses(made[-1][1]) == [404]
    later(clock, shared, 2.1)
    assert made[-1][1].closed


async def test_a_long_request_is_paid_for_by_the_next_turns(clock: Clock, shared: Connections) -> None:
    (long, _), *others = crowd(shared, Costly(clock, 0.002), 5)
    long.data_received(GET)
    for connection, _ in others:
        connection.data_received(GET)
    await asyncio.sleep(0)
    assert answered(others) == []
    for _ in range(100):
        clock.now += 0.00001
        await asyncio.sleep(0)
    assert answered(others) == [0, 1, 2, 3]


async def test_who_leaves_while_it_waits_costs_nothing(costly: Costly, shared: Connections) -> None:
    made = crowd(shared, costly, 6)
    for connection, _ in made:
        connection.data_received(GET)
    made[3][0].connection_lost(None)
    made[4][0].abort()
    await turns()
    assert answered(made) == [0, 1, 2, 5]
    assert shared.unauthenticated.hold(bounds.MAX_DEFERRED_BYTES_OF_ALL), "nothing is held any more"


async def test_what_waits_is_bounded(costly: Costly, shared: Connections) -> None:
    made = crowd(shared, costly, 5)
    for connection, _ in made[:4]:
        connection.data_received(GET)
    shared.unauthenticated.hold(bounds.MAX_DEFERRED_BYTES_OF_ALL - 2 * len(GET))
    made[4][0].data_received(GET * 2)
    assert statuses(made[4][1]) == [429]
    assert b"\r\nretry-after: 1\r\n" in made[4][1].written
    await turns()
    assert statuses(made[3][1]) == [404]


async def test_who_waits_when_the_server_ends_is_answered(costly: Costly, shared: Connections) -> None:
    made = crowd(shared, costly, 6)
    for connection, _ in made:
        connection.data_received(GET)
    shared.drain()
    for connection, _ in made:
        connection.shutdown()
    await turns()
    assert [statuses(wire) for _, wire in made] == [[404]] * 6
    assert all(wire.closed for _, wire in made)


async def test_who_waits_may_have_said_all(costly: Costly, clock: Clock, shared: Connections) -> None:
    made = crowd(shared, costly, 5)
    for connection, _ in made:
        connection.data_received(GET)
    assert [connection.eof_received() for connection, _ in made] == [None] * 3 + [True] * 2
    await turns()
    assert answered(made) == [0, 1, 2, 3, 4]
    later(clock, shared, 2.1)
    assert made[-1][1].closed


async def test_a_fault_ends_one_connection_and_not_the_queue(
    costly: Costly, shared: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = crowd(shared, costly, 6)
    for connection, _ in made:
        connection.data_received(GET)

    def fail(_: bytes) -> None:
        raise RuntimeError("a fault of the test")

    monkeypatch.setattr(made[3][0], "serve_deferred", fail)
    await turns()
    assert made[3][1].aborted
    assert answered(made) == [0, 1, 2, 4, 5]


# what a task costs


async def test_each_step_of_a_task_is_measured(clock: Clock) -> None:
    async def work() -> None:
        clock.now += 1
        await asyncio.sleep(0)
        clock.now += 2
        await asyncio.get_running_loop().run_in_executor(None, int)
        clock.now += 4

    charged: list[float] = []
    await Measured(work(), charged.append)
    assert charged == [1, 2, 4]


async def test_faults_and_cancellation_pass_through(clock: Clock) -> None:
    seen: list[type[BaseException]] = []

    async def waits() -> None:
        clock.now += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            seen.append(type(cancelled))
            raise

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("a fault of the test")

    charged: list[float] = []

    async def measured() -> None:
        await Measured(waits(), charged.append)

    task = asyncio.create_task(measured())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [asyncio.CancelledError]
    with pytest.raises(ValueError, match="a fault of the test"):
        await Measured(fails(), charged.append)
    assert sum(charged) == 1
