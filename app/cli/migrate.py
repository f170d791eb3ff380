"""`klamm migrate`: brings the schema of the service's database to this version."""

import argparse
from typing import TextIO

from app.cli.commands import SETTINGS_HELP, Run, add_data_dir

DESCRIPTION = (
    "Brings the schema of KLAMM_DATABASE_URL's database to this version, and grants the roles of docs/database.md what "
    "they lack. Without the variable, does so in the embedded PostgreSQL. It is safe to run again, or several at once."
)
_EPILOG = f"""{SETTINGS_HELP} What counts here, with defaults:

  KLAMM_DATABASE_URL       postgresql://user:password@host:port/database,
                           a role that may create tables (none: embedded)
  KLAMM_DATABASE_URL_FILE  file that holds the URL (none)
  KLAMM_CLUSTER_ID         the cluster's id, for a store that is made here;
                           one that has another is refused (made up)

Exit codes:

  0    the schema is at this version
  1    PostgreSQL refused, or can't be reached; the line says which one
  2    a flag or a setting can't be used
  130  interrupted; give the same command again"""


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
