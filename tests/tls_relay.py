"""TLS in front of a PostgreSQL that has none: a relay that answers SSLRequest, for tests and for processes alike."""

import select
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.certificates import Certified

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_TICK_S = 0.2


class TlsRelay:
    """What it relays it has taken over TLS; who does not ask for TLS is let through only if `plain_too`."""

    def __init__(self, dsn: str, context: ssl.SSLContext | None, *, plain_too: bool = False) -> None:
        url = urlsplit(dsn)
        self._target = (str(url.hostname), int(url.port or 0))
        self._login = url.netloc.rpartition("@")[0]
        self._url = url
        self._context = context
        self._plain_too = plain_too
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_TICK_S)
        self.handshakes: list[tuple[str, object]] = []
        """TLS version and the client's certificate, a handshake each."""
        self.plain = 0
        """Connections that came without TLS."""

    def dsn(self, host: str = "localhost", **options: str) -> str:
        """Of this relay, by this name."""
        port = self._listener.getsockname()[1]
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return self._url._replace(netloc=f"{self._login}@{host}:{port}", query=query).geturl()

    def serve(self) -> None:
        """Take connections until the end."""
        while not self._stopping:
            with suppress(TimeoutError):
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._one, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def stop(self) -> None:
        """End all connections."""
        self._stopping = True

    def close(self) -> None:
        """After `serve` has returned."""
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _one(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(10)
            if client.recv(8, socket.MSG_PEEK) != SSL_REQUEST:
                self.plain += 1
                if self._plain_too:
                    self._pass_on(client)
                return
            client.recv(8)
            if self._context is None:
                client.sendall(b"N")
                if client.recv(1, socket.MSG_PEEK):  # it goes on without, instead of leaving
                    self.plain += 1
                    if self._plain_too:
                        self._pass_on(client)
                return
            client.sendall(b"S")
            with self._context.wrap_socket(client, server_side=True) as secured:
                self.handshakes.append((str(secured.version()), secured.getpeercert()))
                self._pass_on(secured)

    def _pass_on(self, client: socket.socket) -> None:
        with socket.create_connection(self._target, 10) as server:
            ways = {client: server, server: client}
            while not self._stopping:
                held = isinstance(client, ssl.SSLSocket) and client.pending()
                ready = [client] if held else select.select(list(ways), [], [], _TICK_S)[0]
                for each in ready:
                    data = each.recv(65_536)
                    if not data:
                        return
                    ways[each].sendall(data)


def server_context(certified: Certified, client_ca: Path | None = None) -> ssl.SSLContext:
    """As PostgreSQL would make it; with `client_ca` no client comes in without a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certified.certificate, certified.key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextmanager
def tls_relay(dsn: str, context: ssl.SSLContext | None, *, plain_too: bool = False) -> Iterator[TlsRelay]:
    """A relay for as long as the block lasts; without a context it says that it has no TLS."""
    relay = TlsRelay(dsn, context, plain_too=plain_too)
    thread = threading.Thread(target=relay.serve, daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        relay.stop()
        thread.join(10)
        relay.close()
