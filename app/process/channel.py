"""A line between two processes over a pair of sockets. Each end asks questions, and sends notes without an answer."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

_MAX_LINE_BYTES = 8 * 1024 * 1024
_MAX_UNREAD_BYTES = 1024 * 1024
_MAX_OPEN_QUESTIONS = 256

_log = logging.getLogger(__name__)


class NoAnswerError(Exception):
    """The other process is gone, failed, or did not answer in time."""


class BusyError(NoAnswerError):
    """Too many questions are open already."""


class _Line(msgspec.Struct, omit_defaults=True):
    """`ask` and `answer` carry the number of the question; a line with neither needs no answer."""

    subject: str = ""
    detail: Any = None
    ask: int = 0
    answer: int = 0
    failed: bool = False


class Channel:
    """One end. `hear(subject, detail)` answers the other end's questions, and receives its notes.

    The other end is trusted like this process: both are Klamm's own.
    """

    def __init__(self, end: socket.socket, hear: Callable[[str, Any], Awaitable[object]]) -> None:
        self.closed = asyncio.Event()
        self._end = end
        self._hear = hear
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._responding: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        reader, self._writer = await asyncio.open_unix_connection(sock=self._end, limit=_MAX_LINE_BYTES)
        self._reading = asyncio.create_task(self._read(reader), name="klamm-channel")

    async def ask(self, subject: str, detail: object = None, *, timeout_s: float) -> Any:  # noqa: ANN401 - JSON
        """The other end's answer. Raises NoAnswerError if none comes in time."""
        if len(self._questions) >= _MAX_OPEN_QUESTIONS:
            raise BusyError("too many questions are unanswered")
        self._number += 1
        number, answer = self._number, asyncio.get_running_loop().create_future()
        self._questions[number] = answer
        try:
            self._send(_Line(subject, detail, ask=number))
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise NoAnswerError(subject) from None
        finally:
            del self._questions[number]

    def tell(self, subject: str, detail: object = None) -> None:
        with suppress(NoAnswerError):
            self._send(_Line(subject, detail))

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        for task in [*self._responding]:
            task.cancel()
        if self._writer is None:
            self._end.close()
        else:
            self._writer.close()

    def _send(self, line: _Line) -> None:
        if self._writer is None or self.closed.is_set():
            raise NoAnswerError("the other process is gone")
        if self._writer.transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            raise NoAnswerError("the other process does not read")
        self._writer.write(msgspec.json.encode(line) + b"\n")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._receive(msgspec.json.decode(line, type=_Line))
        except OSError:
            pass  # it died with something unread, which is as good an end as any
        except ValueError as error:
            _log.error("channel_broken", extra={"why": str(error)})
        finally:
            self.closed.set()
            for answer in self._questions.values():
                if not answer.done():
                    answer.set_exception(NoAnswerError("the other process is gone"))

    def _receive(self, line: _Line) -> None:
        if line.answer:
            answer = self._questions.get(line.answer)
            if answer is not None and not answer.done():  # else it came too late
                if line.failed:
                    answer.set_exception(NoAnswerError(line.subject))
                else:
                    answer.set_result(line.detail)
        elif not line.ask or len(self._responding) < _MAX_OPEN_QUESTIONS:
            task = asyncio.create_task(self._respond(line))
            self._responding.add(task)
            task.add_done_callback(self._responding.discard)

    async def _respond(self, line: _Line) -> None:
        try:
            reply = _Line(detail=await self._hear(line.subject, line.detail), answer=line.ask)
        except Exception:  # noqa: BLE001 - it is logged, and the channel lives on
            reply = _Line(answer=line.ask, failed=True)
            _log.exception("channel_question_failed", extra={"subject": line.subject})
        if line.ask:
            with suppress(NoAnswerError):
                self._send(reply)
