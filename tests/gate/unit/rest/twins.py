"""Two connections to the same authorizer, one that answers authorize at once and one that never does.

Whatever they are sent, nobody may be able to tell them apart: by what they write, count, log, remember or close.
"""

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from app.logs.audit import AuditLog
from app.logs.decision_files import DecisionFiles, FileBounds
from app.logs.decision_log import DecisionLog
from app.metrics.declared import Metrics
from app.rest.app import AppOptions, RestApp, create_rest_app
from app.rest.callers.authentication import Callers, Credentials
from app.rest.callers.rate_limits import RateLimit
from app.rest.callers.roles import Caller
from app.rest.callers.static_tokens import StaticTokens
from app.rest.callers.token_file import add_token
from app.rest.http import correlation
from app.rest.http.admission import Admission
from app.rest.http.connections import Connections
from app.rest.http.heads import Headers
from app.rest.http.protocol import KlammProtocol
from app.runtime.authorizer import Authorizer
from tests.callers import CALLERS
from tests.klamm import InProcess
from tests.wires import Wire

QUOTA = 40
"""Requests that the caller `limited` has."""
BROKER: dict[str, object] = {"notAfter": "Jan  1 00:00:00 2099 GMT", "subjectAltName": (("DNS", "broker"),)}
"""A certificate as ssl tells of it; `DNS:broker` is the caller `certified`."""

_MORE_CALLERS = {name: replace(CALLERS["anyone"], name=name) for name in ("limited", "certified")}
_GENERATED_ID = re.compile(rb"%b-[0-9a-f]+" % correlation._PREFIX.encode())
_SOON = 200


class Twin:
    """One replica's REST side on a wire: its own metrics, logs and quotas, on an authorizer that it shares."""

    def __init__(self, authorizer: Authorizer, folder: Path, tokens: Path | None, *, at_once: bool) -> None:
        self.at_once = at_once
        self.answered = 0
        """At once."""
        self.metrics, self.lines = Metrics(), list[str]()
        self.shared = Connections(self.metrics)
        self.audit = AuditLog(self.lines.append, self.metrics, form="JSON", linger_s=0.001)
        self.folder = folder / f"decisions-{at_once}"
        self.folder.mkdir()
        files = FileBounds(folder=self.folder, rotate_bytes=1 << 30, rotate_s=3_600, retention_bytes=1 << 30)
        self.decisions = DecisionLog(DecisionFiles(files, self.metrics), self.metrics, linger_s=0.001)
        callers = Callers(None if tokens is None else _credentials(tokens, self.metrics), self.metrics)
        admission = Admission(self.metrics, self.shared.is_late)
        around = AppOptions(callers=callers, admission=admission, decision_log=self.decisions)
        self.app: RestApp = create_rest_app(authorizer, self.metrics, self.audit, around)
        self.before: Callable[[], None] = lambda: None
        """What happens in the turn before a segment is read."""
        self.wire = Wire()
        self.connection: KlammProtocol | None = None

    def _answer(self, headers: Headers, body: bytes, names: Sequence[str]) -> bytes | None:
        if not self.at_once:
            return None
        reply = self.app.answer(headers, body, names)
        self.answered += reply is not None
        return reply

    def connect(self, peercert: dict[str, object] | None) -> None:
        """Begin a connection, after the end of the one before."""
        self.disconnect()
        config = Config(self.app, http="httptools", ws="none", log_config=None, access_log=False, timeout_keep_alive=75)
        config.load()
        state = ServerState()
        state.default_headers = [(b"date", b"now")]
        self.wire = Wire()
        self.wire.peercert = peercert
        loop = asyncio.get_running_loop()
        self.connection = KlammProtocol(config, state, {}, loop, answer=self._answer, shared=self.shared)
        self.connection.connection_made(self.wire)

    def disconnect(self) -> None:
        """End the connection."""
        if self.connection is not None:
            self.connection.connection_lost(None)
            self.connection = None

    async def say(self, segment: bytes) -> tuple[object, ...]:
        """What can be seen once all that can be answered of this is answered."""
        connection = self.connection
        assert connection is not None
        self.before()
        if not self.wire.closed:
            connection.data_received(segment)
        for turn in range(100_000):
            # What is long is read in a thread.
            await asyncio.sleep(0 if turn < _SOON else 0.001)
            if turn > 1 and (self.wire.closed or not connection.has_work() or _waits_for_body(connection)):
                break
        for _ in range(10):
            await asyncio.sleep(0)
        written, self.wire.written = _GENERATED_ID.sub(b"ID", self.wire.written), b""
        keeps = (connection.known, connection.timeout_keep_alive, connection.phase)
        return written, self.wire.closed, keeps, self.counts()

    def counts(self) -> tuple[object, ...]:
        """Everything that is counted."""
        counted = self.metrics
        timed = {name: sum(each.counts) for name, each in counted.http_request_duration_seconds.items()}
        pools = {name: tuple(each) for name, each in counted.admission_requests.items()}
        return (
            tuple(counted.decisions),
            {name: tuple(each) for name, each in counted.http_requests.items()},
            timed,
            pools,
            dict(counted.admission_refused),
            dict(counted.callers_refused),
            counted.requests_shed,
        )

    def close(self) -> None:
        """End it all; what was logged can be read then."""
        self.disconnect()
        self.audit.close()
        self.decisions.close(60)

    def logged(self) -> tuple[list[object], list[object]]:
        """Lines of the audit log and of the decision log, but for when they were written and ids made up here."""
        decided = "".join(each.read_text() for each in sorted(self.folder.glob("decisions-*.jsonl")))
        return _untimed("".join(self.lines)), _untimed(decided)


def _waits_for_body(connection: KlammProtocol) -> bool:
    cycle = connection.cycle
    return not connection.pipeline and cycle.more_body and bool(cycle.message_event._waiters)


def _untimed(lines: str) -> list[object]:
    own = correlation._PREFIX
    read: list[dict[str, Any]] = [json.loads(line) for line in lines.splitlines()]
    return [
        {name: "own" if str(value).startswith(own) else value for name, value in each.items() if name != "time"}
        for each in read
    ]


def _credentials(tokens: Path, metrics: Metrics) -> Credentials:
    callers = {**CALLERS, **_MORE_CALLERS}
    limit = RateLimit(QUOTA + 1)
    limit.take(math.inf)  # so its window never ends
    callers["limited"] = replace(callers["limited"], limit=limit)
    return Credentials(
        callers=callers,
        tokens=StaticTokens(tokens, callers, metrics),
        certificates={"DNS:broker": callers["certified"]},
    )


class Twins:
    """Both."""

    def __init__(self, fast: Twin, slow: Twin, tokens: dict[str, str]) -> None:
        self.fast, self.slow, self.tokens = fast, slow, tokens

    def connect(self, peercert: dict[str, object] | None = None) -> None:
        """Begin a connection each."""
        self.fast.connect(peercert)
        self.slow.connect(peercert)

    async def say(self, *segments: bytes) -> bytes:
        """Send this to both, and see that they do the same; returns what they have written."""
        written = b""
        for segment in segments:
            fast, slow = await self.fast.say(segment), await self.slow.say(segment)
            assert fast == slow, segment
            written += self.last(fast)
        return written

    @staticmethod
    def last(seen: tuple[object, ...]) -> bytes:
        """What was written."""
        assert isinstance(seen[0], bytes)
        return seen[0]

    @property
    def is_closed(self) -> bool:
        """Whether both have hung up."""
        return self.fast.wire.closed

    def end(self) -> tuple[int, int]:
        """End both, and see that they have logged the same; so many lines of audit log and decision log."""
        for each in (self.fast, self.slow):
            each.close()
        assert self.slow.answered == 0
        audited, decided = self.fast.logged()
        assert (audited, decided) == self.slow.logged()
        return len(audited), len(decided)


@asynccontextmanager
async def twins(service: InProcess, folder: Path, *, guarded: bool = False) -> AsyncIterator[Twins]:
    """Two connections to the authorizer of this service; `guarded`: callers have tokens."""
    path, tokens = None, dict[str, str]()
    if guarded:
        path = folder / "tokens"
        callers: dict[str, Caller] = {**CALLERS, **_MORE_CALLERS}
        tokens = {name: add_token(path, name, callers) for name in callers}
    fast, slow = (Twin(service.authorizer, folder, path, at_once=at_once) for at_once in (True, False))
    for each in (fast, slow):
        each.audit.start()
        each.decisions.start()
    try:
        yield Twins(fast, slow, tokens)
    finally:
        for each in (fast, slow):
            each.close()
