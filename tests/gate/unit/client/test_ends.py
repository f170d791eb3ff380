"""When an ACL is to end, as operators type it."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from app.client import ends
from app.client.ends import end_of
from app.client.moments import moment_given
from app.formats.command_errors import UsageError


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("8h", timedelta(hours=8)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_a_span_counts_from_now(text: str, ahead: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    monkeypatch.setattr(ends, "time", SimpleNamespace(time=lambda: now.timestamp() + 0.999))
    # In whole seconds.
    assert end_of(text, "expires") == now + ahead


@pytest.mark.parametrize("text", ["2099-12-01T18:00:00Z", "2099-12-01T20:00:00+02:00"])
def test_a_time_is_taken_as_it_is(text: str) -> None:
    assert end_of(text, "expires") == datetime(2099, 12, 1, 18, tzinfo=UTC)


def test_never_is_no_end() -> None:
    assert end_of("never", "expires") is None


def test_what_is_no_time_is_refused_with_the_way_out(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        "8",
        "h",
        "0h",
        "-8h",
        "8 h",
        "8H",
        "1.5h",
        "8h30m",
        "99999999999w",
        "999999999w",
        "2099-12-01T18:00:00",
        "2099-12-01",
        "tomorrow",
        "Never",
        "\u0668h",
        "8h\n",
    ]:
        with subtests.test(text=text), pytest.raises(UsageError, match=r"--expires: .*(such as 30m, 8h or 7d|beyond)"):
            end_of(text, "expires")


@pytest.mark.parametrize("text", ["2099-12-01T18:00:00+0100", "2099-12-01 18:00:00+01:00", "2099-12-01T18:00:00+01"])
def test_what_is_almost_a_time_is_refused_with_the_way_to_write_it(text: str) -> None:
    for refused in (end_of, moment_given):
        with pytest.raises(UsageError, match=r"is not a time; give 2099-12-01T18:00:00\+01:00\Z"):
            refused(text, "at")


def test_what_is_past_is_refused() -> None:
    with pytest.raises(UsageError, match="--allow-for: 2001-01-01T00:00:00Z is in the past"):
        end_of("2001-01-01T00:00:00Z", "allow-for")
