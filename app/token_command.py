"""`klamm token`: a new token for a caller, told once; or its old one taken away."""

import argparse
from collections.abc import Callable

from app.ops.settings import Settings
from app.ops.settings_sources import SettingsError
from app.ops.token_file import add_token, retire_tokens

DESCRIPTION = (
    "Make a token for a caller of klamm.toml, print it, and note its hash in the file that `tokens.file` names. "
    "Services read the file again within a second. A caller may have two live tokens: give it the new one, then retire "
    "the old one."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("caller", metavar="NAME", help="the caller, as in `[callers.NAME]`")
    parser.add_argument("--retire", action="store_true", help="make none; take all but the newest token away")


def run_token(arguments: argparse.Namespace, settings: Settings, say: Callable[[str], None]) -> None:
    """Runs it. Raises SettingsError or TokenFileError; then nothing was changed."""
    name: str = arguments.caller
    if settings.tokens_file is None:
        raise SettingsError('tokens.file: it is not set; name a file there, such as `tokens.file = "klamm.tokens"`')
    if name not in settings.callers:
        known = ", ".join(sorted(settings.callers)) or "none"
        raise SettingsError(f"there is no table `callers.{name}` in klamm.toml; callers: {known}")
    if arguments.retire:
        say(f"{retire_tokens(settings.tokens_file, name, settings.callers)} retired")
        return
    say(add_token(settings.tokens_file, name, settings.callers))
