"""The command line's door: whatever a command needs is loaded behind it, so that Ctrl-C is an order from the start."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.client.names import COMMANDS, MEANT, OTHERS
from app.core.spelling import nearest
from app.formats.arguments import one_line

_ASKED_WRONGLY = 2
_INTERRUPTED = 130
_SHOWN = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    0: done, or `serve` ended by SIGTERM or Ctrl-C; 1: PostgreSQL refused, or workers can't run; 2: it was asked for
    wrongly; 130: whatever else ended by SIGTERM or Ctrl-C. Jobs have codes of their own besides (`app.pipeline.job`),
    and so have commands that speak to a service (`app.cli.client`).
    """
    given = sys.argv[1:] if arguments is None else arguments
    # Only `serve` is over when it is told to end; of all else it must not be taken for done (a Job that migrates).
    interrupted = 0 if given[:1] == ["serve"] else _INTERRUPTED
    _open_what_is_closed()
    try:
        if given[:1] == ["help"]:
            given = [*(word for word in given[1:2] if word != "help"), "--help"]
        if given[:1] and not given[0].startswith("-") and given[0] not in (*COMMANDS, *OTHERS):
            return _unknown(given[0])
        if given[:1] == ["pipeline"]:
            with _nothing_begun(interrupted):
                from app.cli.pipeline import run_pipeline  # noqa: PLC0415 - as below

            return run_pipeline(given[1:])
        if given[:1] and given[0] in COMMANDS:
            with _nothing_begun(interrupted):
                from app.cli.client import run_client  # noqa: PLC0415 - as below

            return run_client(given)
        with _nothing_begun(interrupted):
            from app.cli.command_line import answer_for_none, parse_command  # noqa: PLC0415 - as below

            if not given[:1] or given[0] not in OTHERS:
                answer_for_none(given)
            parsed = parse_command(given)
            from app.cli.commands import run_command  # noqa: PLC0415 - takes a second, which may be interrupted as well

        return run_command(parsed)
    except KeyboardInterrupt:
        return interrupted


@contextmanager
def _nothing_begun(code: int) -> Iterator[None]:
    """Ends the process with this code at once on SIGTERM or Ctrl-C. Afterwards both unwind, as Ctrl-C does.

    An exception could come out of whatever is being loaded as another one, with a stack.
    """
    ends = (signal.SIGTERM, signal.SIGINT)
    # Who started it with Ctrl-C ignored meant it so.
    heard = [each for each in ends if each is signal.SIGTERM or signal.getsignal(each) is not signal.SIG_IGN]
    for each in heard:
        signal.signal(each, lambda *_: os._exit(code))
    yield
    for each in heard:
        # So that whatever has been started is stopped in order.
        signal.signal(each, signal.default_int_handler)


def _unknown(word: str) -> int:
    """Says so in one line, with the command that was probably meant."""
    meant = nearest(word, MEANT)
    question = "" if meant is None else f"did you mean `klamm {MEANT[meant]}`? "
    sys.stderr.write(f"klamm: there is no command `{one_line(word)[:_SHOWN]}`; {question}see klamm --help\n")
    return _ASKED_WRONGLY


def _open_what_is_closed() -> None:
    """Python has no object for a standard stream that was closed before it began, and much asks one for a terminal."""
    # They stay open for as long as the process lives.
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - as said above
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as said above
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as said above
