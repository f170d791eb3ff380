"""`klamm migrate`: brings the schema of the service's database to this version."""

import argparse
from typing import TextIO

from app.cli.commands import SETTINGS_HELP, Run, add_data_dir

DESCRIPTION = (
    "Migrates the schema of KLAMM_DATABASE_URL's database to this version, and grants the roles of docs/database.md "
    "the rights that they lack. Without the variable, migrates the embedded PostgreSQL. It is safe to run again, "
    "and to run several at once."
)
_EPILOG = f"""{SETTINGS_HELP} Settings used here, with defaults:

  KLAMM_DATABASE_URL       postgresql://user:password@host:port/database,
                           a role that may create tables (none: embedded)
  KLAMM_DATABASE_URL_FILE  file that holds the URL (none)
  KLAMM_CLUSTER_ID         the cluster's id for a new store; an existing
                           store with another id is refused (random)

Exit codes:

  0    the schema is at this version
  1    PostgreSQL refused, or can't be reached; the error says which
  2    a flag or a setting can't be used
  130  interrupted; run the same command again"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    add_data_dir(parser)


def load() -> Run:
    import asyncio  # noqa: PLC0415 - slow to load, as is all below

    from app.cli.database import database, named_database, settings_of  # noqa: PLC0415 - as above
    from app.store.migrate import migrate  # noqa: PLC0415 - as above

    def run(arguments: argparse.Namespace, _out: TextIO) -> int:
        with settings_of(arguments) as settings:
            if settings.database_url is None:
                with database(settings):  # which migrates it
                    return 0
            with named_database(settings):
                asyncio.run(migrate(settings.database_url, cluster_id=settings.cluster_id))
        return 0

    return run
