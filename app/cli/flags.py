"""What the commands that run on settings take and say of themselves: serve, migrate, import, token, openapi."""

import argparse
from pathlib import Path
from typing import Final

SETTINGS_HELP: Final = (
    "Every property can be set as a variable (super.users: KLAMM_SUPER_USERS) or in klamm.toml in the working folder; "
    "a flag stands over a variable, a variable over the file."
)
SERVE_DESCRIPTION: Final = (
    "Serves the REST API until SIGTERM or Ctrl-C: on your own PostgreSQL, which klamm migrate has prepared, if there "
    "is a KLAMM_DATABASE_URL, else on an embedded one, which is prepared here."
)
SERVE_HELP: Final = f"""{SETTINGS_HELP} docs/operations.md lists them all. Often wanted, with their defaults:

  KLAMM_DATABASE_URL       postgresql://user:password@host:port/database (none)
  KLAMM_DATABASE_URL_FILE  file that holds the URL (none)
  KLAMM_SUPER_USERS        User:admin;User:ops, who may do anything (none)
  KLAMM_LOG_FORMAT         JSON or TEXT (TEXT if standard error is a
                           terminal, else JSON)
  KLAMM_LOG_LEVEL          DEBUG, INFO, WARN or ERROR (INFO)
  KLAMM_DRAIN_MS           served on after SIGTERM, in ms (5000)

Exit codes:

  0  ended by SIGTERM or Ctrl-C
  1  PostgreSQL refused, or workers keep failing
  2  a flag, a setting or a file can't be used, or the address is taken
  3  the service could not start; its log says why"""
MIGRATE_DESCRIPTION: Final = (
    "Brings the schema of KLAMM_DATABASE_URL's database to this version, and grants the roles of docs/database.md what "
    "they lack; without the variable that of the embedded PostgreSQL. To run it again, or several at once, is fine."
)
MIGRATE_HELP: Final = f"""{SETTINGS_HELP} What counts here, with defaults:

  KLAMM_DATABASE_URL       postgresql://user:password@host:port/database,
                           a role that may create tables (none: embedded)
  KLAMM_DATABASE_URL_FILE  file that holds the URL (none)
  KLAMM_CLUSTER_ID         the cluster's id, for a store that is born here;
                           one that has another is refused (made up)

Exit codes:

  0    the schema is at this version
  1    PostgreSQL refused, or can't be reached; the line says which one
  2    a flag or a setting can't be used
  130  interrupted; give the same command again"""
IMPORT_HELP: Final = f"""{SETTINGS_HELP} Without --klamm the ACLs go to
KLAMM_DATABASE_URL's database, else to the embedded one.

Exit codes:

  0    all ACLs of the file are in the store
  1    PostgreSQL or the service refused; the line says how far it came
  2    a flag, a setting or the file can't be used
  130  interrupted; the same command carries on from there"""
CREDENTIAL_DESCRIPTION: Final = (
    "Make a token for a caller of klamm.toml, print it, and note its hash in the file that `tokens.file` names. "
    "Services read the file again within a second. A caller may have two live tokens: give it the new one, then retire "
    "the old one."
)


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `klamm serve`; texts, as settings read them."""
    parser.add_argument("--host", metavar="ADDRESS", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", metavar="PORT", help="port to listen on; 0 takes a free one (8080)")
    parser.add_argument("--uds", metavar="PATH", help="Unix socket to listen on instead of address and port")
    parser.add_argument("--workers", metavar="N", help="processes that serve, each a whole replica, 1 to 64 (1)")
    add_data_dir(parser)
    parser.add_argument(
        "--example",
        metavar="FILE",
        type=Path,
        help="load these ACLs (a body of createAcls) if the store has none, and print the decisions of the file "
        "decisions.json beside it",
    )


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """--data-dir, for every command that may run the embedded PostgreSQL."""
    parser.add_argument(
        "--data-dir",
        metavar="FOLDER",
        help="folder of the embedded PostgreSQL, which runs unless KLAMM_DATABASE_URL is set (.klamm)",
    )


def add_token_arguments(parser: argparse.ArgumentParser) -> None:
    """What `klamm token` takes."""
    parser.add_argument("caller", metavar="NAME", help="the caller, as in `[callers.NAME]`")
    parser.add_argument("--retire", action="store_true", help="make none; take all but the newest token away")


def add_openapi_arguments(parser: argparse.ArgumentParser) -> None:
    """What `klamm openapi` takes."""
    parser.description = "Writes the OpenAPI description of the REST API."
    parser.add_argument("--output", metavar="FILE", type=Path, help="file to write (standard output)")


def greeting(address: str) -> str:
    """The line for whoever has started a service by hand: that it serves, where, what next, and how it ends."""
    return (
        f"Klamm serves at {address}; Ctrl-C ends it. What to ask: README.md, docs/, and openapi.json (klamm openapi)."
    )
