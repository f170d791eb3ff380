"""Writers who know what must be stored: each owns a few ACLs, creates and deletes them, and holds the store to its word."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from tests.e2e.crowd import Crowd
from tests.e2e.history import offset_of
from tests.e2e.service import PATIENCE_S, Json, binding, context


@dataclass
class Key:
    """One ACL, by the name of its resource; `present` is None while the outcome of the last update is unknown."""

    name: str
    present: bool | None = False
    acl_id: str | None = None


@dataclass
class Keeper:
    """One thread's writer. AssertionError as soon as an answer contradicts what was acknowledged before."""

    name: str
    keys: list[Key] = field(init=False)
    outcomes: Counter[str] = field(default_factory=Counter)
    offsets: list[int] = field(default_factory=list)
    """Of the acknowledged updates."""

    def __post_init__(self) -> None:
        self.keys = [Key(f"{self.name}-{each}") for each in range(4)]

    def work(self, crowd: Crowd, urls: Sequence[str], pause_s: float = 0.0) -> None:
        """Update one key after the other, each time at any of the replicas, until the crowd is stopped."""
        draw = random.Random(self.name)  # noqa: S311 - a test's dice
        clients = [httpx.Client(base_url=url, timeout=PATIENCE_S) for url in urls]
        try:
            while crowd.going:
                # An impatient one every now and then, to be refused while it stands in line.
                timeout_ms = draw.choice([None, None, 5, 20])
                self.update(draw.choice(clients), draw.choice(self.keys), draw.random() < 0.5, timeout_ms)
                crowd.pause(pause_s)
        finally:
            for client in clients:
                client.close()

    def update(self, http: httpx.Client, key: Key, create: bool, timeout_ms: int | None) -> None:  # noqa: FBT001 - drawn
        """One update, and what the answer lets know of the key."""
        change: Json = {"bindings": [binding(key.name)]} if create else {"filters": [{"resource_name": key.name}]}
        body = {"context": context(), "timeout_ms": timeout_ms, **change}
        try:
            reply = http.post("/v1/acls" if create else "/v1/acls/delete", json=body)
        except httpx.ConnectError:
            self.outcomes["not reached"] += 1
            return
        except httpx.TransportError:
            self._learn(key, "broken off", None)
            return
        answer: Json = reply.json()
        outcome = str(answer.get("code", reply.status_code))
        if reply.status_code == 504:
            self._learn(key, outcome, None)
        elif reply.status_code == 503:
            # The promise: it was not written, so all that was known of the key is still true.
            assert outcome in {"STORE_UNAVAILABLE", "AUTHORIZER_NOT_READY"}, reply.text
            self.outcomes[outcome] += 1
        else:
            assert reply.status_code == 200, reply.text
            self._acknowledged(key, answer, create=create)
            self._learn(key, outcome, create)

    def _learn(self, key: Key, outcome: str, present: bool | None) -> None:
        self.outcomes[outcome] += 1
        key.present = present

    def _acknowledged(self, key: Key, answer: Json, *, create: bool) -> None:
        (result,) = answer["results"]
        assert result["error_code"] == 0, result
        self.offsets.append(offset_of(answer["token"]))
        if create:
            assert key.present is None or result["created"] is not key.present, (key, result)
            if key.present:
                assert result["id"] == key.acl_id, (key, result)
            key.acl_id = result["id"]
            return
        found = [match["id"] for match in result["matches"]]
        assert key.present is None or found == ([key.acl_id] if key.present else []), (key, result)
