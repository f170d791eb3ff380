"""How a reply that comes through the application is written: head and body together."""

import asyncio
from typing import Protocol


class Owner(Protocol):
    """The connection that replies."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport

    deaf: bool
    """Whether the last word is said."""

    def marked(self, data: bytes) -> bytes:
        """Let a part of a reply be as it is to be written."""

    def hang_up(self) -> None:
        """End the connection."""


class Joined(asyncio.Transport):
    """Writes a reply's head together with what follows it; alone only if nothing does in the same turn of the loop."""

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self.held: bytes | None = None
        self._owner = owner
        self._transport = owner.transport
        self._loop = owner.loop

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hold the first part back, and write it with the second."""
        if self._owner.deaf or self._transport.is_closing():
            # It was cut off or refused, and the application doesn't know of it yet.
            return
        part = self._owner.marked(bytes(data))
        if self.held is None:
            self.held = part
            self._loop.call_soon(self.flush)
        else:
            held, self.held = self.held, None
            self._transport.writelines((held, part))

    def interject(self, data: bytes) -> None:
        """Write what does not come through the application, behind whatever does and is held."""
        self.flush()
        self._transport.write(data)

    def flush(self) -> None:
        """Write what is held."""
        if self.held is not None:
            held, self.held = self.held, None
            if not self._transport.is_closing():
                self._transport.write(held)

    def is_closing(self) -> bool:
        """Whether the connection is being closed."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Write what is held, and hang up."""
        self.flush()
        self._owner.hang_up()
