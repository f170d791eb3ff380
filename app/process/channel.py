"""A line between two processes over a pair of sockets: each asks the other, and tells it what needs no answer."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

_LONGEST_LINE = 8 * 1024 * 1024
_MOST_UNREAD = 1024 * 1024
_MOST_AT_ONCE = 256

_log = logging.getLogger(__name__)


class NoAnswerError(Exception):
    """The other process is gone, does not answer in time, or can't."""


class BusyError(NoAnswerError):
    """Too many questions are open already."""


class _Line(msgspec.Struct, omit_defaults=True):
    """`ask` and `answer` carry the number of the question; a line with neither tells something."""

    subject: str = ""
    detail: Any = None
    ask: int = 0
    answer: int = 0
    failed: bool = False


class Channel:
    """One end. `hear(subject, detail)` gives the answer to what the other end asks; what it tells needs none.

    What the other end says must be taken with no more trust than its process: both are Klamm's own.
    """

    def __init__(self, end: socket.socket, hear: Callable[[str, Any], Awaitable[object]]) -> None:
        self.closed = asyncio.Event()
        """Set when the other end is gone."""
        self._end = end
        self._hear = hear
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._answering: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begin to listen to the other end."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._end, limit=_LONGEST_LINE)
        self._reading = asyncio.create_task(self._read(reader), name="klamm-channel")

    async def ask(self, subject: str, detail: object = None, *, timeout_s: float) -> Any:  # noqa: ANN401 - JSON
        """The other end's answer. Raises NoAnswerError if none comes in time."""
        if len(self._asked) >= _MOST_AT_ONCE:
            raise BusyError("too many questions are open")
        self._number += 1
        number, answer = self._number, asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._say(_Line(subject, detail, ask=number))
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise NoAnswerError(subject) from None
        finally:
            del self._asked[number]

    def tell(self, subject: str, detail: object = None) -> None:
        """Let the other end know; nothing happens if it is gone."""
        with suppress(NoAnswerError):
            self._say(_Line(subject, detail))

    async def close(self) -> None:
        """Hang up."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        for task in [*self._answering]:
            task.cancel()
        if self._writer is None:
            self._end.close()
        else:
            self._writer.close()

    def _say(self, line: _Line) -> None:
        if self._writer is None or self.closed.is_set():
            raise NoAnswerError("the other process is gone")
        if self._writer.transport.get_write_buffer_size() > _MOST_UNREAD:
            raise NoAnswerError("the other process does not listen")
        self._writer.write(msgspec.json.encode(line) + b"\n")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._take(msgspec.json.decode(line, type=_Line))
        except OSError:
            pass  # it has died with something unread: gone is gone
        except ValueError as error:
            _log.error("channel_broken", extra={"why": str(error)})
        finally:
            self.closed.set()
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(NoAnswerError("the other process is gone"))

    def _take(self, line: _Line) -> None:
        if line.answer:
            answer = self._asked.get(line.answer)
            if answer is not None and not answer.done():  # else it came too late
                if line.failed:
                    answer.set_exception(NoAnswerError(line.subject))
                else:
                    answer.set_result(line.detail)
        elif not line.ask or len(self._answering) < _MOST_AT_ONCE:
            task = asyncio.create_task(self._respond(line))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _respond(self, line: _Line) -> None:
        try:
            reply = _Line(detail=await self._hear(line.subject, line.detail), answer=line.ask)
        except Exception:  # noqa: BLE001 - it is logged, and the channel lives on
            reply = _Line(answer=line.ask, failed=True)
            _log.exception("channel_question_failed", extra={"subject": line.subject})
        if line.ask:
            with suppress(NoAnswerError):
                self._say(reply)
