"""When an ACL ends, as operators type it: `8h`, `7d`, `2026-12-01T18:00:00Z`, `never`."""

import re
import time
from datetime import UTC, datetime, timedelta

from app.core.kafka.bindings import rfc3339
from app.core.times import NotATimeError, likely_time, parse_time
from app.formats.command_errors import UsageError

_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_NEVER = "never"
_MAX_SHOWN = 100


def whole_now() -> datetime:
    """By this machine's clock, in whole seconds."""
    return datetime.fromtimestamp(int(time.time()), UTC)


def span_of(text: str) -> timedelta | None:
    """How long `8h` is; None if the text is no span. Raises OverflowError."""
    span = _SPAN.fullmatch(text)
    return None if span is None else timedelta(**{_UNITS[span[2]]: int(span[1])})


def end_of(text: str, option: str) -> datetime | None:
    """In UTC and whole seconds; None: it never ends. A span counts from now by this machine's clock.

    Raises UsageError, which names the option.
    """
    if text == _NEVER:
        return None
    now = whole_now()
    try:
        span = span_of(text)
        end = parse_time(text).astimezone(UTC) if span is None else now + span
    except (NotATimeError, OverflowError):
        raise UsageError(
            f"--{option}: `{text[:_MAX_SHOWN]}` is not a time; give "
            f"{likely_time(text) or 'a duration such as 30m, 8h or 7d, a time such as 2026-12-01T18:00:00Z, or never'}"
        ) from None
    if end <= now:
        raise UsageError(f"--{option}: {rfc3339(end)} is in the past: it is {rfc3339(now)} by this machine's clock")
    return end
