"""The service's own log on standard error: one event a line, with a static name and fields, as JSON or text.

Every field, message and traceback goes through `app.logs.redaction`.
"""

import json
import logging
import math
import os
import select
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from queue import SimpleQueue
from types import TracebackType

import msgspec

from app.logs.json_text import LogFormat, json_string
from app.logs.redaction import MASK, is_secret_by_name, redacted

LIBRARY_MESSAGE = "library_message"

_LOG = logging.getLogger(__name__)
_LOCKS = defaultdict[tuple[int, int], threading.Lock](threading.Lock)
"""By the device and number of a file: standard output and standard error may be the same pipe."""
_CAPACITY = 4 * 1024 * 1024
"""Characters of lines that wait to be written."""
_CLOSE_S = 1.0
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
    level: str, descriptor: int | None = None, *, worker: int | None = None, form: LogFormat = "JSON"
) -> None:
    """Sends all lines from `level` (DEBUG, INFO, WARN, ERROR) upwards to a file, by default standard error.

    Python's warnings and uncaught exceptions go there as well. A process with siblings shows in each line which
    `worker` it is.
    """
    handler = LineHandler(LineOutput(sys.stderr.fileno() if descriptor is None else descriptor))
    handler.setFormatter(JsonFormatter(worker) if form == "JSON" else TextFormatter(worker))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for library in _TALKATIVE:
        logging.getLogger(library).setLevel(max(logging.root.level, logging.WARNING))
    logging.captureWarnings(capture=True)
    _take_over_hooks()


class LineOutput:
    """Writes whole lines to a descriptor as UTF-8, one writer of a file at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        file = os.fstat(descriptor)
        self._lock = _LOCKS[file.st_dev, file.st_ino]
        self._is_torn = False
        """Whether only a part of the last line could be written."""

    def write(self, lines: str) -> None:
        """Waits for the reader of a pipe. Raises OSError."""
        # INVARIANT: the rest of a line never stands alone, as it could pass for a line.
        rest = memoryview(_encoded(f"\n{lines}" if self._is_torn else lines))
        with self._lock:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
                self._is_torn = bool(rest)

    def write_at_once(self, line: str) -> None:
        """Waits for nothing: the line is lost if it is longer than a pipe takes at once, or can't be written now."""
        encoded = _encoded(line)
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        with suppress(OSError):
            if len(encoded) <= select.PIPE_BUF and poll.poll(0):
                os.write(self._descriptor, encoded)


class LineHandler(logging.Handler):
    """Makes lines in the caller's thread, and writes them in its own: only that one waits for the reader of the log.

    Lines that find no room in memory, or that can't be written, are dropped; the next one that is written follows a
    line that says how many.
    """

    def __init__(self, output: LineOutput) -> None:
        super().__init__()
        self._output = output
        # Not a Queue: a finalizer may log while its thread is inside `put`.
        self._queue: SimpleQueue[str | threading.Event | None] = SimpleQueue()
        # INVARIANT: each counter has one writer, the holder of the handler's lock or the thread.
        self._size_in = self._dropped = 0
        self._size_out = self._failed = self._told = 0
        self._thread = threading.Thread(target=self._run, name="klamm-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        line = self._line_of(record)
        if not self._thread.is_alive():
            # The interpreter ends, or this process was forked.
            self._output.write_at_once(line)
        elif self._size_in - self._size_out + len(line) > _CAPACITY:
            self._dropped += 1
        else:
            self._size_in += len(line)
            self._queue.put(line)

    def flush(self) -> None:
        """Writes what waits, for a second at most."""
        if self._thread.is_alive():
            written = threading.Event()
            self._queue.put(written)
            written.wait(_CLOSE_S)

    def close(self) -> None:
        """Writes what waits, for a second at most. Python calls it before the process ends."""
        # A signal may have ended the process before the thread has started.
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(_CLOSE_S)
        super().close()

    def _line_of(self, record: logging.LogRecord) -> str:
        try:
            return f"{self.format(record)}\n"
        except RecursionError:
            raise
        except Exception as fault:  # noqa: BLE001 - there is nobody to raise it to
            # Logging's own method would print the arguments, on several lines.
            extra = {"from_logger": record.name, "line": record.lineno, "fault": type(fault).__name__}
            return self._own_line("log_line_not_made", **extra)

    def _own_line(self, event: str, **fields: object) -> str:
        level = {"levelno": logging.ERROR, "levelname": "ERROR"}
        return f"{self.format(logging.makeLogRecord({'name': __name__, 'msg': event, **level, **fields}))}\n"

    def _run(self) -> None:
        while (line := self._queue.get()) is not None:
            if isinstance(line, threading.Event):
                line.set()
                continue
            lost = self._dropped + self._failed - self._told
            try:
                if lost:
                    self._output.write(self._own_line("log_lines_left_out", lines=lost))
                    self._told += lost
                self._output.write(line)
            except OSError:
                self._failed += 1
            self._size_out += len(line)


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace")


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
