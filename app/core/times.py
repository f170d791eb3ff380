"""Times as people and programs write them: the date-time of RFC 3339."""

import re
from datetime import datetime

_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d+))?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_ALMOST = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt_ ](\d{2}:\d{2})(:\d{2})?(?:[.,](\d{1,9}))? ?(?:([Zz]|UTC)|([+-]\d{2}):?(\d{2})?)", re.ASCII
)
_MICROSECONDS = 6


class NotATimeError(ValueError):
    """`expected` is what to write instead."""

    def __init__(self, text: str) -> None:
        self.expected = likely_time(text) or "date, time and offset from UTC, such as 2026-12-01T18:00:00Z"
        super().__init__(f"not a time; write {self.expected}")


def parse_time(text: str) -> datetime:
    """The time with its offset from UTC. Raises NotATimeError for what RFC 3339 does not have: `+0100`, or no `T`.

    Fractions finer than microseconds are cut off. In UTC the time may be outside the years 1 to 9999.
    """
    time = _read(text)
    if time is None:
        raise NotATimeError(text)
    return time


def likely_time(text: str) -> str | None:
    """How RFC 3339 writes what was probably meant; None if the text is not even almost a time."""
    found = _ALMOST.fullmatch(text)
    if found is None:
        return None
    date, minutes, seconds, fraction, utc, hours, rest = found.groups()
    zone = "Z" if utc else f"{hours}:{rest or '00'}"
    likely = f"{date}T{minutes}{seconds or ':00'}{f'.{fraction}' if fraction else ''}{zone}"
    return None if _read(likely) is None else likely


def _read(text: str) -> datetime | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    date, clock, fraction, zone = found.groups()
    micros = f".{fraction[:_MICROSECONDS]}" if fraction else ""
    try:
        return datetime.fromisoformat(f"{date}T{clock}{micros}{zone.upper()}")
    except ValueError:
        return None
