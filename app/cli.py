"""The command line's door: whatever a command needs is loaded behind it, so that Ctrl-C is an order from the start."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from app.client.names import COMMANDS

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    0: done, or ended by SIGTERM or Ctrl-C; 1: PostgreSQL refused, or workers can't run; 2: it was asked for wrongly;
    130: whatever else but `serve` ended by SIGTERM or Ctrl-C. Jobs have codes of their own besides
    (`app.pipeline.job`), and so have commands that speak to a service (`app.client_command`).
    """
    given = sys.argv[1:] if arguments is None else arguments
    _open_what_is_closed()
    try:
        # SIGTERM unwinds as Ctrl-C does, so that whatever has been started is stopped in order.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if given[:1] == ["pipeline"]:
            from app.pipeline_command import run_pipeline  # noqa: PLC0415 - as below

            return run_pipeline(given[1:])
        if given[:1] and given[0] in COMMANDS:
            from app.client_command import run_client  # noqa: PLC0415 - as below

            return run_client(given)
        from app.commands import run_command  # noqa: PLC0415 - takes half a second, which may be interrupted as well

        return run_command(given)
    except KeyboardInterrupt:
        return _INTERRUPTED if given[:1] and given[0] in ("import", "pipeline", *COMMANDS) else 0


def _open_what_is_closed() -> None:
    """Python has no object for a standard stream that was closed before it began, and much asks one for a terminal."""
    # They stay open for as long as the process lives.
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - as said above
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as said above
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as said above
