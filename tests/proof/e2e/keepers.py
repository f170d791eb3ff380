"""Writers who know what must be stored: each has a few ACLs of its own, and takes the store at its word."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from tests.klamm import LIMIT_S, Json, acl, context
from tests.proof.e2e.crowd import Crowd
from tests.proof.e2e.history import History, offset_of


@dataclass
class Key:
    """One ACL, by the name of its resource; `present` is None while the outcome of the last update is unknown."""

    name: str
    present: bool | None = False
    acl_id: str | None = None
    ask_at: str | None = None
    """The replica that may still be about that update; as it does one after the other, its next answer settles it."""


@dataclass(frozen=True)
class Update:
    """One call: a key, created or deleted, at this replica."""

    http: httpx.Client
    replica: str
    key: Key
    create: bool
    timeout_ms: int | None

    @property
    def url(self) -> str:
        return f"{self.replica}/v1/acls" if self.create else f"{self.replica}/v1/acls/delete"

    @property
    def body(self) -> Json:
        name = self.key.name
        change: Json = {"bindings": [acl(name)]} if self.create else {"filters": [{"resource_name": name}]}
        return {"context": context(), "timeout_ms": self.timeout_ms, **change}


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

    def work(self, crowd: Crowd, urls: Sequence[str]) -> None:
        """Update one key after the other until the crowd is stopped, each at any of the replicas that there are now."""
        draw = random.Random(self.name)
        with httpx.Client(timeout=LIMIT_S) as http:
            while crowd.going:
                key = draw.choice(self.keys)
                url = draw.choice(urls)
                if key.ask_at is not None and key.ask_at in urls:
                    url = key.ask_at
                # An impatient one every now and then, to be refused while it stands in line.
                timeout_ms = draw.choice([None, None, 5, 20])
                self.update(Update(http, url, key, draw.random() < 0.5, timeout_ms))

    def update(self, update: Update) -> None:
        """One update, and what the answer lets know of the key."""
        key = update.key
        try:
            reply = update.http.post(update.url, json=update.body)
        except httpx.ConnectError:
            self.outcomes["not reached"] += 1
            return
        except httpx.TransportError:
            self._learn(key, "broken off", present=None)
            return
        answer: Json = reply.json()
        outcome = str(answer.get("code", reply.status_code))
        if reply.status_code == 504:
            self._learn(key, outcome, present=None)
            key.ask_at = update.replica
        elif reply.status_code == 503:
            # The promise: it was not written, so all that was known of the key is still true.
            assert outcome in {"STORE_UNAVAILABLE", "AUTHORIZER_NOT_READY"}, reply.text
            self.outcomes[outcome] += 1
        else:
            assert reply.status_code == 200, reply.text
            self._acknowledged(key, answer, create=update.create)
            self._learn(key, outcome, present=update.create)

    def _learn(self, key: Key, outcome: str, *, present: bool | None) -> None:
        self.outcomes[outcome] += 1
        key.present = present
        key.ask_at = None

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

    def check(self, history: History) -> None:
        """What was acknowledged is what is stored; what was refused changed nothing."""
        assert self.outcomes["200"] > 0
        assert self.offsets == sorted(self.offsets), "a later update got an earlier offset"
        for key in self.keys:
            if key.present is not None:
                assert history.holds(key.name, history.last_offset) is key.present, key
