"""Links between nodes: each can be cut, can be down, can swallow what is sent, and can lead to somebody else."""

from contextlib import ExitStack
from enum import Enum

from tests.proof.e2e.relay import relay_to

NOBODY = "nobody"
_NOBODY_URL = "http://127.0.0.1:9"


class LinkState(Enum):
    UP = "up"
    DOWN = "down: connections are refused"
    SILENT = "silent: what is sent is swallowed"


class Link:
    """An address that whoever is at its end has for as long as the stack lasts."""

    def __init__(self, stack: ExitStack, name: str, target: str, url: str) -> None:
        self.name = name
        self.target = target
        """The name of the node that it leads to."""
        self.state = LinkState.UP
        self._url = url
        self._home = target, url
        self._relay = stack.enter_context(relay_to(url))
        self.url = self._relay.dsn if "@" in url else self._relay.dsn.replace("@", "")

    def cut(self) -> None:
        """All connections break."""
        self._relay.cut()

    def set(self, state: LinkState) -> None:
        if state is LinkState.SILENT:
            self._relay.freeze()
        elif self.state is LinkState.SILENT:
            self._relay.thaw()
        self.state = state
        if state is not LinkState.SILENT:
            # What was swallowed can't be sent again: such a connection is of no use any more.
            self._relay.lead_to(_NOBODY_URL if state is LinkState.DOWN else self._url)

    def lead_to(self, target: str, url: str) -> None:
        """From now on somebody else is there."""
        self.target, self._url = target, url
        self._relay.lead_to(url)

    def lead_home(self) -> None:
        self.lead_to(*self._home)
