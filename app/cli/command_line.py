"""What the command line takes: `klamm --help`, and the flags of the commands that run on settings.

INVARIANT: to read it, or to show help, loads nothing that serves; only `import` brings its own flags along.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from app import __version__
from app.cli import flags as command_flags
from app.client.names import COMMANDS, OTHERS
from app.formats.arguments import CommandParser


def answer_for_none(arguments: Sequence[str]) -> NoReturn:
    """`klamm --help`, `--version`, and the refusal of what names no command. Ends the process."""
    parser = CommandParser(
        prog="klamm",
        description="Apache Kafka's Authorizer as a REST/JSON service. klamm help COMMAND shows what a command takes.",
        epilog=command_flags.SETTINGS_HELP,
    )
    parser.add_argument("--version", action="version", version=f"klamm {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    # Only for the list: each has a parser of its own.
    for name, text in (*OTHERS.items(), *COMMANDS.items()):
        commands.add_parser(name, help=text)
    parser.parse_args(arguments)
    parser.error("the command comes first")


def parse_command(arguments: Sequence[str]) -> argparse.Namespace:
    """What these words ask of one of the commands below; `command` is its name. Ends the process for --help."""
    name = arguments[0]
    parser = CommandParser(prog=f"klamm {name}")
    _DECLARE[name](parser)
    return parser.parse_args(arguments[1:], argparse.Namespace(command=name))


def _serve(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = command_flags.SERVE_DESCRIPTION, command_flags.SERVE_HELP
    command_flags.add_serve_arguments(parser)


def _migrate(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = command_flags.MIGRATE_DESCRIPTION, command_flags.MIGRATE_HELP
    command_flags.add_data_dir(parser)


def _import(parser: argparse.ArgumentParser) -> None:
    from app.cli.import_acls import DESCRIPTION, add_arguments  # noqa: PLC0415 - loads the database's driver and more

    parser.description, parser.epilog = DESCRIPTION, command_flags.IMPORT_HELP
    add_arguments(parser)
    command_flags.add_data_dir(parser)


def _token(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = command_flags.CREDENTIAL_DESCRIPTION, command_flags.SETTINGS_HELP
    command_flags.add_token_arguments(parser)


_DECLARE: Mapping[str, Callable[[argparse.ArgumentParser], None]] = MappingProxyType(
    {
        "serve": _serve,
        "migrate": _migrate,
        "import": _import,
        "token": _token,
        "openapi": command_flags.add_openapi_arguments,
    }
)
