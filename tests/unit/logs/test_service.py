"""Lines of the service's log: JSON and text, one event a line, nothing forged, nothing secret."""

import asyncio
import io
import json
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from app.logs.json_text import LogFormat
from app.logs.redaction import conceal, reveal_all
from app.logs.service import REQUEST_MARK, WRITING, JsonFormatter, LineHandler, RequestMark, configure_logging
from tests.cases import each_case

ROOT = Path(__file__).parents[3]
_LOG = logging.getLogger("app.test")
FORMS: list[LogFormat] = ["JSON", "TEXT"]
UNSAFE = ["\n", "\r", "\r\n", "\t", "\x00", "\x1b[2J", "\x7f", "\x85", "\x9b", "\u2028", "\u2029", "\u202e", "\u2066"]
UNSAFE += ["\u200b", "\u200f", "\ufeff", "\ud800", "\U000e0001"]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The root logger gets back what pytest has put there, and nothing stays concealed."""
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


@pytest.fixture
def stream() -> io.StringIO:
    """Where lines of JSON go."""
    stream = io.StringIO()
    configure_logging("INFO", stream)
    return stream


@pytest.fixture
def text() -> io.StringIO:
    """Where lines of text go."""
    stream = io.StringIO()
    configure_logging("INFO", stream, form="TEXT")
    return stream


def only(stream: io.StringIO) -> dict[str, Any]:
    """The one event in it."""
    [line] = stream.getvalue().removesuffix("\n").split("\n")
    event: dict[str, Any] = json.loads(line)
    return event


def test_an_event_is_one_json_object_with_its_fields(stream: io.StringIO) -> None:
    _LOG.warning("image_loaded", extra={"offset": 42, "part": 0.5, "folder": "my data", "super.users": "", "on": True})
    event = only(stream)
    assert list(event) == ["time", "level", "logger", "event", "offset", "part", "folder", "super.users", "on"]
    assert list(event.values())[1:] == ["WARNING", "app.test", "image_loaded", 42, 0.5, "my data", "", True]
    assert (event["time"][10], event["time"][19], event["time"][23:]) == ("T", ".", "Z")


def test_an_event_is_one_line_of_text_with_its_fields(text: io.StringIO) -> None:
    _LOG.warning("image_loaded", extra={"offset": 42, "folder": "my data", "empty": "", "quoted": 'a"b'})
    line = text.getvalue()
    assert line.endswith(" WARNING app.test image_loaded offset=42 folder='my data' empty='' quoted='a\"b'\n")
    assert line[10] == "T"
    assert line[23] == "Z"


def test_numbers_that_json_has_not_are_text(stream: io.StringIO) -> None:
    _LOG.info("odd", extra={"a": float("nan"), "b": float("-inf"), "c": None, "d": Path("x"), "e": ["y"]})
    event = only(stream)
    assert [event[name] for name in "abcde"] == ["nan", "-inf", None, "x", "['y']"]


@each_case("form", FORMS)
@each_case("unsafe", UNSAFE)
def test_what_a_caller_sent_can_not_begin_a_line_nor_reach_a_screen(form: LogFormat, unsafe: str) -> None:
    stream = io.StringIO()
    configure_logging("INFO", stream, form=form)
    sent = f"User:a{unsafe}2026-11-21 forged"
    _LOG.info("refused", extra={"principal": sent})
    logging.getLogger("asyncio").error("of a library: %s", sent)
    _LOG.error("failed", exc_info=ValueError(sent))
    told = stream.getvalue()
    assert all(each.isprintable() for each in told.split("\n"))
    if form == "JSON":
        first, library, failed = map(json.loads, told.splitlines())
        assert (first["principal"], library["message"]) == (sent, f"of a library: {sent}")
        assert failed["exception"].endswith(f"ValueError: {sent}")
    else:
        own = [line for line in told.split("\n") if line and not line.startswith("  ")]
        assert [line.split()[3] for line in own] == ["refused", "library_message", "failed"]


def test_an_exception_is_a_field(stream: io.StringIO) -> None:
    try:
        int("planted")
    except ValueError:
        _LOG.exception("update_failed", extra={"offset": 7})
    event = only(stream)
    assert (list(event)[-1], event["offset"]) == ("exception", 7)
    first, *_, last = event["exception"].split("\n")
    assert first == "Traceback (most recent call last):"
    assert last == "ValueError: invalid literal for int() with base 10: 'planted'"


def test_an_exception_follows_its_event_in_text_and_is_indented(text: io.StringIO) -> None:
    try:
        int("planted\n2026-11-21T00:00:00.000Z INFO app.cli.entry_point forged")
    except ValueError as fault:
        fault.add_note("planted\n2026-11-21T00:00:00.000Z INFO app.cli.entry_point forged")
        _LOG.exception("update_failed")
    first, *rest = text.getvalue().splitlines()
    assert first.endswith("ERROR app.test update_failed")
    assert rest[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in rest)
    assert rest[-1].endswith("forged")


def test_lines_below_the_level_are_left_out(stream: io.StringIO) -> None:
    _LOG.debug("detail")
    logging.getLogger("uvicorn.error").info("Started server process")
    assert stream.getvalue() == ""


def test_standard_error_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("ERROR")
    _LOG.error("here")
    assert json.loads(capsys.readouterr().err)["event"] == "here"


def test_a_worker_says_which_one_it_is() -> None:
    for form, shown in (("JSON", '"event":"here","worker":3}'), ("TEXT", "here worker=3")):
        stream = io.StringIO()
        configure_logging("INFO", stream, worker=3, form="JSON" if form == "JSON" else "TEXT")
        _LOG.info("here")
        assert stream.getvalue().endswith(f"{shown}\n")


def test_lines_of_libraries_keep_their_words_in_a_field(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request %s.", "received")
    event = only(stream)
    assert (event["event"], event["message"]) == ("library_message", "Invalid HTTP request received.")


def test_a_librarys_slip_costs_its_arguments_and_not_the_line() -> None:
    slip = logging.LogRecord("alembic", logging.WARNING, "some.py", 7, "%d of %d", ("one", 2), None)
    assert json.loads(JsonFormatter().format(slip))["message"] == "%d of %d"


def test_a_library_can_not_pass_off_its_fields_as_ours(stream: io.StringIO) -> None:
    logging.getLogger("sqlalchemy").warning("text", extra={"event": "serving", "level": "INFO", "time": "now"})
    event = only(stream)
    assert (event["event"], event["level"], event["message"]) == ("library_message", "WARNING", "text")


def test_warnings_are_lines(stream: io.StringIO) -> None:
    warnings.showwarning("it is old", DeprecationWarning, "some.py", 7)
    event = only(stream)
    assert (event["event"], event["logger"], event["level"]) == ("library_message", "py.warnings", "WARNING")
    assert "DeprecationWarning: it is old" in event["message"]


def test_a_line_that_can_not_be_made_is_told_of_on_one_line(
    stream: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    class Bad:
        def __str__(self) -> str:
            raise ValueError("planted")

    _LOG.info("odd", extra={"bad": Bad()})
    event = only(stream)
    assert (event["event"], event["from_logger"], event["fault"]) == ("log_line_not_made", "app.test", "ValueError")
    assert capsys.readouterr().err == ""


def test_a_stream_that_is_gone_costs_its_lines_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        configure_logging("INFO", stream)
        os.close(reader)
        _LOG.info("lost")
    assert capsys.readouterr().err == ""


def test_a_log_that_nobody_reads_holds_up_a_thread_and_not_the_event_loop() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as pipe, os.fdopen(writer, "w") as stream:
        configure_logging("INFO", stream)
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b"-" * 4_096)
        os.set_blocking(writer, True)
        other = threading.Thread(target=lambda: _LOG.info("of_a_thread"))
        other.start()
        _LOG.error("of_the_loop")
        assert other.is_alive()
        assert b"of_" not in pipe.read(1 << 20)
        other.join(60)
        _LOG.info("read_again")
        lines = [json.loads(line) for line in pipe.read(4_096).splitlines()]
        assert {line["event"]: line.get("lines") for line in lines} == {
            "of_a_thread": None,
            "log_lines_left_out": 1,
            "read_again": None,
        }


def test_a_long_line_holds_up_nobody_either() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as pipe, os.fdopen(writer, "w") as stream:
        configure_logging("INFO", stream)
        for number in range(5):
            _LOG.info("long", extra={"number": number, "text": "y" * 20_000})
        taken = pipe.read(1 << 20)
        _LOG.info("long", extra={"number": 5, "text": "y" * 20_000})
        told = [json.loads(line) for line in (taken + pipe.read(1 << 20)).splitlines()]
    *_, left_out, last = told
    assert last["number"] == 5
    assert left_out["lines"] == 5 - (len(told) - 2) > 0


def test_a_line_that_no_pipe_has_room_for_is_told_by_its_beginning() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as pipe, os.fdopen(writer, "w") as stream:
        configure_logging("INFO", stream)
        _LOG.error("failed", extra={"first": "y" * 40_000, "second": "y" * 40_000})
        _LOG.info("after")
        told, after = [json.loads(line) for line in pipe.read(1 << 20).splitlines()]
    assert after["event"] == "after"
    assert (told["event"], told["level"]) == ("log_line_too_long", "ERROR")
    assert told["bytes"] > 80_000
    assert '"level":"ERROR","logger":"app.test","event":"failed","first":"yyy' in told["begins"]


def test_lines_that_are_left_out_while_others_are_told_of_are_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as pipe, os.fdopen(writer, "w") as stream:
        configure_logging("INFO", stream)
        (handler,) = logging.getLogger().handlers
        assert isinstance(handler, LineHandler)
        own_line, handler._left_out = handler._own_line, 1

        def leaves_more_out(event: str, **fields: object) -> str:
            handler._left_out += 2
            monkeypatch.undo()
            return own_line(event, **fields)

        monkeypatch.setattr(handler, "_own_line", leaves_more_out)
        _LOG.info("one")
        _LOG.info("two")
        _LOG.info("three")
        told = [json.loads(line) for line in pipe.read(4_096).splitlines()]
    assert [line.get("lines") for line in told] == [1, None, 2, None, None]


def test_a_long_line_goes_out_in_one_piece() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as pipe, os.fdopen(writer, "w") as stream:
        configure_logging("INFO", stream)
        _LOG.info("long", extra={"text": "y" * 30_000})
        assert json.loads(pipe.read(65_536))["text"] == "y" * 30_000


@pytest.mark.parametrize("form", FORMS)
def test_every_line_of_a_request_says_so(form: LogFormat) -> None:
    stream = io.StringIO()
    configure_logging("INFO", stream, form=form)
    mark = RequestMark("abc", f"00-{'a' * 32}-{'b' * 16}-01")

    async def request() -> None:
        REQUEST_MARK.set(mark)
        mark.caller = "billing"
        await asyncio.create_task(deeper())

    async def deeper() -> None:
        _LOG.info("here")

    asyncio.run(request())
    _LOG.info("outside")
    inside, outside = stream.getvalue().splitlines()
    if form == "JSON":
        event = json.loads(inside)
        assert (event["request_id"], event["trace_id"], event["caller"]) == ("abc", "a" * 32, "billing")
    else:
        assert inside.endswith(f"here request_id=abc trace_id={'a' * 32} caller=billing")
    assert "request_id" not in outside


def test_what_a_request_has_not_is_not_shown(stream: io.StringIO) -> None:
    REQUEST_MARK.set(RequestMark("abc"))
    try:
        _LOG.info("here")
    finally:
        REQUEST_MARK.set(None)
    event = only(stream)
    assert event["request_id"] == "abc"
    assert not {"trace_id", "caller"} & set(event)


@pytest.mark.parametrize("form", FORMS)
def test_no_part_of_a_line_shows_a_secret(form: LogFormat) -> None:
    stream = io.StringIO()
    configure_logging("INFO", stream, form=form, worker=1)
    conceal("canary-in-a-coal-mine")
    REQUEST_MARK.set(RequestMark("canary-in-a-coal-mine", None, "canary-in-a-coal-mine"))
    try:
        extra = {"field": "canary-in-a-coal-mine", "db_password": "x1"}
        _LOG.error("failed", exc_info=ValueError("canary-in-a-coal-mine"), extra=extra)
        logging.getLogger("asyncpg").error("with %s", "canary-in-a-coal-mine")
        logging.getLogger("canary-in-a-coal-mine").error("of a library")
    finally:
        REQUEST_MARK.set(None)
    told = stream.getvalue()
    assert "canary" not in told
    assert "x1" not in told
    assert told.count("***") == 11


PROCESS = """
import asyncio, gc, sys, threading, warnings
from app.logs.service import configure_logging
configure_logging("INFO", form=sys.argv[1])

class Odd:
    def __del__(self): raise ValueError("unraisable\\nforged")

async def main():
    async def fails(): raise ValueError("of a task\\nforged")
    task = asyncio.get_running_loop().create_task(fails())
    await asyncio.sleep(0)
    del task
    gc.collect()

def of_a_thread(): raise ValueError("of a thread\\nforged")

Odd()
asyncio.run(main())
thread = threading.Thread(target=of_a_thread)
thread.start()
thread.join()
warnings.warn("heed\\nforged")
raise ValueError("of the process\\nforged")
"""


@pytest.mark.parametrize("form", FORMS)
def test_what_nobody_catches_is_an_event_too(form: LogFormat) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", PROCESS, form],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    if form == "TEXT":
        events = [line for line in done.stderr.split("\n") if line and not line.startswith("  ")]
        assert [line.split()[2:4] for line in events] == [
            ["app.logs.service", "unraisable_exception"], ["asyncio", "library_message"],
            ["app.logs.service", "uncaught_exception"], ["py.warnings", "library_message"],
            ["app.logs.service", "uncaught_exception"],
        ]  # fmt: skip
        return
    unraisable, task, thread, warning, process = map(json.loads, done.stderr.splitlines())
    assert (unraisable["event"], "Odd.__del__" in unraisable["what"]) == ("unraisable_exception", True)
    assert unraisable["exception"].endswith("ValueError: unraisable\nforged")
    assert (task["event"], task["logger"]) == ("library_message", "asyncio")
    assert task["message"].startswith("Task exception was never retrieved\n")
    assert task["exception"].endswith("ValueError: of a task\nforged")
    assert (thread["event"], thread["exception"][-6:]) == ("uncaught_exception", "forged")
    assert "heed\nforged" in warning["message"]
    assert (process["event"], process["level"]) == ("uncaught_exception", "CRITICAL")
    assert process["exception"].endswith("ValueError: of the process\nforged")


def test_ctrl_c_is_no_fault() -> None:
    program = "from app.logs.service import configure_logging\nconfigure_logging('INFO')\nraise KeyboardInterrupt"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (-2, b"")


def test_ctrl_c_that_reaches_a_finalizer_is_not_lost() -> None:
    program = """
import signal, time
from app.logs.service import configure_logging
configure_logging("INFO")

class Odd:
    def __del__(self): signal.raise_signal(signal.SIGINT)

Odd()
time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False, timeout=50)
    assert (done.returncode, done.stderr) == (-2, b"")


def test_hooks_that_somebody_has_set_stay() -> None:
    def theirs(_: object) -> None:
        raise AssertionError("not called")

    sys.unraisablehook = theirs
    configure_logging("INFO", io.StringIO())
    assert sys.unraisablehook is theirs


def test_a_threads_line_waits_for_lines_under_way_and_the_main_threads_does_not(text: io.StringIO) -> None:
    other = threading.Thread(target=lambda: _LOG.info("of_a_thread"))
    with WRITING:
        _LOG.info("of_the_loop")
        assert text.getvalue().count("\n") == 1
        other.start()
        other.join(0.05)
        assert other.is_alive()
    other.join(60)
    assert [line.split()[-1] for line in text.getvalue().splitlines()] == ["of_the_loop", "of_a_thread"]
