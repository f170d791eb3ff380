"""`klamm import`: adds the ACLs of a file to the store, or to a running service."""

import argparse
import asyncio
import getpass
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from app.cli.commands import SETTINGS_HELP, add_data_dir
from app.cli.database import EachSecond, database, named_database, settings_of
from app.cli.progress import ProgressDisplay
from app.client.acl_files import AclFile, AclFiles
from app.client.console import Warnings, write_json
from app.client.file_problems import problems_in
from app.client.http.access import AccessFlags, access_flags, access_of, add_access_arguments
from app.client.http.replies import ServiceError
from app.client.http.service import Service
from app.client.import_over_http import HttpImportCounts, HttpImporter
from app.client.words import add_comment_argument
from app.core.kafka.bindings import NewAcl
from app.core.kafka.errors import ApiException, StoreUnavailableException
from app.core.mutations import MAX_RECORDS_PER_USER_OP
from app.formats.arguments import whole_number
from app.formats.command_errors import CommandError, UsageError
from app.formats.file_flags import add_file_flags, file_flags
from app.formats.reading import FileSet
from app.formats.registry import FORMAT_NAMES
from app.runtime.importing import Importer, ImportOptions
from app.settings.model import Settings
from app.store.writing.bulk_store import PostgresBulkStore

DESCRIPTION = (
    "Adds a file's ACLs to the store or, with --klamm, to a running service. The file is in one of these formats, "
    f"plain or gzip: {', '.join(FORMAT_NAMES)} (docs/formats.md).\nNothing is deleted (klamm apply --prune deletes): "
    "ACLs that exist already are counted, and get the ends and owners that the file gives. ACLs whose end has passed "
    "are left out. The whole file is checked before anything is written, and its DENYs go first. To resume an "
    "interrupted import, run the same command again."
)


_EPILOG = f"""{SETTINGS_HELP} Without --klamm the ACLs go to
KLAMM_DATABASE_URL's database, else to the embedded one.

Exit codes:

  0    all ACLs of the file are in the store
  1    PostgreSQL or the service refused; the error says how far it got
  2    a flag, a setting or the file can't be used
  130  interrupted; run the same command again to resume"""

_HELD = "; or add --klamm URL to import into the service that runs there"
_AGAIN = "run the same command again to resume"
_MENDED = "once that is fixed, run the same command again to resume"
_MAX_RATE = 1_000_000
_STEP_BACK = 10
"""What is added to the process's niceness."""


class ImportInterruptedError(CommandError):
    exit_code = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE [OPTIONS]"
    parser.epilog = _EPILOG
    add_data_dir(parser)
    defaults = ImportOptions()
    parser.add_argument("file", metavar="FILE", help="the file; - for standard input")
    parser.add_argument(
        "--actor",
        metavar="PRINCIPAL",
        type=_principal,
        help="actor recorded for the ACLs in the feed (Import: and the login name)",
    )
    parser.add_argument(
        "--batch",
        metavar="N",
        type=whole_number(1, MAX_RECORDS_PER_USER_OP),
        default=defaults.batch_acls,
        help=f"ACLs per transaction, or with --klamm per call, 1 to {MAX_RECORDS_PER_USER_OP} (%(default)s)",
    )
    parser.add_argument(
        "--rate",
        metavar="N",
        type=whole_number(0, _MAX_RATE),
        default=defaults.acls_per_s,
        help="at most this many new ACLs per second, so that replicas can keep up; 0 for no limit, and without "
        "yielding to other processes (%(default)s)",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="how to print (%(default)s)")
    add_file_flags(parser, "the file's")
    add_comment_argument(parser)
    add_access_arguments(parser, without="the ACLs go to the store itself")


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    if _is_over_http(arguments):
        with problems_in(arguments.output, out):
            result = run_import_over_http(arguments)
    else:
        with settings_of(arguments) as settings, named_database(settings), problems_in(arguments.output, out):
            result = run_import(arguments, settings)
    if arguments.output == "json":
        sys.stderr.writelines(f"klamm import: {note}\n" for note in result.file_set.notes())
        write_json(result.body(), out)
    else:
        out.writelines(f"{line}\n" for line in result.lines())
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    file_set: FileSet
    created: int
    there: int
    changed: int | None = None
    """How many of those that were there have got another end or owner; None if that is not known."""
    repeated: int | None = None
    """How many came more than once in the file; None if that is not known."""
    ended: int
    seconds: float
    token: str | None

    def lines(self) -> list[str]:
        counts = [
            f"created: {self.created}",
            f"already there: {self.there}",
            f"of these with another end or owner: {self.changed}" if self.changed else "",
            "" if self.repeated is None else f"repeated in the file: {self.repeated}",
            f"left out as their end has passed: {self.ended}" if self.ended else "",
            f"seconds: {self.seconds:.1f}",
            "" if self.token is None else f"token: {self.token}",
        ]
        return [*self.file_set.notes(), *filter(None, counts)]

    def body(self) -> dict[str, object]:
        return {
            "created": self.created,
            "already_there": self.there,
            "changed": self.changed,
            "repeated": self.repeated,
            "ended": self.ended,
            "seconds": round(self.seconds, 1),
            "token": self.token,
            **self.file_set.body(),
        }


def _is_over_http(arguments: argparse.Namespace) -> bool:
    if arguments.access_url is None:
        if access_flags(arguments) != AccessFlags():
            raise UsageError(
                "--as, --command-config, --token-file, --ca, --timeout: these need --klamm; name the service"
            )
        return False
    if arguments.actor is not None:
        raise UsageError("--actor: a service records the caller itself; leave out --actor, or --klamm")
    if arguments.data_dir is not None:
        raise UsageError("--data-dir: a service has its own; leave out --data-dir, or --klamm")
    return True


@contextmanager
def _checked(arguments: argparse.Namespace) -> Iterator[tuple[AclFile, int, ProgressDisplay]]:
    """The file, and how many ACLs it has. Raises UsageError if any of them is wrong."""
    with (
        ProgressDisplay(sys.stderr, quiet=arguments.quiet) as progress,
        AclFiles(file_flags(arguments)).open(arguments.file) as file,
    ):
        progress.stage("checking", file.size)
        yield file, file.check(progress.done), progress


def run_import_over_http(arguments: argparse.Namespace) -> ImportResult:
    began_at = time.monotonic()
    counts = HttpImportCounts()
    how_far = "nothing was written"
    warnings = Warnings()
    try:
        with Service(access_of(arguments)) as service, _checked(arguments) as (file, total, progress):
            progress.stage("importing", total)
            importer = HttpImporter(
                service,
                lambda now: progress.done(now.read, now.read),
                batch_acls=arguments.batch,
                acls_per_s=arguments.rate,
                comment=arguments.comment,
            )
            counts = importer.counts
            try:
                importer.run(warnings.watch(file.additions()))
            finally:
                how_far = _how_far(counts.read, file.name, total)
    except KeyboardInterrupt:
        # The current batch may be in the store as well.
        least = "at least " if counts.read else ""
        raise ImportInterruptedError(f"interrupted; {least}{how_far}; {_AGAIN}") from None
    except ServiceError as error:
        if error.outcome_unknown:
            # Creating an ACL twice does no harm, so nothing needs to be checked first.
            why = f"`{arguments.access_url}` did not answer in time (--timeout); at least {how_far}; {_AGAIN}"
            raise ServiceError(why, status=error.status) from None
        raise ServiceError(f"{error}; {how_far}; {_MENDED}", code=error.code, status=error.status) from None
    except UsageError as error:
        if not counts.read:
            raise
        raise UsageError(f"{error}; {how_far}; {_MENDED}") from None
    warnings.print("klamm import", sys.stderr)
    return ImportResult(
        file_set=file.file_set,
        created=counts.created,
        there=counts.there,
        ended=file.ended,
        seconds=time.monotonic() - began_at,
        token=counts.token,
    )


def run_import(arguments: argparse.Namespace, settings: Settings) -> ImportResult:
    began_at = time.monotonic()
    if arguments.rate:
        # Replicas on the same machine must go on deciding, and apply each record.
        os.nice(_STEP_BACK)
    try:
        with (
            _checked(arguments) as (file, total, progress),
            database(settings, held=_HELD) as (database_url, each_second),
        ):
            progress.stage("importing", total)
            importer = Importer(
                PostgresBulkStore(database_url),
                arguments.actor or f"Import:{_login()}",
                lambda counts: progress.done(counts.read, counts.read, counts.trouble),
                ImportOptions(batch_acls=arguments.batch, acls_per_s=arguments.rate),
                arguments.comment,
            )
            _run(importer, file, total, each_second)
    except KeyboardInterrupt:
        raise ImportInterruptedError("interrupted; nothing was written") from None
    counts = importer.counts
    return ImportResult(
        file_set=file.file_set,
        created=counts.created,
        there=counts.there,
        changed=counts.changed,
        repeated=counts.repeated,
        ended=file.ended,
        seconds=time.monotonic() - began_at,
        token=str(counts.token),
    )


def _principal(text: str) -> str:
    if ":" not in text or not text.isprintable():
        raise argparse.ArgumentTypeError(f"`{ascii(text)[1:-1]}` is not a principal such as User:admin")
    return text


def _run(importer: Importer, file: AclFile, total: int, each_second: EachSecond) -> None:
    def how_far() -> str:
        return _how_far(importer.counts.read, file.name, total)

    try:
        asyncio.run(_until_stopped(importer, file.additions(), each_second))
    except asyncio.CancelledError:
        importer.counts.interrupted = True
    except (ApiException, TimeoutError) as error:
        why = error.message if isinstance(error, ApiException) else "PostgreSQL does not answer in time"
        raise StoreUnavailableException(f"{why}; {how_far()}; {_MENDED}") from None
    except UsageError as error:
        raise UsageError(f"{error}; {how_far()}; {_MENDED}") from None
    if importer.counts.interrupted:
        raise ImportInterruptedError(f"interrupted; {how_far()}; {_AGAIN}")


async def _until_stopped(importer: Importer, bindings: Iterator[NewAcl], each_second: EachSecond) -> None:
    """The first signal ends it after the current batch, a second one cancels that batch."""
    work = asyncio.ensure_future(importer.run(bindings))

    def end() -> None:
        if importer.stopping:
            work.cancel()
        importer.stop()

    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, end)
    while not work.done():
        await asyncio.wait({work}, timeout=1)
        if each_second is not None:
            each_second()
    await work


def _how_far(read: int, name: str, total: int) -> str:
    return f"{read:,} of the {total:,} ACLs in `{name}` are in the store"


def _login() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        name = ""
    return name if name and name.isprintable() else str(os.getuid())
