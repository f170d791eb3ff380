"""How a stream of events is written: slices that wait for the client, rights before each, and an honest end."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

from app.core.kafka.errors import ClusterAuthorizationException
from app.rest.http import streams
from app.rest.http.replies import ReplyWriter
from app.rest.http.streams import NDJSON, Connection, EventStream, ReaderRights
from app.runtime.watch.fan_out import FanOutPace
from app.runtime.watch.lines import SLICE_BYTES, Line
from app.runtime.watch.rounds import Rounds
from tests.virtual_time import in_virtual_time, now
from tests.world import OPTIONS

LONG = Line("transaction", None, b"x" * (4 * SLICE_BYTES))
SHORT = Line("bookmark", None, b"{}")
END = Line("end", None, b"{end}")


class Client:
    """What a client has been sent. It takes so many more slices."""

    def __init__(self) -> None:
        self.slices: list[bytes] = []
        self.takes = 1_000
        self.gone = asyncio.Event()
        self.has_rights = self.is_certain = True
        self.messages: list[dict[str, Any]] = []

    # as a ReplyWriter

    def keeps_up(self) -> bool:
        return self.takes > 0

    def push(self, data: bytes) -> bool:
        self.takes -= 1
        self.slices.append(data)
        return True

    def is_gone(self) -> bool:
        return self.gone.is_set()

    def abort(self) -> None:
        self.gone.set()

    # as ReaderRights

    def are_certain(self) -> bool:
        return self.is_certain and self.has_rights

    async def check(self) -> None:
        await asyncio.sleep(0)
        if not self.has_rights:
            raise ClusterAuthorizationException("no")
        self.is_certain = True

    # as uvicorn

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:  # noqa: ANN401 - as uvicorn's
        if not self.gone.is_set():
            self.messages.append(message)

    @property
    def ended(self) -> bool:
        return self.messages[-1] == {"type": "http.response.body", "body": b""}


class Streaming:
    def __init__(self, *batches: Sequence[Line]) -> None:
        self.client = Client()
        self.pace = FanOutPace(OPTIONS, lambda: 0)
        self.rounds = Rounds(self.pace)
        self._rounds = asyncio.create_task(self.rounds.run())
        connection = Connection(
            cast("ReplyWriter", self.client), NDJSON, cast("ReaderRights", self.client), self.rounds
        )
        stream = EventStream(connection, batches[0], self._rest(batches[1:]))
        self.task = asyncio.create_task(stream.send(self.client.receive, self.client.send))

    @staticmethod
    async def _rest(batches: Sequence[Sequence[Line]]) -> AsyncGenerator[Sequence[Line], None]:
        for batch in batches:
            yield batch

    async def __aenter__(self) -> Client:
        return self.client

    async def __aexit__(self, *_: object) -> None:
        for task in (self.task, self._rounds):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture(autouse=True)
def _virtual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "monotonic", now)


def body(client: Client) -> bytes:
    """Without the framing of its chunks."""
    return b"".join(each.partition(b"\r\n")[2][:-2] for each in client.slices)


@in_virtual_time
async def test_long_line_comes_in_slices_and_the_next_one_after_it() -> None:
    async with Streaming([SHORT, LONG], [SHORT]) as client:
        await asyncio.sleep(1)
        assert body(client) == SHORT.json + b"\n" + LONG.json + b"\n" + SHORT.json + b"\n"
        assert max(map(len, client.slices)) < SLICE_BYTES + 16
        assert client.ended


@in_virtual_time
async def test_slice_waits_until_the_client_has_taken_the_one_before() -> None:
    async with Streaming([LONG]) as client:
        client.takes = 1
        for count in range(1, 6):
            await asyncio.sleep(5)
            assert len(client.slices) == min(count, 5)
            client.takes = 1
        assert client.ended


@in_virtual_time
async def test_client_that_takes_nothing_is_cut_without_an_end() -> None:
    async with Streaming([LONG], [END]) as client:
        client.takes = 2
        await asyncio.sleep(9)
        assert not client.gone.is_set()
        await asyncio.sleep(2)
        assert client.gone.is_set()
        assert (len(client.slices), client.ended) == (2, False)


@in_virtual_time
async def test_slow_client_is_cut_once_the_rounds_are_closed() -> None:
    streaming = Streaming([LONG], [END])
    async with streaming as client:
        client.takes = 1
        await asyncio.sleep(1)
        streaming.rounds.close()
        await asyncio.sleep(0.2)
        assert (client.gone.is_set(), len(client.slices), client.ended) == (True, 1, False)


@in_virtual_time
async def test_fault_of_a_round_ends_neither_the_rounds_nor_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    streaming = Streaming([LONG], [SHORT])

    def fail_once() -> None:
        monkeypatch.undo()
        raise RuntimeError("a fault that nobody has foreseen")

    monkeypatch.setattr(streaming.pace, "begin_step", fail_once)
    async with streaming as client:
        await asyncio.sleep(5)
        assert body(client) == LONG.json + b"\n" + SHORT.json + b"\n"
        assert client.ended


@in_virtual_time
async def test_line_that_is_withdrawn_cuts_who_is_in_the_middle_of_it() -> None:
    line = Line("transaction", None, LONG.json)
    async with Streaming([line], [END]) as client:
        client.takes = 2
        await asyncio.sleep(1)
        line.is_withdrawn = True
        await asyncio.sleep(0.2)
        assert (client.gone.is_set(), len(client.slices), client.ended) == (True, 2, False)


@in_virtual_time
async def test_right_that_is_lost_in_the_middle_of_a_line_cuts_the_stream() -> None:
    async with Streaming([LONG], [SHORT]) as client:
        client.takes = 2
        await asyncio.sleep(1)
        client.has_rights, client.takes = False, 1_000
        await asyncio.sleep(1)
        assert (client.gone.is_set(), len(client.slices), client.ended) == (True, 2, False)


@in_virtual_time
async def test_who_has_lost_its_right_is_told_that_its_stream_ends() -> None:
    async with Streaming([END]) as client:
        client.has_rights = False
        await asyncio.sleep(1)
        assert body(client) == END.json + b"\n"
        assert client.ended


@in_virtual_time
async def test_uncertain_rights_are_looked_up_and_the_line_goes_on() -> None:
    async with Streaming([LONG]) as client:
        client.takes = 2
        await asyncio.sleep(1)
        client.is_certain, client.takes = False, 1_000
        await asyncio.sleep(1)
        assert body(client) == LONG.json + b"\n"
        assert client.ended


@in_virtual_time
async def test_client_that_leaves_in_the_middle_of_a_line_ends_the_stream() -> None:
    streaming = Streaming([LONG])
    async with streaming as client:
        client.takes = 2
        await asyncio.sleep(1)
        client.gone.set()
        await asyncio.sleep(0.2)
        assert streaming.task.done()
