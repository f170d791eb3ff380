"""Lines of the service's log: JSON and text, one event a line, nothing forged, nothing secret."""

import asyncio
import json
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from app.logs import service
from app.logs.json_text import LogFormat
from app.logs.redaction import conceal, reveal_all
from app.logs.service import REQUEST_MARK, JsonFormatter, LineHandler, LineOutput, RequestMark, configure_logging

_LOG = logging.getLogger("app.test")
FORMS: list[LogFormat] = ["JSON", "TEXT"]
UNSAFE = ["\n", "\r", "\r\n", "\t", "\x00", "\x1b[2J", "\x7f", "\x85", "\x9b", "\u2028", "\u2029", "\u202e", "\u2066"]
UNSAFE += ["\u200b", "\u200f", "\ufeff", "\ud800", "\U000e0001"]


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The root logger gets back what pytest has put there, and nothing stays concealed."""
    monkeypatch.setattr(service, "_CLOSE_S", 60.0)
    root = logging.getLogger()
    handlers, level, show = root.handlers[:], root.level, warnings.showwarning
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    root.handlers.clear()
    yield
    logging.captureWarnings(capture=False)
    warnings.showwarning = show
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    root.handlers[:] = handlers
    root.setLevel(level)
    reveal_all()


class Log:
    """A file to which lines go."""

    def __init__(self, path: Path, descriptor: int, form: LogFormat, worker: int | None = None) -> None:
        self._path = path
        os.truncate(descriptor, 0)
        configure_logging("INFO", descriptor, form=form, worker=worker)

    def text(self) -> str:
        """All lines so far, of which there are no more."""
        close_log()
        return self._path.read_text()

    def event(self) -> dict[str, Any]:
        """The one event in it."""
        [line] = self.text().removesuffix("\n").split("\n")
        event: dict[str, Any] = json.loads(line)
        return event


def close_log() -> None:
    """Returns when all is written; no thread writes any more."""
    for each in logging.getLogger().handlers:
        each.close()


MakeLog = Callable[..., Log]


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[MakeLog]:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    yield partial(Log, path, descriptor)
    close_log()
    os.close(descriptor)


@pytest.fixture
def log(logged: MakeLog) -> Log:
    """Lines of JSON."""
    return logged("JSON")


@pytest.fixture
def text(logged: MakeLog) -> Log:
    """Lines of text."""
    return logged("TEXT")


@contextmanager
def piped() -> Iterator[tuple[IO[bytes], int]]:
    """Lines of JSON go to a pipe: its end for the reader, and the other one."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb", buffering=0):
        with os.fdopen(reader, "rb") as pipe:
            configure_logging("INFO", writer)
            yield pipe, writer
        close_log()


def fill(writer: int) -> None:
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"-" * 4_096)
    os.set_blocking(writer, True)


def events_until(pipe: IO[bytes], last: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while not events or events[-1]["event"] != last:
        events.append(json.loads(pipe.readline().lstrip(b"-")))
    return events


def test_an_event_is_one_json_object_with_its_fields(log: Log) -> None:
    _LOG.warning("image_loaded", extra={"offset": 42, "part": 0.5, "folder": "my data", "super.users": "", "on": True})
    event = log.event()
    assert list(event) == ["time", "level", "logger", "event", "offset", "part", "folder", "super.users", "on"]
    assert list(event.values())[1:] == ["WARNING", "app.test", "image_loaded", 42, 0.5, "my data", "", True]
    assert (event["time"][10], event["time"][19], event["time"][23:]) == ("T", ".", "Z")


def test_an_event_is_one_line_of_text_with_its_fields(text: Log) -> None:
    _LOG.warning("image_loaded", extra={"offset": 42, "folder": "my data", "empty": "", "quoted": 'a"b'})
    line = text.text()
    assert line.endswith(" WARNING app.test image_loaded offset=42 folder='my data' empty='' quoted='a\"b'\n")
    assert line[10] == "T"
    assert line[23] == "Z"


def test_numbers_that_json_has_not_are_text(log: Log) -> None:
    _LOG.info("odd", extra={"a": float("nan"), "b": float("-inf"), "c": None, "d": Path("x"), "e": ["y"]})
    event = log.event()
    assert [event[name] for name in "abcde"] == ["nan", "-inf", None, "x", "['y']"]


def test_what_a_caller_sent_can_not_begin_a_line_nor_reach_a_screen(subtests: pytest.Subtests, logged: MakeLog) -> None:
    for form in FORMS:
        for unsafe in UNSAFE:
            with subtests.test(form=form, unsafe=unsafe):
                log = logged(form)
                sent = f"User:a{unsafe}2026-11-21 forged"
                _LOG.info("refused", extra={"principal": sent})
                logging.getLogger("asyncio").error("of a library: %s", sent)
                _LOG.error("failed", exc_info=ValueError(sent))
                told = log.text()
                assert all(each.isprintable() for each in told.split("\n"))
                if form == "JSON":
                    first, library, failed = map(json.loads, told.splitlines())
                    assert (first["principal"], library["message"]) == (sent, f"of a library: {sent}")
                    assert failed["exception"].endswith(f"ValueError: {sent}")
                else:
                    own = [line for line in told.split("\n") if line and not line.startswith("  ")]
                    assert [line.split()[3] for line in own] == ["refused", "library_message", "failed"]


def test_an_exception_is_a_field(log: Log) -> None:
    try:
        int("planted")
    except ValueError:
        _LOG.exception("update_failed", extra={"offset": 7})
    event = log.event()
    assert (list(event)[-1], event["offset"]) == ("exception", 7)
    first, *_, last = event["exception"].split("\n")
    assert first == "Traceback (most recent call last):"
    assert last == "ValueError: invalid literal for int() with base 10: 'planted'"


def test_an_exception_follows_its_event_in_text_and_is_indented(text: Log) -> None:
    try:
        int("planted\n2026-11-21T00:00:00.000Z INFO app.cli.entry_point forged")
    except ValueError as fault:
        fault.add_note("planted\n2026-11-21T00:00:00.000Z INFO app.cli.entry_point forged")
        _LOG.exception("update_failed")
    first, *rest = text.text().splitlines()
    assert first.endswith("ERROR app.test update_failed")
    assert rest[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in rest)
    assert rest[-1].endswith("forged")


def test_lines_below_the_level_are_left_out(log: Log) -> None:
    _LOG.debug("detail")
    logging.getLogger("uvicorn.error").info("Started server process")
    assert log.text() == ""


def test_standard_error_is_the_default(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logging("ERROR")
    _LOG.error("here")
    close_log()
    assert json.loads(capfd.readouterr().err)["event"] == "here"


def test_a_worker_says_which_one_it_is(logged: MakeLog) -> None:
    for form, shown in (("JSON", '"event":"here","worker":3}'), ("TEXT", "here worker=3")):
        log = logged(form, 3)
        _LOG.info("here")
        assert log.text().endswith(f"{shown}\n")


def test_lines_of_libraries_keep_their_words_in_a_field(log: Log) -> None:
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request %s.", "received")
    event = log.event()
    assert (event["event"], event["message"]) == ("library_message", "Invalid HTTP request received.")


def test_a_librarys_slip_costs_its_arguments_and_not_the_line() -> None:
    slip = logging.LogRecord("alembic", logging.WARNING, "some.py", 7, "%d of %d", ("one", 2), None)
    assert json.loads(JsonFormatter().format(slip))["message"] == "%d of %d"


def test_a_library_can_not_pass_off_its_fields_as_ours(log: Log) -> None:
    logging.getLogger("sqlalchemy").warning("text", extra={"event": "serving", "level": "INFO", "time": "now"})
    event = log.event()
    assert (event["event"], event["level"], event["message"]) == ("library_message", "WARNING", "text")


def test_warnings_are_lines(log: Log) -> None:
    warnings.showwarning("it is old", DeprecationWarning, "some.py", 7)
    event = log.event()
    assert (event["event"], event["logger"], event["level"]) == ("library_message", "py.warnings", "WARNING")
    assert "DeprecationWarning: it is old" in event["message"]


def test_a_line_that_can_not_be_made_is_told_of_on_one_line(log: Log, capfd: pytest.CaptureFixture[str]) -> None:
    class Bad:
        def __str__(self) -> str:
            raise ValueError("planted")

    _LOG.info("odd", extra={"bad": Bad()})
    event = log.event()
    assert (event["event"], event["from_logger"], event["fault"]) == ("log_line_not_made", "app.test", "ValueError")
    assert capfd.readouterr().err == ""


def test_a_stream_that_is_gone_costs_its_lines_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    with piped() as (pipe, _):
        pipe.close()
        _LOG.info("lost")
    assert capfd.readouterr().err == ""


def test_a_log_that_nobody_reads_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with piped() as (pipe, writer):
        fill(writer)
        _LOG.info("kept")
        with monkeypatch.context() as small:
            small.setattr(service, "_CAPACITY", 200)
            other = threading.Thread(target=lambda: _LOG.error("of_a_thread", extra={"long": "y" * 200}))
            other.start()
            other.join()
            _LOG.info("kept_as_well")
            for number in range(3):
                _LOG.info("of_the_loop", extra={"number": number})
        told = events_until(pipe, "kept_as_well")
        _LOG.info("read_again")
        told += events_until(pipe, "read_again")
    assert {line["event"] for line in told} == {"kept", "kept_as_well", "log_lines_left_out", "read_again"}
    assert sum(line.get("lines", 0) for line in told) == 4


class DropsMore(JsonFormatter):
    """Each time until `drops` is empty, that many lines find no room while one is made that tells of others."""

    def __init__(self, *drops: int) -> None:
        super().__init__()
        self._drops = list(drops)

    def format(self, record: logging.LogRecord) -> str:
        if record.msg == "log_lines_left_out" and self._drops:
            for _ in range(self._drops.pop(0)):
                _LOG.info("no_room", extra={"long": "y" * 2_000})
        return super().format(record)


def test_lines_that_are_left_out_while_others_are_told_of_are_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_CAPACITY", 1_000)
    with piped() as (pipe, _):
        logging.root.handlers[0].setFormatter(DropsMore(2))
        _LOG.info("no_room", extra={"long": "y" * 2_000})
        for event in ("one", "two", "three"):
            _LOG.info(event)
        told = events_until(pipe, "three")
    assert [(line["event"], line.get("lines")) for line in told] == [
        *(("log_lines_left_out", 1), ("one", None)),
        *(("log_lines_left_out", 2), ("two", None), ("three", None)),
    ]


def test_a_line_longer_than_a_pipe_waits_for_its_reader() -> None:
    with piped() as (pipe, _):
        text = "y" * 60_000
        _LOG.info("long", extra={"first": text, "second": text})
        _LOG.info("after")
        long, _ = events_until(pipe, "after")
    assert (long["first"], long["second"]) == (text, text)


def test_lines_of_two_outputs_to_one_pipe_stay_whole() -> None:
    with piped() as (pipe, writer):
        other = LineOutput(os.dup(writer))
        line = json.dumps({"event": "other", "text": "z" * 30_000})

        def write_others() -> None:
            for _ in range(20):
                other.write(f"{line}\n")

        thread = threading.Thread(target=write_others)
        thread.start()
        for _ in range(20):
            _LOG.info("own", extra={"text": "y" * 30_000})
        told = [json.loads(pipe.readline()) for _ in range(40)]
        thread.join()
        os.close(other._descriptor)
    assert sorted(each["event"] for each in told) == ["other"] * 20 + ["own"] * 20


def test_an_output_that_nobody_reads_holds_up_no_line_of_another_one(log: Log) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb", buffering=0), os.fdopen(reader, "rb") as pipe:
        fill(writer)
        other = threading.Thread(target=partial(LineOutput(writer).write, "late\n"))
        other.start()
        _LOG.info("here")
        assert log.event()["event"] == "here"
        assert pipe.readline().endswith(b"late\n")
        other.join()


@pytest.mark.parametrize("form", FORMS)
def test_every_line_of_a_request_says_so(form: LogFormat, logged: MakeLog) -> None:
    log = logged(form)
    mark = RequestMark("abc", f"00-{'a' * 32}-{'b' * 16}-01")

    async def request() -> None:
        REQUEST_MARK.set(mark)
        mark.caller = "billing"
        await asyncio.create_task(deeper())

    async def deeper() -> None:
        _LOG.info("here")

    asyncio.run(request())
    _LOG.info("outside")
    inside, outside = log.text().splitlines()
    if form == "JSON":
        event = json.loads(inside)
        assert (event["request_id"], event["trace_id"], event["caller"]) == ("abc", "a" * 32, "billing")
    else:
        assert inside.endswith(f"here request_id=abc trace_id={'a' * 32} caller=billing")
    assert "request_id" not in outside


def test_what_a_request_has_not_is_not_shown(log: Log) -> None:
    REQUEST_MARK.set(RequestMark("abc"))
    try:
        _LOG.info("here")
    finally:
        REQUEST_MARK.set(None)
    event = log.event()
    assert event["request_id"] == "abc"
    assert not {"trace_id", "caller"} & set(event)


@pytest.mark.parametrize("form", FORMS)
def test_no_part_of_a_line_shows_a_secret(form: LogFormat, logged: MakeLog) -> None:
    log = logged(form, 1)
    conceal("canary-in-a-coal-mine")
    REQUEST_MARK.set(RequestMark("canary-in-a-coal-mine", None, "canary-in-a-coal-mine"))
    try:
        extra = {"field": "canary-in-a-coal-mine", "db_password": "x1"}
        _LOG.error("failed", exc_info=ValueError("canary-in-a-coal-mine"), extra=extra)
        logging.getLogger("asyncpg").error("with %s", "canary-in-a-coal-mine")
        logging.getLogger("canary-in-a-coal-mine").error("of a library")
    finally:
        REQUEST_MARK.set(None)
    told = log.text()
    assert "canary" not in told
    assert "x1" not in told
    assert told.count("***") == 11


def test_hooks_that_somebody_has_set_stay() -> None:
    def theirs(_: object) -> None:
        raise AssertionError("not called")

    sys.unraisablehook = theirs
    configure_logging("INFO")
    assert sys.unraisablehook is theirs


def test_a_process_that_ends_before_the_thread_of_its_log_has_started_says_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    LineHandler(LineOutput(2)).close()
