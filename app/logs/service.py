"""The service's own log on standard error: one event a line, with a static name and fields, as JSON or text.

Every field, message and traceback goes through `app.logs.redaction`.
"""

import fcntl
import json
import logging
import math
import os
import select
import signal
import stat
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import IO

import msgspec

from app.logs.json_text import LogFormat, json_string
from app.logs.redaction import MASK, is_secret_by_name, redacted

LIBRARY_MESSAGE = "library_message"

_LOG = logging.getLogger(__name__)
WRITING = threading.Lock()
"""Held while lines are written to standard output, which may be the same pipe as standard error."""
_LOCK_TIMEOUT_S = 5.0
_PATIENCE_S = 0.01
"""How long the event loop waits for a log's reader."""
_LEAST_ROOM = 4_096
"""How many bytes a pipe has room for once poll says that it can be written to."""
_SHOWN = 1_000
"""How many characters are shown of a line that a pipe has no room for."""
_SIGNAL_AGAIN_S = 0.05
# Their lines about starting and stopping repeat ours.
_TALKATIVE = ("uvicorn", "httpx", "httpcore", "alembic", "urllib3")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
RESERVED = frozenset({"time", "level", "logger", "event", "message", "request_id", "trace_id", "exception"})
"""Names that an event's own fields can't have; a test checks every call."""


class RequestMark(msgspec.Struct, gc=False, eq=False):
    """What every line about a request shows of it. `caller` is set once the credentials are known."""

    request_id: str
    traceparent: str | None = None
    """W3C trace context, version 00; None if the request is not part of a trace."""
    caller: str | None = None

    @property
    def trace_id(self) -> str | None:
        traceparent = self.traceparent
        return None if traceparent is None else traceparent[3:35]


REQUEST_MARK: ContextVar[RequestMark | None] = ContextVar("klamm_request_mark", default=None)


def configure_logging(
    level: str, stream: IO[str] | None = None, *, worker: int | None = None, form: LogFormat = "JSON"
) -> None:
    """Sends all lines from `level` (DEBUG, INFO, WARN, ERROR) upwards to `stream`, by default standard error.

    Python's warnings and uncaught exceptions go there as well. A process with siblings shows in each line which
    `worker` it is.
    """
    handler = LineHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(worker) if form == "JSON" else TextFormatter(worker))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for library in _TALKATIVE:
        logging.getLogger(library).setLevel(max(logging.root.level, logging.WARNING))
    logging.captureWarnings(capture=True)
    _take_over_hooks()


class LineHandler(logging.StreamHandler[IO[str]]):
    """Writes each line in one system call where it can: siblings write to the same pipe.

    Lines are written by the caller's thread, not later by another: the last ones before a crash are those that count.
    If nobody reads the log, the main thread, which runs the event loop, drops lines that find no room; the next line
    that finds some says how many.
    """

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._left_out = 0

    def handle(self, record: logging.LogRecord) -> bool:
        # Without the handler's lock: its holder may be waiting for a reader.
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(f"{self.format(record)}\n")
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001 - there is nobody to raise it to
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging names it
        """Logs which line is missing. Logging's own method would print the arguments, on several lines."""
        fault = sys.exc_info()[0]
        if fault is not None and issubclass(fault, OSError):
            return
        extra = {"from_logger": record.name, "line": record.lineno, "fault": "" if fault is None else fault.__name__}
        with suppress(Exception):
            self._write(self._own_line("log_line_not_made", **extra))

    def _own_line(self, event: str, **fields: object) -> str:
        level = {"levelno": logging.ERROR, "levelname": "ERROR"}
        return f"{self.format(logging.makeLogRecord({'name': __name__, 'msg': event, **level, **fields}))}\n"

    def _write(self, line: str) -> None:
        # If this line lands inside a long one, the rest of that could pass for a line. The event loop never waits.
        waits = threading.current_thread() is not threading.main_thread()
        locked = WRITING.acquire(timeout=_LOCK_TIMEOUT_S if waits else 0)
        try:
            self._write_whole(line, waits=waits)
        finally:
            if locked:
                WRITING.release()

    def _write_whole(self, line: str, *, waits: bool) -> None:
        self.stream.flush()
        try:
            descriptor = self.stream.fileno()
        except (OSError, AttributeError):
            self.stream.write(line)
            self.stream.flush()
            return
        size = len(_encoded(line))
        if not waits and size > _LEAST_ROOM and size > _most_room_of(descriptor):
            # The line would never find room; a note that it came, and how it begins, does.
            line = self._own_line("log_line_too_long", bytes=size, begins=line[:_SHOWN])
        left_out = self._left_out
        if left_out:
            line = self._own_line("log_lines_left_out", lines=left_out) + line
        rest = memoryview(_encoded(line))
        # A reader that does not read is waited for once, not for each line.
        patience_s = 0 if left_out else _PATIENCE_S
        if not (waits or _has_room(descriptor, len(rest), patience_s)):
            self._left_out += 1
            return
        # Not 0: the event loop may have dropped more since, as it does not wait for the lock.
        self._left_out -= left_out
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace")


def _has_room(descriptor: int, size: int, patience_s: float) -> bool:
    """Whether a pipe takes a write of `size` bytes without a wait; a file always has room."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    until = time.monotonic() + patience_s
    while not (poll.poll(0) and (size <= _LEAST_ROOM or size <= _room_of(descriptor))):
        if time.monotonic() >= until:
            return False
        time.sleep(_PATIENCE_S / 10)
    return True


def _room_of(descriptor: int) -> float:
    """How many bytes have room, at least; infinite for a file."""
    most = _most_room_of(descriptor)
    if most == math.inf:
        return most
    waiting = int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    # The kernel adds a line to a page only if all of it fits, so half of each page may be empty.
    return most - 2 * waiting


def _most_room_of(descriptor: int) -> float:
    """As `_room_of`, once all is read."""
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return math.inf
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) - _LEAST_ROOM


class JsonFormatter(logging.Formatter):
    """`{"time": "2026-11-21T14:00:00.123Z", "level": "INFO", "logger": "app.cli.server", "event": "serving", ...}`."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        members: dict[str, object] = {
            "time": _clock(record),
            "level": record.levelname,
            "logger": redacted(record.name),
            "event": _event(record),
        }
        members.update(self._fields(record))
        exception = self._exception(record)
        if exception is not None:
            members["exception"] = exception
        return "{" + ",".join([f"{json_string(name)}:{_json(value)}" for name, value in members.items()]) + "}"

    def _fields(self, record: logging.LogRecord) -> Iterator[tuple[str, object]]:
        if not _is_ours(record):
            yield "message", redacted(_message(record))
        for name, value in vars(record).items():
            if name not in _STANDARD and name not in RESERVED:
                yield name, _shown(name, value)
        if self._worker is not None:
            yield "worker", self._worker
        mark = REQUEST_MARK.get()
        if mark is not None:
            yield "request_id", redacted(mark.request_id)
            if mark.traceparent is not None:
                yield "trace_id", mark.trace_id
            if mark.caller is not None and "caller" not in vars(record):
                yield "caller", redacted(mark.caller)

    def _exception(self, record: logging.LogRecord) -> str | None:
        parts = [self.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return redacted("\n".join(parts)) if parts else None


class TextFormatter(JsonFormatter):
    """`2026-11-21T14:00:00.123Z INFO app.store.embedded.server embedded_postgres_started port=5433`."""

    def format(self, record: logging.LogRecord) -> str:
        head = [_clock(record), record.levelname, _one_line(redacted(record.name)), _one_line(_event(record))]
        line = " ".join([*head, *[f"{name}={_quoted(value)}" for name, value in self._fields(record)]])
        exception = self._exception(record)
        if exception is None:
            return line
        # INVARIANT: no further line of an event begins as an event does, whatever an exception's text holds.
        return "\n  ".join([line, *[_escaped(each) for each in exception.split("\n")]])


def _event(record: logging.LogRecord) -> str:
    return redacted(str(record.msg)) if _is_ours(record) else LIBRARY_MESSAGE


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name == "app" or record.name.startswith("app.")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a library's own mistake: its words without the arguments
        return str(record.msg)


def _shown(name: str, value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    text = str(value)
    return MASK if text and is_secret_by_name(name) else redacted(text)


def _clock(record: logging.LogRecord) -> str:
    clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{clock}.{int(record.msecs):03d}Z"


def _json(value: object) -> str:
    return json_string(value) if isinstance(value, str) else json.dumps(value)


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text) if not text or not text.isprintable() or set(text) & set(" =\"'") else text


def _one_line(text: str) -> str:
    # INVARIANT: what a caller sent can't begin a new line in the log.
    return text if text.isprintable() else repr(text)


def _escaped(text: str) -> str:
    return text if text.isprintable() else json_string(text)[1:-1]


def _take_over_hooks() -> None:
    # Hooks that somebody else has set stay.
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _log_uncaught
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _log_uncaught_in_thread
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _log_unraisable


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    # Like SystemExit, Ctrl-C is not a fault; the interpreter still ends with it.
    if not issubclass(kind, KeyboardInterrupt):
        _LOG.critical("uncaught_exception", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None and not isinstance(failed.exc_value, SystemExit):
        name = "" if failed.thread is None else failed.thread.name
        _LOG.critical("uncaught_exception", exc_info=failed.exc_value, extra={"thread_of": name})


def _log_unraisable(failed: "sys.UnraisableHookArgs") -> None:
    if isinstance(failed.exc_value, KeyboardInterrupt):
        # It reached a finalizer, whose exceptions Python drops; the order to end must not be lost.
        main_thread = threading.main_thread().ident or threading.get_ident()
        threading.Timer(_SIGNAL_AGAIN_S, signal.pthread_kill, (main_thread, signal.SIGINT)).start()
        return
    where = failed.err_msg or "exception ignored in"
    _LOG.error("unraisable_exception", exc_info=failed.exc_value, extra={"where": where, "what": repr(failed.object)})
