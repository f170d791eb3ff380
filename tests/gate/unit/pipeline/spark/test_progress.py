"""What a job says while it runs."""

import io
import re
from types import SimpleNamespace

import pytest

from app.pipeline.spark import progress
from app.pipeline.spark.errors import NotYetError
from app.pipeline.spark.progress import Console, seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _console(steps: io.StringIO, results: io.StringIO, *, quiet: bool = False) -> Console:
    return Console("export", quiet=quiet, steps=steps, results=results)


def _shown(steps: io.StringIO) -> str:
    """What the steps say, `1.5 s` in the place of all durations."""
    return re.sub(r"\d+\.\d s\b", "1.5 s", steps.getvalue())


def test_a_step_says_what_it_does_and_how_long_it_took() -> None:
    steps, results = io.StringIO(), io.StringIO()
    console = _console(steps, results)
    with console.step("reading offsets 1 to 1,000,000"):
        console.on_stage("stage 1: 2 of 8 tasks")
    console.say("done")
    console.note("by the way")
    assert _shown(steps) == "export    reading offsets 1 to 1,000,000 ... 1.5 s\nexport    by the way\n"
    assert results.getvalue() == "done\n"


def test_the_seconds_are_those_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now, steps = 1_000.0, io.StringIO()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    with _console(steps, io.StringIO()).step("reading"):
        now += 4.2
    assert steps.getvalue() == "export    reading ... 4.2 s\n"


def test_a_step_that_fails_says_so() -> None:
    steps = io.StringIO()
    with pytest.raises(KeyError), _console(steps, io.StringIO()).step("reading"):
        raise KeyError
    assert _shown(steps) == "export    reading ... failed after 1.5 s\n"


def test_a_step_that_finds_nothing_yet_has_not_failed() -> None:
    steps = io.StringIO()
    with pytest.raises(NotYetError), _console(steps, io.StringIO()).step("reading"):
        raise NotYetError("holds no decisions")
    assert _shown(steps) == "export    reading ... nothing there yet, 1.5 s\n"


def test_what_is_said_within_a_step_has_a_line_of_its_own() -> None:
    steps = io.StringIO()
    console = _console(steps, io.StringIO())
    with console.step("all"):
        console.note("half of it")
        with console.step("a part"):
            pass
    assert _shown(steps).splitlines() == [
        "export    all ... ",
        "export    half of it",
        "export    a part ... 1.5 s",
        "export    all ... 1.5 s",
    ]


def test_quiet_says_results_and_faults_only() -> None:
    steps, results = io.StringIO(), io.StringIO()
    console = _console(steps, results, quiet=True)
    with console.step("reading"):
        console.note("by the way")
    console.say("3")
    console.of("snapshot").warn("it broke")
    assert (steps.getvalue(), results.getvalue()) == ("snapshot  it broke\n", "3\n")
    assert not console.is_lively


def test_a_terminal_is_left_with_the_same_lines() -> None:
    steps = Terminal()
    console = _console(steps, io.StringIO())
    assert console.is_lively
    with console.step("reading"):
        pass
    assert _shown(steps).endswith("\rexport    reading ... 1.5 s\n")


@pytest.mark.parametrize(
    ("duration", "text"), [(0.04, "0.0 s"), (4.25, "4.2 s"), (99.9, "99.9 s"), (125.4, "2 min 05 s")]
)
def test_durations_read_well(duration: float, text: str) -> None:
    assert seconds(duration) == text
