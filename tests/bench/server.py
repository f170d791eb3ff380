"""The process under measurement: `python -m tests.bench.server PORT SIZE`, a replica as `klamm serve` runs it.

Only its ACLs are a workload's instead of PostgreSQL's. With a third argument, a token, only its bearer may ask; with a
certificate and its key behind that, it speaks TLS. With `--decision-log` in their place, every decision is logged.
"""

import asyncio
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

from app.cli.main import Replica
from app.cli.server import ServerOptions, serve
from app.core.continuity import FeedPosition, KnownHistory
from app.core.epochs import Epochs, Standing
from app.core.kafka.bindings import AclRow, AclSlice
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.errors import StoreUnavailableException
from app.core.mutations import GroupOutcome, Mutation
from app.core.records import GENESIS_HASH, FeedHead, FeedPoll
from app.core.token import Token
from app.logs.audit import AuditLog
from app.logs.decision_files import DecisionFiles, FileBounds
from app.logs.decision_log import DecisionLog
from app.metrics.declared import Metrics
from app.process.sockets import listening
from app.rest.app import AppOptions, create_rest_app
from app.rest.callers.authentication import Callers, Credentials
from app.rest.callers.roles import Caller, Role
from app.rest.callers.static_tokens import StaticTokens
from app.rest.callers.token_file import hash_of
from app.rest.http.admission import Admission
from app.rest.http.connections import Connections
from app.runtime.authorizer import Authorizer
from tests.bench.workload import realistic, rows_in_slices

DECISION_LOG = "--decision-log"

_FOLDER = tempfile.TemporaryDirectory()
_HEAD = FeedHead("bench", UUID(int=1), 0, GENESIS_HASH, 1)


class StillFeed:
    """A store in which nothing happens."""

    def __init__(self, rows: list[AclRow]) -> None:
        self.head = _HEAD
        self.configs: Mapping[str, str] = {}
        self.chain: Sequence[str] = ()
        self._rows = rows

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator["StillFeed"]:
        yield self
        self._rows = []

    async def slices(self) -> AsyncIterator[AclSlice]:
        for rows in rows_in_slices(self._rows):
            yield AclSlice(rows, {}, 0)

    def rewind(self, _applied_offset: int) -> None:
        pass

    def resume(self, _position: FeedPosition, _epochs: Epochs | None, _age_s: float) -> bool:
        return False

    async def poll(self, _applied_offset: int, _limit: int) -> FeedPoll:
        return FeedPoll(_HEAD, GENESIS_HASH, ())

    async def history(self, _offset: int, _limit: int) -> FeedPoll:
        return FeedPoll(_HEAD, GENESIS_HASH, ())

    async def wait(self, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)

    async def write(self, _mutations: Iterable[Mutation], _known: KnownHistory) -> GroupOutcome:
        raise StoreUnavailableException("the bench does not write")

    async def begin_epoch_if_lost(self, _lost: FeedPosition) -> None:
        pass

    async def standing_of(self, _position: Token, _asked_by: Sequence[str] = ()) -> Standing:
        return Standing.PART

    async def close(self) -> None:
        pass


def replica(size: int, token: str | None = None, *, decisions_logged: bool = False) -> Replica:
    """A replica with so many ACLs, with audit at its default level and metrics on."""
    feed = StillFeed(realistic(size).rows)
    metrics = Metrics()
    nowhere = Path("/dev/null").open("w", encoding="utf-8")  # noqa: SIM115 - open as long as the process

    def write(lines: str) -> None:
        nowhere.write(lines)
        nowhere.flush()

    audit = AuditLog(write, metrics)
    authorizer = Authorizer(feed, feed, AuthorizerConfig(), metrics=metrics)
    callers = Callers(None if token is None else _bearer_of(token, metrics), metrics)
    connections = Connections(metrics)
    decision_log = _decision_log(metrics) if decisions_logged else None
    admission = Admission(metrics, connections.is_late)
    surroundings = AppOptions(callers=callers, admission=admission, decision_log=decision_log)
    return Replica(
        rest=create_rest_app(authorizer, metrics, audit, surroundings),
        authorizer=authorizer,
        audit=audit,
        callers=callers,
        connections=connections,
        decision_log=decision_log,
    )


def _decision_log(metrics: Metrics) -> DecisionLog:
    """As it is by default, on the disk of temporary files, of which it keeps little."""
    mib = 1024 * 1024
    bounds = FileBounds(folder=Path(_FOLDER.name), rotate_bytes=64 * mib, rotate_s=60, retention_bytes=128 * mib)
    return DecisionLog(DecisionFiles(bounds, metrics), metrics)


def _bearer_of(token: str, metrics: Metrics) -> Credentials:
    callers = {"bench": Caller("bench", Role.DECIDE, patterns=("User:*",))}
    # There as long as the process.
    path = Path(_FOLDER.name, "tokens")
    path.write_text(f"bench sha256:{hash_of(token.encode()).hex()}\n")
    return Credentials(callers=callers, tokens=StaticTokens(path, callers, metrics))


def main() -> None:
    """Serve until SIGTERM."""
    size, *more = sys.argv[2:]
    token, certified = (more[0] if more else None), more[1:]
    is_logged = token == DECISION_LOG
    app = replica(int(size), None if is_logged else token, decisions_logged=is_logged)
    options = ServerOptions(
        answer=app.rest.answer,
        prepared=app.rest.prepared,
        connections=app.connections,
        tls=partial(_tls, *certified) if certified else None,
    )
    with listening("127.0.0.1", int(sys.argv[1])) as listener:
        serve(app, listener, options)


def _tls(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


if __name__ == "__main__":
    main()
