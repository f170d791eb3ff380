"""`klamm restore`: begins a new epoch of a store that was put back, and makes a copy a store of its own."""

import argparse
from typing import TYPE_CHECKING, TextIO

from app.cli.commands import SETTINGS_HELP, Run, add_data_dir
from app.formats.command_errors import UsageError

if TYPE_CHECKING:
    from app.store.writing.restored import RestoredStore

DESCRIPTION = (
    "Begins a new epoch of the store, after its database was put back (a backup, a snapshot of its disk, a copy): "
    "tokens of changes that are gone are refused from then on, and followers that hold such changes load the store "
    "again. Services of this version do that by themselves, at the latest with their first update. Use it where none "
    "of them will write soon, or before services of an older version start on the store. With --cluster-id, the store "
    "also gets a cluster id of its own, so that no follower takes a copy for the original."
)
_EPILOG = f"""{SETTINGS_HELP} Settings used here, with defaults:

  KLAMM_DATABASE_URL       postgresql://user:password@host:port/database,
                           for --cluster-id of a role that may create
                           tables (none: embedded)
  KLAMM_DATABASE_URL_FILE  file that holds the URL (none)
  KLAMM_CLUSTER_ID         the store's cluster id; a store with another
                           id is refused, unless --cluster-id is given

Exit codes:

  0    the epoch has begun
  1    PostgreSQL refused, or can't be reached; the error says which
  2    a flag or a setting can't be used
  130  interrupted; run the same command again"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "--cluster-id", metavar="NEW", dest="new_cluster_id", help="also give the store this cluster id"
    )
    add_data_dir(parser)


def load() -> Run:
    import asyncio  # noqa: PLC0415 - slow to load, as is all below

    from app.cli.database import database, named_database, settings_of  # noqa: PLC0415 - as above
    from app.store.writing.restored import begin_epoch  # noqa: PLC0415 - as above

    def run(arguments: argparse.Namespace, out: TextIO) -> int:
        new = arguments.new_cluster_id
        if new is not None and not new.strip():
            raise UsageError("--cluster-id: the cluster id is empty; name one, or leave it out")
        with settings_of(arguments) as given:
            settings = given if new is None else given.model_copy(update={"cluster_id": None})
            with database(settings) as (url, _), named_database(settings):
                store = asyncio.run(begin_epoch(url, cluster_id=settings.cluster_id, new_cluster_id=new))
        out.write(_text(store))
        return 0

    return run


def _text(store: "RestoredStore") -> str:
    begun = store.epochs.rows[-1]
    return (
        f"cluster {store.cluster_id}: epoch {begun.id} has begun after offset {begun.first_offset}; tokens of older "
        "epochs are good up to there, and those beyond are refused\n"
    )
