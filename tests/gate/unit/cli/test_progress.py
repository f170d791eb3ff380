import io

import pytest

from app.cli.progress import LINE_EVERY_S, ProgressDisplay
from tests.virtual_time import VIRTUAL_CLOCK, freeze, in_virtual_time


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@in_virtual_time
async def test_without_a_terminal_a_line_comes_every_few_seconds() -> None:
    stream = io.StringIO()
    with ProgressDisplay(stream, clock=VIRTUAL_CLOCK) as progress:
        progress.done(1)  # before the first stage there is nothing to say
        progress.stage("checking", 1_000)
        progress.done(1)
        assert stream.getvalue() == ""
        freeze(LINE_EVERY_S)
        progress.done(250)
        progress.done(500)
        progress.stage("importing", 40_000)
        freeze(LINE_EVERY_S - 1)
        progress.done(1_000, 1_000)
        freeze(1)
        progress.done(10_000, 10_000)
        freeze(LINE_EVERY_S)
        progress.done(10_000, 10_000, "PostgreSQL can't be reached; retry")

    assert stream.getvalue().splitlines() == [
        "klamm: checking 25 %, about 15 s left",
        "klamm: importing 25 %, 10,000 ACLs, 2,000/s, about 15 s left",
        "klamm: importing 25 %, 10,000 ACLs, 1,000/s; waiting: PostgreSQL can't be reached; retry, about 30 s left",
    ]


@in_virtual_time
async def test_nothing_done_yet_tells_no_end() -> None:
    stream = io.StringIO()
    with ProgressDisplay(stream, clock=VIRTUAL_CLOCK) as progress:
        progress.stage("importing", 0)
        freeze(LINE_EVERY_S)
        progress.done(0, 0)
    assert stream.getvalue() == "klamm: importing 0 %, 0 ACLs, 0/s\n"


@pytest.mark.parametrize("stream", [io.StringIO(), _Terminal()])
@in_virtual_time
async def test_quiet_shows_nothing(stream: io.StringIO) -> None:
    with ProgressDisplay(stream, quiet=True, clock=VIRTUAL_CLOCK) as progress:
        progress.stage("checking", 10)
        freeze(2 * LINE_EVERY_S)
        progress.done(5, 5)
    assert stream.getvalue() == ""


@in_virtual_time
async def test_a_terminal_gets_a_bar_and_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = _Terminal()
    with ProgressDisplay(stream, clock=VIRTUAL_CLOCK) as progress:
        progress.stage("checking", 10)
        progress.done(10)
        progress.stage("importing", 4_000)
        freeze(2 * LINE_EVERY_S)
        progress.done(2_000, 2_000, "planted")
    shown = stream.getvalue()
    assert "importing" in shown
    assert "50%" in shown
    assert "2,000 ACLs, 200/s; waiting: planted" in shown
    assert "klamm: " not in shown
