"""`klamm token`: a new token for a caller, told once; or its old one taken away."""

import argparse
from collections.abc import Callable

from app.formats.command_errors import UsageError
from app.rest.callers.token_file import add_token, retire_tokens
from app.settings.model import Settings


def run_token(arguments: argparse.Namespace, settings: Settings, say: Callable[[str], None]) -> None:
    """Runs it. Raises UsageError or UsageError; then nothing was changed."""
    name: str = arguments.caller
    if settings.tokens_file is None:
        raise UsageError('tokens.file: it is not set; name a file there, such as `tokens.file = "klamm.tokens"`')
    if name not in settings.callers:
        known = ", ".join(sorted(settings.callers)) or "none"
        raise UsageError(f"there is no table `callers.{name}` in klamm.toml; callers: {known}")
    if arguments.retire:
        say(f"{retire_tokens(settings.tokens_file, name, settings.callers)} retired")
        return
    say(add_token(settings.tokens_file, name, settings.callers))
