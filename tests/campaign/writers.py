"""Who changes ACLs all the time, and who shows services positions that were never given out."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import uuid4

import httpx

from app.core.epochs import next_epoch
from tests.campaign.journal import Journal
from tests.campaign.ledger import Ledger, Operation
from tests.campaign.nodes import ServiceNode
from tests.klamm import Json, acl, context

_EVERY_S = 0.25
_WRITE_MS = 3_000
_SHOWN_EVERY_S = 0.3
_HIGHEST = 1 << 62


class Writer:
    """Creates and deletes ACLs, each by one call to one of these services; in one thread, at most four a second."""

    def __init__(self, ledger: Ledger, journal: Journal, entrances: list[ServiceNode], seed: int) -> None:
        self._ledger, self._journal, self._entrances = ledger, journal, entrances
        self._draw = random.Random(seed)
        self._turn = threading.Lock()
        self._stopped = threading.Event()
        self._clients: dict[str, httpx.Client] = {}
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(30)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is changed as long as the block lasts."""
        with self._turn:
            yield

    def mark(self, within_s: float = 10.0) -> Operation | None:
        """Creates a name that is not deleted before it is let go; None if no service takes it in time."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            for node in self._entrances[:2]:
                made = self._create(node, "mark") if node.is_up and not node.is_frozen else None
                if made is not None:
                    return made
            time.sleep(0.2)
        return None

    def create_at(self, node: ServiceNode, count: int) -> int:
        """So many ACLs at this service; the number of those that were acknowledged."""
        return sum(self._create(node, "t") is not None for _ in range(count))

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY_S):
            with self._turn:
                node = self._draw.choice(self._entrances)
                if node.is_up:
                    self._change(node)

    def _change(self, node: ServiceNode) -> None:
        name = self._ledger.name_to_delete()
        if name is None:
            self._create(node, "t")
            return
        self._ledger.deleting(name)
        wanted = {"context": context(), "filters": [{"resource_name": name}], "timeout_ms": _WRITE_MS}
        answer = self._post(node, "/v1/acls/delete", wanted)
        if answer is None:
            self._ledger.doubtful(name)
            return
        self._journal.checked("deletions acknowledged")
        if len(answer["results"][0]["matches"]) != 1:
            self._journal.violation("an acknowledged ACL is kept", node.name, f"{name} was not there: {answer}")
        self._ledger.acknowledged(name, answer["token"], present=False)

    def _create(self, node: ServiceNode, prefix: str) -> Operation | None:
        name = self._ledger.creating(prefix)
        answer = self._post(node, "/v1/acls", {"context": context(), "bindings": [acl(name)], "timeout_ms": _WRITE_MS})
        if answer is None or not answer["results"][0].get("created"):
            self._ledger.doubtful(name)
            return None
        self._journal.checked("creations acknowledged")
        return self._ledger.acknowledged(name, answer["token"], present=True)

    def _post(self, node: ServiceNode, path: str, body: Json) -> Json | None:
        client = self._clients.setdefault(f"{node.name} {threading.get_ident()}", node.client())
        try:
            reply = client.post(path, json=body)
        except httpx.HTTPError:
            return None
        answer: Json = reply.json() if reply.is_success else {}
        return answer or None


class Forger:
    """A `follow` caller that shows positions in a loop, as long as the block lasts."""

    def __init__(self, journal: Journal, nodes: list[ServiceNode], seed: int) -> None:
        self._journal, self._nodes = journal, nodes
        self._draw = random.Random(seed)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forger", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stopped.wait(_SHOWN_EVERY_S):
            node = self._draw.choice(self._nodes)
            with suppress(httpx.HTTPError, ValueError, KeyError), node.client() as client:
                context_ = {"context": context(), "actions": []}
                token = client.post("/v1/authorize", json=context_).json().get("token", "")
                self._show(client, self._forged(token))

    def _forged(self, token: str) -> str:
        epoch, _, offset = token.partition(":")
        now = datetime.fromtimestamp(time.time(), UTC)
        ahead = self._draw.choice([timedelta(), timedelta(minutes=30), timedelta(hours=12), timedelta(days=300_000)])
        later = next_epoch(now + ahead, [], uuid4())
        return self._draw.choice(
            [f"{epoch}:{_HIGHEST}", f"{epoch}:{int(offset or 0) + 1_000}", f"{later}:5", f"{uuid4()}:7"]
        )

    def _show(self, client: httpx.Client, token: str) -> None:
        with client.stream("GET", "/v1/watch", params={"after": token}, headers={"klamm-epochs": "1"}):
            self._journal.checked("forged positions shown")
