"""Klamm for a test, started in one of three ways and spoken to with the same verbs.

    async with in_process() as klamm:                              # no socket, a store in memory: the verbs are awaited
        await klamm.create(acl("orders"))
        assert await klamm.authorize("User:alice", action("orders")) == ["ALLOWED"]

    with replica(postgres.new_store()).ready() as klamm:           # a process on a database of the fixture `postgres`
    with replica(klamm.url).ready() as follower:                   # a process that follows that one
    with over_socket("--data-dir", "d", folder=tmp).ready() as it: # any other `klamm serve`

The verbs are `create(acl(...), ...)`, `delete({"resource_name": ...}, ...)`, `acls(principal=...)`, which find pages to
the last, `authorize(who, action(...), ...)`, and `post(path, body, status)` for the rest; the first three ask as the
super user. A test that waits does so by `wait_until`, or by `until` in a coroutine. In the gate the fixture `service`
is a process that is there already (tests/gate/e2e/conftest.py). What decides, without REST, is started by
tests/world.py. What is heavy is imported where it is needed.
"""

from __future__ import annotations

import asyncio
import json
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.planted import hear, plant, plant_of_folder, plant_password
from tests.surroundings import without_ours

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from types import TracebackType

    import httpx

    from app.core.kafka.configs import AuthorizerConfig
    from app.logs.audit import AuditLog
    from app.metrics.declared import Metrics
    from app.rest.app import AppOptions, RestApp
    from app.rest.callers.authentication import Callers
    from app.rest.http.admission import Admission
    from app.runtime.authorizer import Authorizer
    from tests.fakes import FakeStore
    from tests.postgres import Postgres

    Check = Callable[[], bool | Awaitable[bool]]
    Words = Mapping[str, object]

Json = dict[str, Any]
LIMIT_S = 60.0  # of every wait: no machine is that slow
SUPER_USER = "User:admin"
ROOT = Path(__file__).parents[1]
KLAMM = (str(Path(sys.executable).with_name("klamm")),)
# The line that tells the address, in either form of the log.
SERVING = re.compile(r"""serving(?: address=|","address":")([^\s"]+)""")
# A suite that stops hundreds of services has no time to drain, and reads the log with its own eyes.
VARIABLES = {"KLAMM_SUPER_USERS": SUPER_USER, "KLAMM_DRAIN_MS": "0", "KLAMM_LOG_FORMAT": "TEXT"}
# Of no meaning to the service; but whoever logs a request's headers would tell them.
SECRET_HEADERS = {
    "proxy-authorization": f"Basic {plant('planted-Zm9yIGEgcHJveHk')}",
    "cookie": plant("planted-4711-cookie"),
}


def context(principal: str = SUPER_USER, address: str = "127.0.0.1", **more: object) -> Json:
    """Who asks, and from where."""
    return {"principal": principal, "client_address": address, **more}


def action(name: str, operation: str = "READ", resource_type: str = "TOPIC", **more: object) -> Json:
    return {"operation": operation, "resource_type": resource_type, "resource_name": name, **more}


def acl(name: str, principal: str = "User:alice", operation: str = "READ", **more: object) -> Json:
    """An ACL as a request's body has it, on a topic unless told else; `binding` of tests/updates.py is for Python."""
    said = {"resource_type": "TOPIC", "resource_name": name, "principal": principal, "operation": operation}
    return {**said, "permission_type": "ALLOW", **more}


ADMIN = context()
ALICE = context("User:alice", "10.1.2.3")
READ_ORDERS = action("orders")


def wait_until(check: Callable[[], bool], what: str = "what the test waits for", limit_s: float = LIMIT_S) -> None:
    """Wait until the check holds. Raises AssertionError, saying what never came true."""
    deadline = time.monotonic() + limit_s
    while not check():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.02)


async def until(check: Check, what: str = "what the test waits for", limit_s: float = LIMIT_S) -> None:
    """The same while the event loop goes on, by its clock, which may be virtual. The check may have to be awaited."""
    now = asyncio.get_running_loop().time
    began = now()
    while not (await found if isawaitable(found := check()) else found):
        assert now() < began + limit_s, f"never came true: {what}"
        await asyncio.sleep(0.001 if now() < began + 1 else 0.01)


@dataclass(slots=True)
class InProcess:
    """The application, what it stands on, and a client of it."""

    app: RestApp
    client: httpx.AsyncClient
    authorizer: Authorizer
    store: FakeStore
    metrics: Metrics
    audit: AuditLog
    lines: list[str]
    admission: Admission
    callers: Callers
    tokens: Mapping[str, str]
    """By the callers' names; empty if it knows no callers."""

    async def send(
        self, path: str, body: object = None, caller: str | None = None, method: str = "POST", **headers: str
    ) -> httpx.Response:
        """Send a body as JSON, or these bytes as they are; underscores in a header's name are hyphens."""
        content, named = _sent(body, headers)
        shown = {} if caller is None else {"authorization": f"Bearer {self.tokens[caller]}"}
        return await self.client.request(method, path, content=content, headers={**shown, **named})

    async def post(self, path: str, body: object, status: int = 200) -> Json:
        """Post this body, as "root" if callers are known, and insist on the status."""
        return _json_of(await self.send(path, body, "root" if self.tokens else None), status)

    async def authorize(self, who: str | Words, *actions: Words, **more: object) -> list[str]:
        """The results of one authorize call for this principal, or in this context."""
        results: list[str] = (await self.post("/v1/authorize", _question(who, actions, more)))["results"]
        return results

    async def create(self, *acls: Words, **more: object) -> Json:
        """Create these ACLs as the super user."""
        return await self.post("/v1/acls", {"context": ADMIN, "bindings": acls, **more})

    async def delete(self, *filters: Words, **more: object) -> Json:
        """Delete what these filters mean as the super user."""
        return await self.post("/v1/acls/delete", {"context": ADMIN, "filters": filters, **more})

    async def acls(self, **wanted: object) -> list[Json]:
        """Every ACL that the filter means, page by page."""
        page = await self.post("/v1/acls/search", _search(wanted))
        found: list[Json] = page["acls"]
        while page["next_cursor"] is not None:
            page = await self.post("/v1/acls/search", _search(wanted, page["next_cursor"]))
            found += page["acls"]
        return found

    def at_once(self, authorization: str, body: object) -> object:
        """What the server's protocol is answered before it asks the application: the results, or None."""
        content = json.dumps(body).encode()
        headers = {"content-type": "application/json", "content-length": len(content), "authorization": authorization}
        lines = [(name.encode(), str(value).encode()) for name, value in headers.items()]
        reply = self.app.answer(lines, content, ())
        return None if reply is None else json.loads(reply.partition(b"\r\n\r\n")[2] or reply)["results"]

    async def configure(self, name: str, value: str | None) -> None:
        """Change a property in the store and wait until it is in force."""
        from app.core.mutations import AlterConfigs

        self.store.commit([AlterConfigs([(name, value)], "User:test")])
        await self.caught_up()

    async def caught_up(self) -> None:
        """Wait until what stands in the store is in force."""
        from app.core.token import Token

        await self.authorizer.wait_for(str(Token(self.store.epoch, self.store.tables.last_offset)))

    def give_up_soon(self) -> None:
        """Wait shortly from now on for what does not come."""
        for each in (self.authorizer, self.authorizer.updates):
            each._options = replace(each._options, request_timeout_s=0.05)

    def audit_lines(self) -> list[str]:
        """Every audit line so far; nothing is logged after it."""
        self.audit.close()
        return "".join(self.lines).splitlines()


@asynccontextmanager
async def in_process(
    store: FakeStore | None = None,
    *,
    reachable: bool = True,
    enabled: bool = True,
    startup: AuthorizerConfig | None = None,
    around: AppOptions | None = None,
    tokens_file: Path | None = None,
) -> AsyncIterator[InProcess]:
    """The REST application on a store in memory, ready if that can be reached. `enabled`: by authorizer.enabled.

    With `tokens_file` it knows the callers of tests/callers.py by tokens in there; without, anybody may ask anything.
    """
    import httpx

    from app.logs.audit import AuditLog
    from app.metrics.declared import Metrics
    from app.rest.app import AppOptions, create_rest_app
    from app.rest.http.admission import Admission
    from app.runtime.options import RuntimeOptions
    from tests.callers import callers_of
    from tests.fakes import FakeStore
    from tests.past import FakePast
    from tests.world import STARTUP, authorizer_on

    store, metrics, lines = store or FakeStore(), Metrics(), list[str]()
    callers, tokens = callers_of(tokens_file, metrics)
    admission = Admission(metrics)
    around = replace(around or AppOptions(), callers=callers, admission=admission, past=FakePast(store))
    audit = AuditLog(lines.append, metrics, linger_s=0.001)
    audit.start()
    store.unreachable = not reachable
    options = RuntimeOptions(enabled=enabled, request_timeout_s=LIMIT_S, poll_s=0.05, drain_timeout_s=0.2)
    async with authorizer_on(store, options, startup or STARTUP, metrics, ready=reachable) as authorizer:
        app = create_rest_app(authorizer, metrics, audit, around)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield InProcess(app, client, authorizer, store, metrics, audit, lines, admission, callers, tokens)
        audit.close()


def _json_of(answer: httpx.Response, status: int) -> Json:
    assert answer.status_code == status, answer.text
    value: Json = answer.json()
    return value


def _sent(body: object, headers: Mapping[str, str]) -> tuple[bytes | Iterator[bytes] | None, dict[str, str]]:
    content = body if body is None or isinstance(body, bytes | Iterator) else json.dumps(body).encode()
    typed = {} if content is None else {"content-type": "application/json"}
    return content, {**typed, **{name.replace("_", "-"): value for name, value in headers.items()}}


def _question(who: str | Words, actions: Sequence[Words], more: Mapping[str, object]) -> Json:
    return {"context": context(who) if isinstance(who, str) else who, "actions": actions, **more}


def _search(wanted: Mapping[str, object], cursor: str | None = None) -> Json:
    body: Json = {"context": ADMIN, "filter": wanted, "limit": 1000}
    return body if cursor is None else {**body, "cursor": cursor}


class Process:
    """One `klamm serve`, with the verbs of `InProcess`; `lines` keeps what it prints, and `http` asks anything."""

    def __init__(
        self,
        command: Sequence[str],
        settings: Mapping[str, str],
        folder: Path,
        data_dir: Path | None,
        trusted: ssl.SSLContext | None,
    ) -> None:
        plant_password(settings.get("KLAMM_DATABASE_URL", ""))
        self.data_dir, self.lines = data_dir, list[str]()
        self._address: queue.Queue[str] = queue.Queue()
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**without_ours(), **VARIABLES, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.url = self._address.get(timeout=LIMIT_S)
        except queue.Empty:
            self.process.kill()
            raise AssertionError("\n".join(self.lines)) from None
        from tests.asking_again import client_of

        self.http = client_of(self.url, SECRET_HEADERS, trusted)

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

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        # A test that has failed does not wait for a drain, which may be long: its own error is the one to show.
        self.stop(signal.SIGTERM if kind is None else signal.SIGINT)

    def stop(self, sig: int = signal.SIGTERM) -> int:
        """End the process with this signal and wait for it; its exit code comes back."""
        self.http.close()
        if self.data_dir is not None:
            plant_of_folder(self.data_dir)
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            code = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the service did not stop\n" + "\n".join(self.lines)) from None
        self._reader.join(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def ready(self) -> Self:
        """Wait until /readyz says so."""
        wait_until(lambda: self.http.get("/readyz").status_code == 200, "ready")
        return self

    def metric(self, name: str) -> float:
        """The value of one metric that has no labels, such as klamm_image_loads_total."""
        found = re.search(rf"^{name} (\S+)$", self.http.get("/metrics").text, re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def send(self, path: str, body: object = None, method: str = "POST", **headers: str) -> httpx.Response:
        """As in process; chunks of a body may come one by one."""
        content, named = _sent(body, headers)
        return self.http.request(method, path, content=content, headers=named)

    def post(self, path: str, body: object, status: int = 200) -> Json:
        return _json_of(self.http.post(path, json=body), status)

    def authorize(self, who: str | Words, *actions: Words, **more: object) -> list[str]:
        results: list[str] = self.post("/v1/authorize", _question(who, actions, more))["results"]
        return results

    def create(self, *acls: Words, **more: object) -> Json:
        return self.post("/v1/acls", {"context": ADMIN, "bindings": acls, **more})

    def delete(self, *filters: Words, **more: object) -> Json:
        return self.post("/v1/acls/delete", {"context": ADMIN, "filters": filters, **more})

    def acls(self, **wanted: object) -> list[Json]:
        page = self.post("/v1/acls/search", _search(wanted))
        found: list[Json] = page["acls"]
        while page["next_cursor"] is not None:
            page = self.post("/v1/acls/search", _search(wanted, page["next_cursor"]))
            found += page["acls"]
        return found


def over_socket(
    *arguments: str,
    settings: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    initialises: bool = False,
    program: Sequence[str] = KLAMM,
    trusted: ssl.SSLContext | None = None,
) -> Process:
    """A process of `klamm serve` that listens on a free port; `.ready()` waits until it has loaded.

    `settings` are environment variables; `trusted` tells whom a client believes, if it serves TLS. A data folder that
    is not there yet is a copy of an initialised one, unless `initialises`.
    """
    from tests.postgres import new_folder

    data_dir = folder / arguments[arguments.index("--data-dir") + 1] if "--data-dir" in arguments else None
    if data_dir is not None and not initialises:
        new_folder(data_dir)
    return Process([*program, "serve", "--port", "0", *arguments], settings or {}, folder, data_dir, trusted)


def replica(source: str, **settings: str) -> Process:
    """The same on the PostgreSQL of this DSN, or as a follower of the service at this http(s) address."""
    name = "KLAMM_UPSTREAM_URLS" if source.startswith("http") else "KLAMM_DATABASE_URL"
    return over_socket(settings={name: source, **settings})


def postgres(folder: Path) -> Postgres:
    """A server of a test's own, to stop it or to break it; all others use the session's, the fixture `postgres`."""
    from tests.postgres import Postgres

    return Postgres(folder)
