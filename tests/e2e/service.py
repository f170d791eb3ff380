"""A real `klamm serve` in a process of its own, and the few calls that every story makes."""

import logging
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.planted import hear, plant, plant_of_folder, plant_password
from tests.postgres import new_folder
from tests.surroundings import without_ours

PATIENCE_S = 60.0
ADMIN = "User:admin"
ROOT = Path(__file__).parents[2]
# A suite that stops hundreds of services has no time to drain, and reads the log with its own eyes.
VARIABLES = {"KLAMM_SUPER_USERS": ADMIN, "KLAMM_DRAIN_MS": "0", "KLAMM_LOG_FORMAT": "TEXT"}
SERVING = re.compile(r"""serving(?: address=|","address":")([^\s"]+)""")
"""The line that tells the address, in either form of the log."""
# Of no meaning to the service; but whoever logs a request's headers would tell them.
SECRET_HEADERS = {
    "proxy-authorization": f"Basic {plant('planted-Zm9yIGEgcHJveHk')}",
    "cookie": plant("planted-4711-cookie"),
}

Json = dict[str, Any]

# A line for each of some thousand requests would drown what a failed test has to say.
logging.getLogger("httpx").setLevel(logging.WARNING)


def eventually(check: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
    """Wait until the check holds. Raises AssertionError, saying what never came true."""
    deadline = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.02)


class AskingAgain(httpx.HTTPTransport):
    """Asks again after OVERLOADED: that is right while other processes have the service's core."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            reply = super().handle_request(request)
            refused = reply.status_code == httpx.codes.TOO_MANY_REQUESTS and b"OVERLOADED" in reply.read()
            if not refused or time.monotonic() > deadline:
                return reply
            reply.close()
            time.sleep(0.02)


def client_of(url: str, headers: Mapping[str, str] | None = None) -> httpx.Client:
    return httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S, transport=AskingAgain())


def context(principal: str = ADMIN, address: str = "127.0.0.1", **more: object) -> Json:
    return {"principal": principal, "client_address": address, **more}


def binding(name: str, principal: str = "User:alice", operation: str = "READ", **more: object) -> Json:
    return {
        "resource_type": "TOPIC",
        "resource_name": name,
        "principal": principal,
        "operation": operation,
        "permission_type": "ALLOW",
        **more,
    }


def action(name: str, operation: str = "READ", resource_type: str = "TOPIC", **more: object) -> Json:
    return {"operation": operation, "resource_type": resource_type, "resource_name": name, **more}


class Service:
    """One process of `klamm serve` on a free port, started in `folder`; its output is kept line by line.

    A data folder that is not there yet is a copy of an initialised one, unless `initialises`. `program` is what runs in
    place of this environment's `klamm`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        folder: Path = ROOT,
        initialises: bool = False,
        program: Sequence[str] = (str(Path(sys.executable).with_name("klamm")),),
    ) -> None:
        clean = without_ours()
        plant_password((environment or {}).get("KLAMM_DATABASE_URL", ""))
        self._data_dir = folder / arguments[arguments.index("--data-dir") + 1] if "--data-dir" in arguments else None
        if self._data_dir is not None and not initialises:
            new_folder(self._data_dir)
        self.process = subprocess.Popen(
            [*program, "serve", "--port", "0", *arguments],
            cwd=folder,
            env={**clean, **VARIABLES, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._address: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.url = self._address.get(timeout=PATIENCE_S)
        except queue.Empty:
            self.process.kill()
            raise AssertionError("\n".join(self.lines)) from None
        self.http = client_of(self.url, SECRET_HEADERS)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            hear(line)
            self.lines.append(line.rstrip("\n"))
            found = SERVING.search(line)
            if found is not None:
                self._address.put(found[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A test that has failed does not wait for a drain, which may be long: its own error is the one to show.
        self.stop(signal.SIGTERM if kind is None else signal.SIGINT)

    def stop(self, sig: int = signal.SIGTERM) -> int:
        """End the process with this signal and wait for it; its exit code comes back."""
        self.http.close()
        if self._data_dir is not None:
            plant_of_folder(self._data_dir)
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the service did not stop\n" + "\n".join(self.lines)) from None
        self._reader.join(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def ready(self) -> Self:
        """Wait until /readyz says so."""
        eventually(lambda: self.http.get("/readyz").status_code == 200, "ready")
        return self

    def metric(self, name: str) -> float:
        """The value of one metric that has no labels, such as klamm_image_loads_total."""
        found = re.search(rf"^{name} (\S+)$", self.http.get("/metrics").text, re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def post(self, path: str, body: Json, status: int = 200) -> Json:
        """Post this body and insist on the status."""
        answer = self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        value: Json = answer.json()
        return value

    def authorize(self, principal: str, *actions: Json, at_least: str | None = None) -> list[str]:
        """The results of one authorize call."""
        body: Json = {"context": context(principal), "actions": list(actions)}
        if at_least is not None:
            body["at_least"] = at_least
        results: list[str] = self.post("/v1/authorize", body)["results"]
        return results

    def create(self, *bindings: Json, **more: object) -> Json:
        """Create these ACLs as the super user."""
        return self.post("/v1/acls", {"context": context(), "bindings": list(bindings), **more})

    def delete(self, *filters: Json, **more: object) -> Json:
        """Delete what these filters mean as the super user."""
        return self.post("/v1/acls/delete", {"context": context(), "filters": list(filters), **more})

    def acls(self, **wanted: object) -> list[Json]:
        """Every ACL that the filter means, page by page."""
        found: list[Json] = []
        cursor: str | None = None
        while True:
            body: Json = {"context": context(), "filter": wanted, "limit": 1000}
            if cursor is not None:
                body["cursor"] = cursor
            page = self.post("/v1/acls/search", body)
            found += page["acls"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found


def replica_on(database_url: str, **variables: str) -> Service:
    """A replica on this PostgreSQL, set up by these variables."""
    return Service([], {"KLAMM_DATABASE_URL": database_url, **variables})
