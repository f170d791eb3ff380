"""What the commands that run on settings do: serve, migrate, import, token, openapi."""

import argparse
import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

from app.cli import flags as command_flags
from app.cli.credentials import begin_logging, callers_of, certificate_of, refuse_open_doors, warn_of_the_idle
from app.cli.example import Example, read_example, show_example
from app.cli.import_acls import (
    EachSecond,
    is_over_http,
    run_import,
    run_import_over_http,
)
from app.cli.main import create_app
from app.cli.server import serve
from app.cli.token import run_token
from app.core.doubts import doubts_of_principal
from app.core.kafka.errors import ApiException, InconsistentClusterIdException, StoreUnavailableException
from app.formats.command_errors import CommandError, UsageError
from app.formats.database_url import DatabaseUrl
from app.logs.decision_files import prepare_folder
from app.logs.redaction import conceal_url
from app.logs.tracing import check_tracing
from app.metrics.declared import Metrics
from app.process.output import output_lock
from app.process.processes import WorkerLauncher
from app.process.sockets import address_of, listening
from app.process.supervisor import Drain, Supervisor
from app.rest.openapi import build_openapi
from app.rest.pages.routes import document_text
from app.settings.model import Settings, as_given, read_settings
from app.store.migrate import migrate

_log = logging.getLogger(__name__)

_HELD = "; or say --klamm URL, and the service that runs there gets the ACLs"


def run_command(parsed: argparse.Namespace) -> int:
    """Runs what `app.cli.command_line` has read; the exit codes are those of `app.cli.entry_point.main`.

    SIGTERM and Ctrl-C are a KeyboardInterrupt.
    """
    try:
        _RUN[parsed.command](parsed)
    except CommandError as error:
        return _failed(as_given(str(error), vars(parsed)), error.exit_code)
    except ApiException as error:
        return _failed(error.message, 1)
    return 0


def _failed(text: str, status: int) -> int:
    sys.stderr.write(f"klamm: {text}\n")
    return status


def _serve(arguments: argparse.Namespace) -> None:
    flags = {name: getattr(arguments, name) for name in ("host", "port", "uds", "workers", "data_dir")}
    settings = read_settings(flags)
    begin_logging(settings)
    refuse_open_doors(settings)
    if settings.otel_enabled:
        check_tracing()
    # What is wrong with them is told here once, not by each worker.
    callers_of(settings, Metrics())
    warn_of_the_idle(settings)
    _warn_of_super_users(settings)
    certificate_of(settings)
    if settings.decision_log_path is not None:
        prepare_folder(settings.decision_log_path)
    example = _example(arguments.example, settings)
    _log.info("settings", extra=settings.redacted() if settings.log_format == "JSON" else settings.given())
    with _listener_and_database(settings) as (listener, database_url, each_second):
        settings = settings.model_copy(update={"database_url": database_url})
        once_started = partial(_started, listener, example, tls=settings.tls_certificate is not None)
        if settings.workers == 1:
            app = create_app(settings)
            serve(
                app,
                listener,
                answer=app.answer,
                connections=app.connections,
                each_second=each_second,
                once_started=once_started,
                drain_s=settings.drain_ms / 1000,
                tls=app.tls,
                draining=app.draining,
            )
        else:
            with output_lock() as lock:
                launch = WorkerLauncher(listener, lock.fileno(), settings)
                supervisor = Supervisor(
                    settings.workers,
                    launch,
                    each_second=each_second,
                    once_serving=once_started,
                    drain=Drain(settings.drain_ms / 1000, over=listener.close),
                )
                asyncio.run(supervisor.run())
        # What is left is bounded in time; a second signal must not leave it half done.
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)


def _warn_of_super_users(settings: Settings) -> None:
    """A super user that no client can be is no error to Kafka, and leaves an operator without rights."""
    for name in sorted(settings.super_users):
        for doubt in doubts_of_principal(name):
            _log.warning("super_user_in_doubt", extra={"why": f"{doubt}; super.users has `;` between principals"})


@contextmanager
def _listener_and_database(settings: Settings) -> Iterator[tuple[socket.socket, DatabaseUrl, EachSecond]]:
    """The address first: one that is taken is told at once, and no PostgreSQL is made or started for it.

    In the end the socket goes first as well: nobody shall connect to a service whose database is being stopped.
    """
    with ExitStack() as early:
        listener = early.enter_context(listening(settings.host, settings.port, settings.uds))
        with _database(settings) as (database_url, each_second), early.pop_all():
            yield listener, database_url, each_second


def _example(path: Path | None, settings: Settings) -> Example | None:
    if path is None:
        return None
    if settings.uds is not None:
        raise UsageError("--example speaks to host and port; leave out --uds (KLAMM_UDS)")
    if settings.callers or settings.tls_certificate is not None:
        raise UsageError(
            "--example asks over plain HTTP and shows no credentials; leave out callers and tls.certificate"
        )
    return read_example(path)


def _migrate(arguments: argparse.Namespace) -> None:
    settings = read_settings({"data_dir": arguments.data_dir})
    begin_logging(settings)
    if settings.database_url is None:
        with _database(settings):  # which migrates it
            return
    with _named(settings):
        asyncio.run(migrate(settings.database_url, cluster_id=settings.cluster_id))


def _import(arguments: argparse.Namespace) -> None:
    if is_over_http(arguments):
        _say(run_import_over_http(arguments))
        return
    settings = read_settings({"data_dir": arguments.data_dir})
    begin_logging(settings)
    with _named(settings):
        _say(run_import(arguments, lambda: _database(settings, held=_HELD)))


def _token(arguments: argparse.Namespace) -> None:
    run_token(arguments, read_settings(), _say)


@contextmanager
def _named(settings: Settings) -> Iterator[None]:
    """Have what a database of the operator's own refuses begin with which one it is, and as whom it was asked."""
    try:
        yield
    except (StoreUnavailableException, InconsistentClusterIdException) as error:
        if settings.database_url is None:
            raise
        raise type(error)(f"{settings.database_url.shown}: {error.message}") from None


def _openapi(arguments: argparse.Namespace) -> None:
    text = document_text(build_openapi())
    if arguments.output is None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            raise UsageError(f"standard output can't be written ({error.strerror}); name a file, --output") from None
        return
    try:
        arguments.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output: can't write `{arguments.output}` ({error.strerror})") from None


@contextmanager
def _database(settings: Settings, held: str = "") -> Iterator[tuple[DatabaseUrl, EachSecond]]:
    """The DSN to use, and what keeps its server alive: an embedded one, started and migrated here, if none is given.

    `held` is what else to say where another process holds the folder.
    """
    if settings.database_url is not None:
        yield settings.database_url, None
        return
    # Only here: who has a PostgreSQL of his own needs neither its wheel nor Linux.
    from app.store.embedded.server import EmbeddedPostgres, EmbeddedPostgresError, FolderHeldError  # noqa: PLC0415 - as above

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


async def _started(listener: socket.socket, example: Example | None, *, tls: bool) -> None:
    address = address_of(listener, tls=tls)
    _log.info("serving", extra={"address": address})
    if example is not None:
        try:
            await show_example(example, address, _say)
        except UsageError as error:
            _failed(f"--example: {error}", 0)
        _say(f"\n{command_flags.greeting(address)}")
    elif sys.stdout.isatty():
        _say(command_flags.greeting(address))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


_RUN: Mapping[str, Callable[[argparse.Namespace], None]] = MappingProxyType(
    {"serve": _serve, "migrate": _migrate, "import": _import, "token": _token, "openapi": _openapi}
)
