"""`klamm serve`: what it takes. What it does is in `serving`, which takes a second to load."""

import argparse
from pathlib import Path

from app.cli.commands import SETTINGS_HELP, Run, add_data_dir

DESCRIPTION = (
    "Serves the REST API until SIGTERM or Ctrl-C. With KLAMM_DATABASE_URL it uses your own PostgreSQL, which klamm "
    "migrate has prepared; without, it runs and prepares an embedded one."
)
_EPILOG = f"""{SETTINGS_HELP} docs/operations.md lists them all. Common settings, with defaults:

  KLAMM_DATABASE_URL       postgresql://user:password@host:port/database (none)
  KLAMM_DATABASE_URL_FILE  file that holds the URL (none)
  KLAMM_SUPER_USERS        User:admin;User:ops, who may do anything (none)
  KLAMM_LOG_FORMAT         JSON or TEXT (TEXT if standard error is a
                           terminal, else JSON)
  KLAMM_LOG_LEVEL          DEBUG, INFO, WARN or ERROR (INFO)
  KLAMM_DRAIN_MS           how long to serve on after SIGTERM, in ms (5000)

Exit codes:

  0  ended by SIGTERM or Ctrl-C
  1  PostgreSQL refused, or workers keep failing
  2  a flag, a setting or a file can't be used, or the address is taken
  3  the service could not start; its log says why"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--host", metavar="ADDRESS", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", metavar="PORT", help="port to listen on; 0 takes a free one (8080)")
    parser.add_argument("--uds", metavar="PATH", help="Unix socket to listen on instead of address and port")
    parser.add_argument("--workers", metavar="N", help="processes that serve, each a whole replica, 1 to 64 (1)")
    add_data_dir(parser)
    parser.add_argument(
        "--upstream",
        dest="upstream_urls",
        action="append",
        metavar="URL",
        help="follow this service instead of a database; if repeated, the first that can be reached",
    )
    parser.add_argument(
        "--example",
        metavar="FILE",
        type=Path,
        help="load these ACLs (a body of createAcls) if the store has none, and print the decisions of the file "
        "decisions.json beside it",
    )


def load() -> Run:
    from app.cli.serving import run  # noqa: PLC0415 - slow to load

    return run
