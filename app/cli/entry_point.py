"""The script `klamm`. It loads nothing but the command that was asked for, and obeys Ctrl-C from the start."""

import argparse
import codecs
import errno
import io
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module  # noqa: TID251 - each command is loaded alone, by its name in the table
from pathlib import Path
from typing import NoReturn

from app import __version__
from app.cli.commands import COMMANDS, MEANT, SETTINGS_HELP, Command, Run
from app.core.kafka.errors import ApiException
from app.core.spelling import nearest
from app.formats.arguments import USAGE_STATUS, CommandParser, one_line
from app.formats.command_errors import CommandError

_INTERRUPTED = 130
_PIPE_BROKEN = 141
"""The exit code that shells report for a command whose reader has gone."""

_SHOWN = 100
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code.

    0: done, or `serve` was ended by SIGTERM or Ctrl-C; 1: refused or failed; 2: asked for wrongly; 130: another command
    was ended by SIGTERM or Ctrl-C; 141: the reader of its output has gone. Further codes are the command's own.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Only `serve` is done when a signal ends it. A Job that migrates must not be taken to be done.
    interrupted = 0 if words[:1] == ["serve"] else _INTERRUPTED
    _prepare_streams()
    if words[:1] == ["help"]:
        words = [*(word for word in words[1:2] if word != "help"), "--help"]
    try:
        if not words or words[0].startswith("-"):
            _answer_without_command(words)
        command = COMMANDS.get(words[0])
        if command is None:
            return _refuse_unknown(words[0])
        return _run(command, words[1:], interrupted)
    except KeyboardInterrupt:
        return interrupted


def load(command: Command, words: list[str]) -> Callable[[], int]:
    """Slow imports come last, as help and refusals need none of them."""
    module = import_module(command.module)
    if command.own_parser:
        return lambda: module.main(words, sys.stdout)
    parser = CommandParser(prog=f"klamm {command.name}", description=module.DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"klamm {__version__}")
    module.add_arguments(parser)
    parsed: argparse.Namespace = parser.parse_args(words)
    run: Run = module.load() if hasattr(module, "load") else module.run
    return lambda: run(parsed, sys.stdout)


def _run(command: Command, words: list[str], interrupted: int) -> int:
    try:
        # An argument's `type` may refuse with a UsageError, too.
        with _exit_at_once(interrupted):
            run = load(command, words)
        status = run()
        sys.stdout.flush()
    except CommandError as error:
        failed = error.exit_code == CommandError.exit_code
        return _failed(command, str(error), command.failed if failed else error.exit_code)
    except ApiException as error:
        return _failed(command, error.message, command.failed)
    except BrokenPipeError:
        # Nobody reads what is still buffered; the interpreter must not try to write it again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_BROKEN
    except OSError as error:
        if error.filename is not None or error.errno not in _CANNOT_WRITE:
            raise
        return _failed(command, f"standard output can't be written ({error.strerror})", command.failed)
    except Exception:
        if command.failed == CommandError.exit_code:
            raise
        # INVARIANT: a fault never exits with the code of a finding, as it would if left to Python.
        traceback.print_exc()
        return command.failed
    return status


def _failed(command: Command, text: str, status: int) -> int:
    # The reason is the last line, after all that was logged.
    for handler in logging.root.handlers:
        handler.flush()
    sys.stderr.write(f"klamm {command.name}: {text}\n")
    return status


def _answer_without_command(words: Sequence[str]) -> NoReturn:
    """For `klamm --help` and `klamm --version`; anything else is refused."""
    parser = CommandParser(
        prog="klamm",
        description="Apache Kafka's Authorizer as a REST/JSON service. klamm help COMMAND shows a command's options.",
        epilog=SETTINGS_HELP,
    )
    parser.add_argument("--version", action="version", version=f"klamm {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for each in COMMANDS.values():
        commands.add_parser(each.name, help=each.help)
    parser.parse_args(words)
    parser.error("the command comes first")


def _refuse_unknown(word: str) -> int:
    meant = nearest(word, MEANT)
    question = "" if meant is None else f"did you mean `klamm {MEANT[meant]}`? "
    sys.stderr.write(f"klamm: there is no command `{one_line(word)[:_SHOWN]}`; {question}see klamm --help\n")
    return USAGE_STATUS


@contextmanager
def _exit_at_once(code: int) -> Iterator[None]:
    """Inside, SIGTERM and Ctrl-C end the process with this code at once. Afterwards they raise KeyboardInterrupt.

    While a module is being imported, an exception could come out of it as another one, with a traceback.
    """
    # A process started with Ctrl-C ignored keeps ignoring it.
    caught = [
        each
        for each in (signal.SIGTERM, signal.SIGINT)
        if each is signal.SIGTERM or signal.getsignal(each) is not signal.SIG_IGN
    ]
    for each in caught:
        signal.signal(each, lambda *_: os._exit(code))
    yield
    for each in caught:
        signal.signal(each, signal.default_int_handler)


def _prepare_streams() -> None:
    """Opens standard streams that were closed before Python began, and writes UTF-8 whatever the locale.

    A terminal that can't show UTF-8 gets escapes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open for the process's life
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and codecs.lookup(out.encoding).name != "utf-8":
        if out.isatty():
            out.reconfigure(errors="backslashreplace")
        else:
            out.reconfigure(encoding="utf-8")
