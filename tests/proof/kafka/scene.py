"""A service for a broker with its own authorizer: it can be stopped, and started anew at the same address."""

from pathlib import Path

from tests.klamm import Process, over_socket


class Scene:
    """Where a story takes place. The service can be stopped, and started as another one on the same port."""

    def __init__(self, data_dir: Path, port: int, cluster_id: str) -> None:
        self._data_dir = data_dir
        self._port = port
        self._cluster_id = cluster_id
        self.service = self._serve({})

    def _serve(self, variables: dict[str, str]) -> Process:
        arguments = ["--port", str(self._port), "--data-dir", str(self._data_dir)]
        return over_socket(*arguments, settings={"KLAMM_CLUSTER_ID": self._cluster_id, **variables}).ready()

    def restart(self, **variables: str) -> None:
        """End the service and begin one that is set up by these variables."""
        self.service.stop()
        self.service = self._serve(variables)
