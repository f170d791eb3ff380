"""`klamm acls`, `why`, `export`, `plan`, `apply`: commands of operators, over HTTP to a service that runs.

Nothing of the service itself is loaded, and no setting is read: what a command is told stands in its flags.
"""

import argparse
import codecs
import io
import os
import sys
from collections.abc import Sequence
from typing import Protocol, TextIO

from app import __version__
from app.client.http.replies import ServiceError
from app.formats.arguments import USAGE_STATUS, CommandParser
from app.formats.command_errors import UsageError

_REFUSED = 1
_PIPE_BROKEN = 141
"""What shells say of a command whose reader has gone."""


class ClientCommand(Protocol):
    """What each module of `app.client` that is a command has."""

    DESCRIPTION: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare what the command takes."""

    def run(self, arguments: argparse.Namespace, out: TextIO) -> int:
        """Do it; the exit code. Raises UsageError and ServiceError."""


def run_client(arguments: Sequence[str]) -> int:
    """Runs one command: 0 done; 1 refused, or failed; 2 asked for wrongly; further codes are the command's own."""
    _write_utf_8()
    name = arguments[0]
    command = _command_named(name)
    parser = CommandParser(prog=f"klamm {name}", description=command.DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"klamm {__version__}")
    command.add_arguments(parser)
    try:
        status = command.run(parser.parse_args(arguments[1:]), sys.stdout)
        sys.stdout.flush()
    except UsageError as error:
        return _failed(name, str(error), USAGE_STATUS)
    except ServiceError as error:
        return _failed(name, str(error), _REFUSED)
    except BrokenPipeError:
        # What is still buffered has no reader; it must not be tried again at the interpreter's end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_BROKEN
    except OSError as error:
        return _failed(name, f"standard output can't be written ({error.strerror})", _REFUSED)
    return status


def _command_named(name: str) -> ClientCommand:
    """The module of this one; no other is loaded, for help must not wait for what it does not need."""
    match name:
        case "acls":
            from app.client.acls import command as acls  # noqa: PLC0415 - as said above

            return acls
        case "why":
            from app.client.why import command as why  # noqa: PLC0415 - as said above

            return why
        case "export":
            from app.client import export  # noqa: PLC0415 - as said above

            return export
        case "plan":
            from app.client.plan import command as plan  # noqa: PLC0415 - as said above

            return plan
        case _:
            from app.client.plan import apply  # noqa: PLC0415 - as said above

            return apply


def _write_utf_8() -> None:
    """Whatever the locale: files and pipes get UTF-8; a terminal gets escapes for what it can't show."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and codecs.lookup(out.encoding).name != "utf-8":
        if out.isatty():
            out.reconfigure(errors="backslashreplace")
        else:
            out.reconfigure(encoding="utf-8")


def _failed(name: str, text: str, status: int) -> int:
    sys.stderr.write(f"klamm {name}: {text}\n")
    return status
