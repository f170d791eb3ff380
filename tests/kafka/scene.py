"""A service, a broker that asks it for every decision, and the tools of the broker's users."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.service import Json, Service, binding
from tests.kafka.broker import CACHE_S
from tests.kafka.tools import Said, Tools

Change = Callable[[Service], object]
"""What an administrator does to the ACLs."""

_MARGIN_S = 0.5


def allow(name: str, principal: str, operation: str, **more: object) -> Change:
    """Create an ACL that allows; on a topic, literally, from everywhere, unless more is said."""
    return lambda service: service.create(binding(name, principal, operation, **more))


def deny(name: str, principal: str, operation: str) -> Change:
    """Create an ACL that denies."""
    return allow(name, principal, operation, permission_type="DENY")


def revoke(**wanted: object) -> Change:
    """Delete the one ACL that this filter means."""

    def change(service: Service) -> None:
        taken: Json = service.delete(wanted)["results"][0]
        assert len(taken["matches"]) == 1, taken

    return change


class Scene:
    """Where the story takes place. The service can be stopped, and started as another one on the same port."""

    def __init__(self, data_dir: Path, port: int, cluster_id: str) -> None:
        self._data_dir = data_dir
        self._port = port
        self._cluster_id = cluster_id
        self.service = self._serve({})
        self.tools: Tools

    @property
    def opa_url(self) -> str:
        """What the broker is told."""
        return f"http://127.0.0.1:{self._port}/v1/data/kafka/authz/allow/{self._cluster_id}"

    def _serve(self, variables: dict[str, str]) -> Service:
        arguments = ["--port", str(self._port), "--data-dir", str(self._data_dir)]
        return Service(arguments, {"KLAMM_CLUSTER_ID": self._cluster_id, **variables}).ready()

    def restart(self, **variables: str) -> None:
        """End the service and begin one that is set up by these variables."""
        self.service.stop()
        self.service = self._serve(variables)

    def without_service(self, ask: Callable[[], Said]) -> Said:
        """What is said while there is no service."""
        self.service.stop()
        try:
            return ask()
        finally:
            self.service = self._serve({})

    def change(self, *changes: Change) -> None:
        """Change ACLs, and let the time pass for which the plugin keeps what it was told before."""
        for each in changes:
            each(self.service)
        time.sleep(CACHE_S + _MARGIN_S)
