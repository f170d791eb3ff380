import io
import logging
from collections.abc import Iterator

import pytest

from app.ops.logs import configure_logging

_LOG = logging.getLogger("klamm.test")


@pytest.fixture
def root_logger() -> Iterator[None]:
    """The root logger gets back what pytest has put there."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def stream(root_logger: None) -> io.StringIO:  # noqa: ARG001 - for its clean-up
    stream = io.StringIO()
    configure_logging("INFO", stream)
    return stream


def test_an_event_is_one_line_with_its_fields(stream: io.StringIO) -> None:
    _LOG.warning("image_loaded", extra={"offset": 42, "folder": "my data", "empty": "", "quoted": 'a"b'})
    line = stream.getvalue()
    assert line.endswith(" WARNING klamm.test image_loaded offset=42 folder='my data' empty='' quoted='a\"b'\n")
    assert line[10] == "T"
    assert line[23] == "Z"


def test_what_a_caller_sent_can_not_begin_a_line(stream: io.StringIO) -> None:
    _LOG.info("refused\n2026-11-21 forged", extra={"principal": "User:a\nforged\x1b[2J"})
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_an_exception_follows_its_event(stream: io.StringIO) -> None:
    try:
        int("planted")
    except ValueError:
        _LOG.exception("update_failed")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("ERROR klamm.test update_failed")
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1].startswith("ValueError: ")


def test_lines_below_the_level_are_left_out(stream: io.StringIO) -> None:
    _LOG.debug("detail")
    logging.getLogger("uvicorn.error").info("Started server process")
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("root_logger")
def test_standard_error_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("ERROR")
    _LOG.error("here")
    assert capsys.readouterr().err.endswith("klamm.test here\n")
