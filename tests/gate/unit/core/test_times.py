"""Times of RFC 3339, and what is almost one."""

from datetime import UTC, datetime

import pytest

from app.core.past import moment_of
from app.core.times import NotATimeError, likely_time, parse_time

TIMES = {
    "2026-12-01T18:00:00Z": "2026-12-01T18:00:00+00:00",
    "2026-12-01t18:00:00z": "2026-12-01T18:00:00+00:00",
    "2026-12-01T19:30:00+01:30": "2026-12-01T18:00:00+00:00",
    "2026-12-01T18:00:00-00:00": "2026-12-01T18:00:00+00:00",
    "2026-12-01T18:00:00.5Z": "2026-12-01T18:00:00.500000+00:00",
    "2026-12-01T18:00:00.123456789123Z": "2026-12-01T18:00:00.123456+00:00",
}
ALMOST = {
    "2026-12-01T18:00:00+0100": "2026-12-01T18:00:00+01:00",
    "2026-12-01T18:00:00+01": "2026-12-01T18:00:00+01:00",
    "2026-12-01T18:00:00-0030": "2026-12-01T18:00:00-00:30",
    "2026-12-01 18:00:00Z": "2026-12-01T18:00:00Z",
    "2026-12-01 18:00:00 +01:00": "2026-12-01T18:00:00+01:00",
    "2026-12-01 18:00:00 UTC": "2026-12-01T18:00:00Z",
    "2026-12-01T18:00Z": "2026-12-01T18:00:00Z",
    "2026-12-01T18:00:00,5Z": "2026-12-01T18:00:00.5Z",
}
NONE = (
    "", "tomorrow", "2026-12-01", "2026-12-01T18:00:00", "20261201T180000Z", "2026-W49-2T18:00:00Z",
    "2026-13-01T18:00:00Z", "2026-02-30T18:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T18:00:60Z",
    "2026-12-01T18:00:00+24:00", "2026-12-01T18:00:00+01:60", "2026-12-01T18:00:00.Z", " 2026-12-01T18:00:00Z",
    "2026-12-01T18:00:00Z\n", "2026-12-01T18:00:00\u221201:00", "\u0662026-12-01T18:00:00Z", "0000-12-01T18:00:00Z",
    "2026-13-01T18:00:00+0100",
)  # fmt: skip


@pytest.mark.parametrize("text", TIMES)
def test_times_of_rfc_3339_are_read(text: str) -> None:
    assert parse_time(text).astimezone(UTC) == datetime.fromisoformat(TIMES[text])


@pytest.mark.parametrize("text", ALMOST)
def test_what_is_almost_a_time_is_refused_with_the_way_to_write_it(text: str) -> None:
    assert likely_time(text) == ALMOST[text]
    assert parse_time(ALMOST[text]).tzinfo is not None
    with pytest.raises(NotATimeError, match="not a time; write 2026-"):
        parse_time(text)


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(NotATimeError, match="write date, time and offset from UTC"):
        parse_time(text)


def test_a_moment_of_the_past_is_read_as_any_other_time(subtests: pytest.Subtests) -> None:
    for text, meant in TIMES.items():
        with subtests.test(text=text):
            assert moment_of(text, "at") == datetime.fromisoformat(meant)
    for text, likely in ALMOST.items():
        with subtests.test(text=text), pytest.raises(Exception, match="neither a token of this service nor") as refused:
            moment_of(text, "at")
        assert f"or {likely}" in str(refused.value)
