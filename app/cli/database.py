"""What commands with settings share: the settings, and the PostgreSQL that they name or that runs embedded."""

import argparse
import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.cli.credentials import begin_logging
from app.core.kafka.errors import InconsistentClusterIdException, StoreUnavailableException
from app.formats.command_errors import UsageError
from app.formats.database_url import DatabaseUrl
from app.logs.redaction import conceal_url
from app.settings.model import Settings, as_given, read_settings

_log = logging.getLogger(__name__)

EachSecond = Callable[[], None] | None
"""Keeps an embedded PostgreSQL alive; call it once a second."""


@contextmanager
def settings_of(arguments: argparse.Namespace) -> Iterator[Settings]:
    """The settings, with the command's flags; they also configure logging.

    A UsageError that begins with a property's name, also from inside, names it as it was given: flag, variable or key.
    """
    flags = {name: value for name, value in vars(arguments).items() if name in Settings.model_fields}
    try:
        settings = read_settings(flags)
        begin_logging(settings)
        yield settings
    except UsageError as error:
        raise UsageError(*as_given(str(error), flags).split("\n")) from None


@contextmanager
def named_database(settings: Settings) -> Iterator[None]:
    """Makes errors of the operator's own database say which database it is, and which user asked."""
    try:
        yield
    except (StoreUnavailableException, InconsistentClusterIdException) as error:
        if settings.database_url is None:
            raise
        raise type(error)(f"{settings.database_url.shown}: {error.message}") from None


@contextmanager
def database(settings: Settings, held: str = "") -> Iterator[tuple[DatabaseUrl, EachSecond]]:
    """Without `database.url`, starts and migrates an embedded one.

    `held` is appended to the refusal if another process holds its folder.
    """
    if settings.upstream_urls:
        raise UsageError("upstream.urls: a follower has no database; run this command where the database is")
    if settings.database_url is not None:
        yield settings.database_url, None
        return
    from app.store.embedded.server import EmbeddedPostgres, EmbeddedPostgresError, FolderHeldError  # noqa: PLC0415 - needs its wheel, and Linux
    from app.store.migrate import migrate  # noqa: PLC0415 - SQLAlchemy and Alembic take a third of the start

    server = EmbeddedPostgres(settings.data_dir, bin_dir=settings.postgres_bin)
    try:
        server.start()
    except EmbeddedPostgresError as error:
        raise UsageError(f"{error}{held if isinstance(error, FolderHeldError) else ''}") from None
    database_url = DatabaseUrl.parse(server.dsn)
    conceal_url(database_url)
    try:
        asyncio.run(migrate(database_url, cluster_id=settings.cluster_id))
        _log.info("embedded_postgres_ready", extra={"folder": settings.data_dir, "pid": server.pid})
        yield database_url, server.keep_alive
    finally:
        server.stop()
        _log.info("embedded_postgres_stopped")
