"""Bodies that are held back until all of them is here: how much, and what becomes of those beyond it."""

import pytest

from app.rest.http import bounds
from app.rest.http.connection import Phase
from app.rest.http.connections import Connections
from tests.wires import (
    HEAD,
    LINE,
    Clock,
    connected,
    later,
    request,
    statuses,
    turns,
    unread,
)


async def test_bodies_that_are_still_coming_have_a_budget_in_all(
    monkeypatch: pytest.MonkeyPatch, shared: Connections
) -> None:
    monkeypatch.setattr(bounds, "MAX_HELD_BYTES_OF_ALL", 100)
    head = HEAD.replace(b": 5", b": 90")
    first, first_wire = connected(shared=shared)
    second, second_wire = connected(shared=shared)
    first.data_received(head + b" " * 80)
    second.data_received(head)
    assert second.cycle is None, "a head alone takes nothing of the budget"
    for _ in range(3):
        second.data_received(b" " * 15)
    assert shared._held_bytes == 80, "the application has what was held of the one too many"
    await turns()
    assert second.cycle is not None
    third, third_wire = connected(shared=shared)
    third.data_received(head + b" " * 90)
    assert statuses(third_wire) == [200], "what comes in one piece is not held"
    second.data_received(b" " * 45)
    await turns()
    assert statuses(second_wire) == [200], "who comes when it is full is served, too"
    first.data_received(b" " * 10)
    assert statuses(first_wire) == [200]
    assert shared._held_bytes == 0


@pytest.mark.parametrize("end", ["lost", "late", "refused", "shut down"])
async def test_what_was_held_is_given_back(clock: Clock, shared: Connections, end: str) -> None:
    connection, _ = connected(unread, shared)
    connection.data_received(HEAD.replace(b": 5", b": 90") + b" " * 80)
    assert shared._held_bytes == 80
    if end == "lost":
        connection.connection_lost(None)
    elif end == "late":
        later(clock, shared, 10.1)
    elif end == "refused":
        connection.refuse(bounds.MALFORMED)
    else:
        connection.shutdown()
    await turns()
    if end in ("late", "refused"):
        assert connection.phase is Phase.ENDING
    assert shared._held_bytes == 0


@pytest.mark.parametrize("line", [LINE, b"POST /v1/start HTTP/1.1"])
async def test_one_connection_has_a_small_share_of_what_is_held(shared: Connections, line: bytes) -> None:
    connection, wire = connected(shared=shared)
    connection.data_received(HEAD.replace(LINE, line).replace(b": 5", b": 100000") + b" " * 10_000)
    await turns()
    assert connection.cycle is not None, "its body is read if the application reads it"
    connection.data_received(b" " * 90_000)
    await turns()
    assert statuses(wire) == [200]
    # Behind another one it may look as if all of it could be here.
    connection, wire = connected(shared=shared)
    connection.data_received(request(b"x" * 100_000) + HEAD.replace(b": 5", b": 80000") + b" " * 10)
    connection.data_received(b" " * 65_520)
    assert shared._held_bytes == 65_530
    connection.data_received(b" " * 10)
    assert shared._held_bytes == 0
    connection.data_received(b" " * 14_460)
    await turns()
    assert statuses(wire) == [200, 200]
