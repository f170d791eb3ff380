"""Moments of the past, as operators type them: a token, `2026-11-30T18:00:00Z`, or how long ago, such as `8h`."""

import argparse

from app.client.ends import span_of, whole_now
from app.client.words import utf_8
from app.core.kafka.bindings import rfc3339
from app.core.kafka.errors import InvalidRequestException
from app.core.past import moment_of
from app.core.times import likely_time
from app.formats.command_errors import UsageError

_MAX_SHOWN = 100
_EXPECTED = "a time such as 2026-11-30T18:00:00Z, how long ago, such as 8h or 7d, or a token of the service"


def add_at_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--at",
        metavar="TIME",
        help="the state at this time: 2026-11-30T18:00:00Z, a token, or 8h or 7d ago by this machine's clock (now)",
    )


def at_body(arguments: argparse.Namespace) -> dict[str, str]:
    """The field of a request. Raises UsageError."""
    return {} if arguments.at is None else {"at": moment_given(arguments.at, "at")}


def moment_given(text: str, option: str) -> str:
    """The moment as the service takes it. Raises UsageError, which names the option."""
    try:
        ago = span_of(utf_8(text))
        if ago is not None:
            return rfc3339(whole_now() - ago)
        moment_of(text, option)
    except (InvalidRequestException, OverflowError):
        raise UsageError(
            f"--{option}: `{text[:_MAX_SHOWN]}` is not a time; give {likely_time(text) or _EXPECTED}"
        ) from None
    return text
