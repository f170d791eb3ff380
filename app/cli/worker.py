"""A worker of `klamm serve --workers N`: a replica, started by the supervisor and ended with it."""

import logging
import os
import signal
import socket
import sys

from app.cli.credentials import begin_logging
from app.cli.main import create_app
from app.cli.server import ServerOptions
from app.process.processes import STOP_SIGNALS, SharedOutput, end_with, receive_order
from app.process.siblings import Siblings


def main() -> None:
    """Serves as told through the socket whose descriptor is the second argument."""
    end = socket.socket(fileno=int(sys.argv[2]))
    try:
        order = receive_order(end)
        end_with(order.supervisor)
    except EOFError:
        sys.exit(1)
    # Until the server has its own handlers, there is nothing to undo. An exception could come out of an import as
    # another one, or be interrupted by the next signal.
    for each in STOP_SIGNALS:
        signal.signal(each, lambda *_: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    begin_logging(order.settings, order.number)
    siblings = Siblings(end, order.locks, orphaned=_end_at_once)
    app = create_app(order.settings, siblings, SharedOutput(order.locks))
    with socket.socket(fileno=order.listener) as listener:
        app.serve(
            listener,
            ServerOptions(admission=siblings.admission(), drain_s=order.settings.drain_ms / 1000, supervision=siblings),
        )


def _end_at_once() -> None:
    # Without the supervisor, PostgreSQL may be gone, and the next service needs the port.
    logging.shutdown()
    os._exit(1)


if __name__ == "__main__":
    main()
