"""A TCP proxy before PostgreSQL that breaks the connection where a test wants it broken."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit

COMMIT = b"COMMIT\x00"
"""The words of the simple query."""

_DELIVERY_S = 0.3


class Proxy:
    """Passes bytes on, until `trip` is on its way to the server; then `then` happens.

    drop: that connection closes, and the words are lost. deliver: the server gets them, then the connection closes
    without a reply. silence: the server gets them, and no reply comes on any connection. freeze: nothing comes through
    any more, either way.
    """

    def __init__(self, dsn: str) -> None:
        self._target = urlsplit(dsn)
        self._loop = asyncio.get_running_loop()
        self._writers: list[asyncio.StreamWriter] = []
        self.dsn = ""
        self.trip: bytes | None = None
        self.then: Literal["drop", "deliver", "silence", "freeze"] = "drop"
        self.opened = 0
        self._deaf = False
        self._mute = False

    def freeze(self) -> None:
        """Half-open: both ends think that they are connected."""
        self._deaf = self._mute = True

    def thaw(self) -> None:
        """Back to work; what was said meanwhile is lost."""
        self._deaf = self._mute = False

    def lead_to(self, dsn: str) -> None:
        """From now on another server answers here, as after a failover; every connection closes."""
        self._target = urlsplit(dsn)
        self.cut()

    def cut(self) -> None:
        """Every connection closes."""
        for writer in self._writers:
            # Also for a test in another thread, whose word alone would not wake the loop.
            self._loop.call_soon_threadsafe(writer.close)

    def cut_and_thaw(self) -> None:
        """The same, and back to work with the next connections; nothing comes through on those before."""
        self.cut()
        self._loop.call_soon_threadsafe(self.thaw)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        self.opened += 1
        try:
            server_reader, server_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        except ConnectionError:  # whoever asks learns it as from the server itself
            writer.close()
            return
        self._writers += [writer, server_writer]
        mute = asyncio.Event()
        ways = [
            asyncio.create_task(self._pass_requests(reader, server_writer, mute)),
            asyncio.create_task(self._pass_replies(server_reader, writer, mute)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        writer.close()
        server_writer.close()

    async def _pass_requests(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, mute: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            tripped = self.trip is not None and self.trip in data
            if tripped:
                self.trip = None
                if self.then == "drop":
                    return
                if self.then == "deliver":
                    mute.set()
                else:
                    self._mute = True
                self._deaf = self.then == "freeze"
            if not self._deaf:
                server.write(data)
                await server.drain()
            if tripped and self.then == "deliver":
                await asyncio.sleep(_DELIVERY_S)
                return

    async def _pass_replies(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, mute: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            if not self._mute and not mute.is_set():
                client.write(data)
                await client.drain()


@asynccontextmanager
async def proxy_to(dsn: str) -> AsyncIterator[Proxy]:
    """A proxy with a DSN of its own, for as long as the block lasts."""
    proxy = Proxy(dsn)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    target = urlsplit(dsn)
    login = target.netloc.rpartition("@")[0]
    proxy.dsn = target._replace(netloc=f"{login}@127.0.0.1:{port}").geturl()
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await asyncio.sleep(0.05)
