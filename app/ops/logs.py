"""The service's own log: one line an event on standard error, a static name and then its fields."""

import logging
import sys
import time
from typing import IO

_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR}
# What these say of their own lives repeats our lines.
_TALKATIVE = ("uvicorn", "httpx", "alembic")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def configure_logging(level: str, stream: IO[str] | None = None, *, worker: int | None = None) -> None:
    """Sends every logger's lines from `level` (DEBUG, INFO, WARN, ERROR) on to `stream`, by default standard error.

    A process that has siblings says in each line which `worker` it is.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(EventFormatter("" if worker is None else f" worker={worker}"))
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)
    for library in _TALKATIVE:
        logging.getLogger(library).setLevel(max(_LEVELS[level], logging.WARNING))


class EventFormatter(logging.Formatter):
    """`2026-11-21T14:00:00.123Z INFO app.store.embedded embedded_postgres_started port=5433`."""

    def __init__(self, tail: str = "") -> None:
        super().__init__()
        self._tail = tail

    def format(self, record: logging.LogRecord) -> str:
        """One line; what an exception adds follows on lines of its own."""
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = [f"{name}={_quoted(value)}" for name, value in vars(record).items() if name not in _STANDARD]
        head = f"{clock}.{int(record.msecs):03d}Z {record.levelname} {record.name} {_one_line(record.getMessage())}"
        line = " ".join([head, *fields]) + self._tail
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text) if not text or not text.isprintable() or set(text) & set(" =\"'") else text


def _one_line(text: str) -> str:
    # INVARIANT: what a caller sent can't begin a line of its own in the log.
    return text if text.isprintable() else repr(text)
