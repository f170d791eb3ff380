"""The commands of `klamm`: name, help and module of each. A new one is a line in this table and a module."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TextIO

Run = Callable[[argparse.Namespace, TextIO], int]
"""Runs a command, which prints to the stream. Returns the exit code; raises CommandError or ApiException."""


@dataclass(frozen=True, slots=True)
class Command:
    """`module` has DESCRIPTION, add_arguments(parser) and `run`, a Run; or load() -> Run, which does slow imports.

    With `own_parser` it has only main(words, out), which returns the exit code.
    """

    name: str
    help: str
    module: str
    own_parser: bool = False
    failed: int = 1
    """The exit code if it fails without giving another."""


COMMANDS: Final[Mapping[str, Command]] = {
    each.name: each
    for each in (
        Command("serve", "serve the REST API until SIGTERM or Ctrl-C", "app.cli.serve"),
        Command("migrate", "migrate the database's schema to this version", "app.cli.migrate"),
        Command("restore", "begin a new epoch of a store whose database was put back", "app.cli.restore"),
        Command(
            "verify", "recompute the hash chain and the digest of a store, or of the feed's events", "app.cli.verify"
        ),
        Command("import", "add a file's ACLs to the store, or to a running service", "app.cli.import_acls"),
        Command("token", "make a token for a caller", "app.cli.token"),
        Command(
            "pipeline",
            "run a job of the Spark pipeline (extra `spark`): export, hygiene, what-if, ...",
            "app.cli.pipeline",
            own_parser=True,
            # 1 means that a job has found something.
            failed=3,
        ),
        Command("openapi", "write the OpenAPI description of the REST API", "app.cli.openapi"),
        Command(
            "acls",
            "list, add and remove ACLs with the options of kafka-acls",
            "app.client.acls.command",
            own_parser=True,
        ),
        Command(
            "why",
            "explain why somebody is allowed or denied something, and what would change it",
            "app.client.why",
        ),
        Command("who", "show who has access to a resource, from where and by which ACLs", "app.client.reach.who"),
        Command("what", "show what a principal has access to, and what DENYs take away", "app.client.reach.what"),
        Command("log", "show who changed which ACLs and properties, and when", "app.client.log"),
        Command("export", "write the ACLs of a running service in another tool's format", "app.client.export"),
        Command(
            "plan",
            "show what `apply` would do with files of ACLs, and who would gain and lose access",
            "app.client.plan.command",
        ),
        Command(
            "test",
            "check assertions about access against ACLs in files or a service",
            "app.client.assertions.command",
            # 1 means that an assertion does not hold.
            failed=3,
        ),
        Command("watch", "show every change of ACLs and properties as it is made", "app.client.watch.command"),
        Command(
            "offboard",
            "show all ACLs of a principal, as a plan that removes them",
            "app.client.plan.offboard",
        ),
        Command("undo", "undo the changes of a transaction, after showing the effect", "app.client.undo.command"),
        Command("apply", "make the ACLs match files, after showing the effect", "app.client.plan.apply"),
    )
}

MEANT: Final[Mapping[str, str]] = {
    **{name: name for name in COMMANDS},
    "list": "acls --list",
    "add": "acls --add",
    "remove": "acls --remove",
    "delete": "acls --remove",
    "explain": "why",
    "start": "serve",
    "authorize": "why",
    "history": "log",
    "revert": "undo",
    "rollback": "undo",
}
"""The command that a word means: its own name, or the name that other tools have for it."""

SETTINGS_HELP: Final = (
    "Every property can be set as a variable (super.users: KLAMM_SUPER_USERS) or in klamm.toml in the working folder. "
    "A flag overrides a variable, a variable overrides the file."
)


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir",
        metavar="FOLDER",
        help="folder of the embedded PostgreSQL, which runs unless KLAMM_DATABASE_URL is set (.klamm)",
    )
