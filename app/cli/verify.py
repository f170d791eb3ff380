"""`klamm verify`: recomputes the hash chain and the digest of a store, or of a file of the feed's events."""

import argparse
import zlib
from typing import TYPE_CHECKING, TextIO

from app.cli.commands import SETTINGS_HELP, Run
from app.core.kafka.errors import PoisonedRecordException
from app.formats.command_errors import CommandError, UsageError

if TYPE_CHECKING:
    from app.core.proof import FeedProof
    from app.formats.database_url import DatabaseUrl

DESCRIPTION = (
    "Recomputes the hash of every record and the digest of all ACLs and properties, and compares them with the "
    "recorded ones: in the database of KLAMM_DATABASE_URL, or in a file of events, one per line (docs/feed.md). It "
    "reads the whole store and locks nothing."
)
_EPILOG = f"""{SETTINGS_HELP} Settings used here, with defaults:

  KLAMM_DATABASE_URL       postgresql://user:password@host:port/database;
                           not needed with a file
  KLAMM_DATABASE_URL_FILE  file that holds the URL (none)

Exit codes:

  0    everything matches
  1    it is damaged, and the error says where; or it can't be read
  2    a flag or a setting can't be used, or the file holds no events
  130  interrupted"""

_AT_ONCE = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", nargs="?", metavar="FILE", help="events of a stream or an export (none: the database)")


def load() -> Run:
    import asyncio  # noqa: PLC0415 - slow to load, as is all below

    from app.cli.database import named_database, settings_of  # noqa: PLC0415 - as above
    from app.core.proof import FeedDamagedError  # noqa: PLC0415 - as above
    from app.formats.feed_events import NoEventError  # noqa: PLC0415 - as above

    def proved(arguments: argparse.Namespace) -> "FeedProof":
        if arguments.file is not None:
            return _proved_file(arguments.file)
        with settings_of(arguments) as settings:
            if settings.database_url is None:
                raise UsageError("there is nothing to verify; name a file of events, or set KLAMM_DATABASE_URL")
            with named_database(settings):
                return asyncio.run(_proved_store(settings.database_url))

    def run(arguments: argparse.Namespace, out: TextIO) -> int:
        try:
            proof = proved(arguments)
        except (OSError, EOFError, zlib.error) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else "it is damaged"
            raise UsageError(f"`{arguments.file}`: can't read it ({why})") from None
        except NoEventError as fault:
            raise UsageError(f"`{arguments.file}`: {fault}") from None
        except (FeedDamagedError, PoisonedRecordException) as fault:
            raise CommandError(f"damaged: {fault}") from None
        image = "the image is unknown"
        if proof.digest is not None:
            image = f"{proof.acl_count:,} ACLs, {proof.config_count:,} properties, digest {proof.digest:064x}"
        out.write(f"holds up to offset {proof.offset}: {proof.records:,} records, hash {proof.hash.hex()}; {image}\n")
        return 0

    return run


def _proved_file(path: str) -> "FeedProof":
    """Raises UsageError, NoEventError, FeedDamagedError, and what reading the file raises."""
    from app.formats.feed_check import EventCheck  # noqa: PLC0415 - slow to load, as is all below
    from app.formats.feed_events import events_in  # noqa: PLC0415 - as above
    from app.formats.lines import TextFault  # noqa: PLC0415 - as above
    from app.formats.registry import FEED, JSON_LINES, recognise  # noqa: PLC0415 - as above
    from app.formats.source import Source  # noqa: PLC0415 - as above

    check = EventCheck()
    with open(path, "rb") as raw:  # noqa: PTH123 - as it was named
        source = Source(raw)
        try:
            likely = recognise(source)
        except TextFault:
            # Whoever follows the events says what is damaged.
            likely = None
        if likely not in (None, FEED, JSON_LINES):
            raise UsageError(
                f"`{path}` is in the format {likely.name}, which has no ids, hashes and digest, so it can't be "
                "verified; export the ACLs with --format feed, or compare them with a service with klamm plan"
            )
        check.follow_all(events_in(source.stream))
    if not check.events:
        raise UsageError(f"`{path}` holds no events; docs/feed.md describes them")
    return check.proof


async def _proved_store(url: "DatabaseUrl") -> "FeedProof":
    """Table and head in one snapshot; then the records that led there. Raises FeedDamagedError."""
    from app.core.kafka.bindings import NO_TERMS, StandardAcl  # noqa: PLC0415 - slow to load, as is all below
    from app.core.proof import FeedDamagedError, FeedProof, check_epochs  # noqa: PLC0415 - as above
    from app.core.token import Token  # noqa: PLC0415 - as above
    from app.runtime.continuity import transactions_of  # noqa: PLC0415 - as above
    from app.store.reading.change_feed import PostgresChangeFeed  # noqa: PLC0415 - as above

    feed, table, log = PostgresChangeFeed(url), FeedProof(), FeedProof()
    try:
        async with feed.snapshot() as reader:
            head = reader.head
            check_epochs(head.epochs, head.last_offset)
            table.begin(head.last_offset, head.hash)
            table.add_configs(reader.configs)
            async for some in reader.slices():
                table.add_acls([StandardAcl.from_row(row, some.terms.get(row[0], NO_TERMS)) for row in some.rows])
        table.check_at(head.last_offset, head.hash, head.digest)
        start = 0 if head.log_start_offset == 1 else min(head.log_start_offset, head.last_offset)
        while log.offset < head.last_offset:
            poll = await feed.poll(max(log.offset, start), _AT_ONCE)
            if not poll.head.epochs.has(Token(head.epoch, head.last_offset), poll.head.last_offset):
                raise FeedDamagedError("the store was put back while it was read; run this again")
            if poll.hash_at is None:
                raise FeedDamagedError(f"record {max(log.offset, start)} is missing, or was trimmed meanwhile")
            if start and not log.offset:
                # What came before the first record that is kept is gone, so the proof begins at its hash.
                log.begin(start, poll.hash_at, image_known=False)
            for transaction in transactions_of(poll.records):
                if log.offset < head.last_offset:
                    log.follow(transaction, transaction[-1].hash)
            if not poll.records and log.offset < head.last_offset:
                raise FeedDamagedError(f"record {log.offset + 1} is missing")
    finally:
        await feed.close()
    log.check_at(head.last_offset, head.hash, table.digest)
    table.records = log.records
    return table
