"""How the logs of a process are written."""

import sys
from typing import Literal

LogFormat = Literal["JSON", "TEXT"]
"""The values of `log.format`."""


def usual_format() -> LogFormat:
    """The default of `log.format`: TEXT where standard error is a terminal, for somebody reads it there."""
    return "TEXT" if sys.stderr is not None and sys.stderr.isatty() else "JSON"
