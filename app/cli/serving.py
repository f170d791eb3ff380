"""What `klamm serve` does: checks settings, takes the address, starts a PostgreSQL if it needs one, and serves."""

import argparse
import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from app.cli.credentials import callers_of, certificate_of, refuse_exposed_address, warn_of_unusable_callers
from app.cli.database import EachSecond, database, settings_of
from app.cli.state_file import state_folder_held
from app.formats.command_errors import UsageError
from app.formats.database_url import DatabaseUrl
from app.logs.decision_files import prepare_folder
from app.logs.super_users import warn_of_super_users
from app.logs.tracing import check_tracing
from app.metrics.declared import Metrics
from app.process.processes import launch_worker, lock_file
from app.process.sockets import address_of, listening
from app.process.supervisor import Drain, Supervisor
from app.settings.model import Settings
from app.settings.upstream import unprotected

if TYPE_CHECKING:
    from app.cli.example import Example

_log = logging.getLogger(__name__)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    with settings_of(arguments) as settings:
        _check(settings)
        example = _example(arguments.example, settings)
        _log.info("settings", extra=settings.redacted() if settings.log_format == "JSON" else settings.given())
        with state_folder_held(settings), _listener_and_database(settings) as (listener, database_url, each_second):
            complete = settings.model_copy(update={"database_url": database_url})
            _serve(complete, listener, each_second, partial(_started, settings, listener, example, out))
            # The rest is bounded in time; a second signal must not leave it half done.
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.signal(each, signal.SIG_IGN)
    return 0


def _check(settings: Settings) -> None:
    """Refuses and warns here, once, and not in each worker."""
    refuse_exposed_address(settings)
    if settings.otel_enabled:
        check_tracing()
    callers_of(settings, Metrics())
    warn_of_unusable_callers(settings)
    warn_of_super_users(settings.super_users)
    for url in unprotected(settings.upstream_urls):
        why = "tokens and ACLs are sent unencrypted; use https, unless a proxy on this machine does TLS"
        _log.warning("followed_without_tls", extra={"url": url, "why": why})
    certificate_of(settings)
    if settings.decision_log_path is not None:
        prepare_folder(settings.decision_log_path)


def _serve(
    settings: Settings, listener: socket.socket, each_second: EachSecond, once_started: Callable[[], Awaitable[None]]
) -> None:
    drain_s = settings.drain_ms / 1000
    if settings.workers == 1:
        from app.cli.main import create_app  # noqa: PLC0415 - a supervisor needs neither; its workers do
        from app.cli.server import ServerOptions  # noqa: PLC0415 - as above

        options = ServerOptions(each_second=each_second, once_started=once_started, drain_s=drain_s)
        create_app(settings).serve(listener, options)
        return
    with lock_file() as locks:
        supervisor = Supervisor(
            settings.workers,
            partial(launch_worker, listener.fileno(), locks.fileno(), settings),
            each_second=each_second,
            once_serving=once_started,
            drain=Drain(drain_s, over=listener.close),
        )
        asyncio.run(supervisor.run())


@contextmanager
def _listener_and_database(settings: Settings) -> Iterator[tuple[socket.socket, DatabaseUrl | None, EachSecond]]:
    # The address first: if it is taken, no PostgreSQL is made or started. At the end the socket closes first too, so
    # that nobody connects to a service whose database is being stopped.
    with ExitStack() as early:
        listener = early.enter_context(listening(settings.host, settings.port, settings.uds))
        if settings.upstream_urls:
            with early.pop_all():
                yield listener, None, None
            return
        with database(settings) as (database_url, each_second), early.pop_all():
            yield listener, database_url, each_second


def _example(path: Path | None, settings: Settings) -> "Example | None":
    if path is None:
        return None
    if settings.uds is not None:
        raise UsageError("--example needs host and port; leave out --uds (KLAMM_UDS)")
    if settings.callers or settings.tls_certificate is not None:
        raise UsageError("--example uses plain HTTP without credentials; leave out callers and tls.certificate")
    from app.cli.example import read_example  # noqa: PLC0415 - an HTTP client takes a tenth of the start

    return read_example(path)


async def _started(settings: Settings, listener: socket.socket, example: "Example | None", out: TextIO) -> None:
    address = address_of(listener, tls=settings.tls_certificate is not None)
    _log.info("serving", extra={"address": address})
    console = f" In a browser: {address}/console." if settings.has_console and settings.uds is None else ""
    greeting = (
        f"Klamm serves at {address}; Ctrl-C ends it.{console} See README.md, docs/ and openapi.json (klamm openapi)."
    )

    def say(text: str) -> None:
        out.write(f"{text}\n")
        out.flush()

    if example is not None:
        from app.cli.example import show_example  # noqa: PLC0415 - as above

        try:
            await show_example(example, address, say)
        except UsageError as error:
            sys.stderr.write(f"klamm serve: --example: {error}\n")
        say(f"\n{greeting}")
    elif out.isatty():
        say(greeting)
