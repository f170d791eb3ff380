"""`klamm token`: makes a token for a caller and prints it once, or retires the caller's old one."""

import argparse
from typing import TextIO

from app.cli.commands import SETTINGS_HELP, Run
from app.formats.command_errors import UsageError

DESCRIPTION = (
    "Makes a token for a caller of klamm.toml, prints it, and adds its hash to the file that `tokens.file` names. "
    "Services read the file again within a second. A caller may have two live tokens: give it the new one, then retire "
    "the old one."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = SETTINGS_HELP
    parser.add_argument("caller", metavar="NAME", help="the caller, as in `[callers.NAME]`")
    parser.add_argument("--retire", action="store_true", help="make none; retire all but the newest token")


def load() -> Run:
    from app.cli.database import settings_of  # noqa: PLC0415 - slow to load, as is the next
    from app.rest.callers.token_file import add_token, retire_tokens  # noqa: PLC0415 - as above

    def run(arguments: argparse.Namespace, out: TextIO) -> int:
        name: str = arguments.caller
        with settings_of(arguments) as settings:
            if settings.tokens_file is None:
                raise UsageError(
                    'tokens.file: it is not set; name a file there, such as `tokens.file = "klamm.tokens"`'
                )
            if name not in settings.callers:
                known = ", ".join(sorted(settings.callers)) or "none"
                raise UsageError(f"there is no table `callers.{name}` in klamm.toml; callers: {known}")
            if arguments.retire:
                out.write(f"{retire_tokens(settings.tokens_file, name, settings.callers)} retired\n")
            else:
                out.write(f"{add_token(settings.tokens_file, name, settings.callers)}\n")
        return 0

    return run
