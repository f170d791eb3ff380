"""Clients that write and ask at any of the members, and note what they are told."""

import random
import threading
from collections import deque
from collections.abc import Sequence
from typing import Self
from uuid import UUID

import httpx

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.filters import AclBindingFilter
from app.core.token import Token
from tests.history.observed import Call, Creation, Decision, Deletion, Refusal
from tests.klamm import Json, acl, action, context
from tests.proof.history.members import Member, now

ALICE, HOST = "User:alice", "127.0.0.1"
_BULKS = (100, 1_000, 10_000)
_SINGLE_MS, _BULK_MS = 5_000, 15_000
_TIMEOUT_S = 30.0
_MAX_LIVE = 20
_KNOWN_NAMES = 200
_NOT_WRITTEN = {
    httpx.codes.SERVICE_UNAVAILABLE,
    httpx.codes.TOO_MANY_REQUESTS,
    httpx.codes.CONFLICT,
}


class Names:
    """The names that were written about last, for those who ask; and how many changes there were."""

    def __init__(self) -> None:
        self.changes = 0
        self._recent: deque[str] = deque(["never-written"], _KNOWN_NAMES)
        self._tokens: deque[str] = deque(maxlen=10)
        self._lock = threading.Lock()

    def changed(self, count: int, token: str, names: Sequence[str] = ()) -> None:
        with self._lock:
            self.changes += count
            self._recent.extend(names)
            self._tokens.append(token)

    def some(self, draw: random.Random) -> list[str]:
        with self._lock:
            return draw.choices(self._recent, k=draw.randint(1, 10))

    def a_token(self, draw: random.Random) -> str | None:
        """Of an update that was acknowledged a moment ago, now and then."""
        with self._lock:
            return draw.choice(self._tokens) if self._tokens and draw.random() < 0.1 else None


class Client:
    """One thread's client; `calls` is what it was told, `outcomes` its statuses."""

    def __init__(self, name: str, members: Sequence[Member], names: Names) -> None:
        self.name = name
        self.calls: list[Call] = []
        self.members = members
        self.names = names
        self.draw = random.Random(name)
        self._http = httpx.Client(timeout=_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def post(self, path: str, body: Json) -> tuple[httpx.Response | None, Json, bool]:
        """The reply at any member, who and when (for a Call), and whether it can have been written without a reply."""
        member = self.draw.choice(self.members)
        replica, began = member.replica, now()
        reply, may_be_written = None, True
        try:
            reply = self._http.post(f"{member.url}{path}", json=body)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            may_be_written = False
        except httpx.TransportError:
            pass
        if member.replica != replica:
            replica = f"{self.name} can't tell which life, {began}"
        return reply, {"replica": replica, "began": began, "ended": now()}, may_be_written


class Asker(Client):
    def step(self) -> None:
        names = self.names.some(self.draw)
        body: Json = {"context": context(ALICE, HOST), "actions": [action(name) for name in names]}
        at_least = self.names.a_token(self.draw)
        if at_least is not None:
            body["at_least"] = at_least
        reply, when, _ = self.post("/v1/authorize", body)
        if reply is None or reply.status_code in (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.TOO_MANY_REQUESTS):
            return
        assert reply.status_code == httpx.codes.OK, reply.text
        told = reply.json()
        self.calls.append(
            Decision(
                **when,
                token=Token.parse(told["token"]),
                principal=ALICE,
                host=HOST,
                questions=tuple((AclOperation.READ, ResourceType.TOPIC, name) for name in names),
                allowed=tuple(result == "ALLOWED" for result in told["results"]),
                at_least=None if at_least is None else Token.parse(at_least),
            )
        )


class Writer(Client):
    """Creates ACLs and removes them again: one by one, or thousands at once under a principal of their own.

    A removal of unknown outcome is asked for again: what is left over would make each load longer.
    """

    def __init__(self, name: str, members: Sequence[Member], names: Names, *, bulk: bool) -> None:
        super().__init__(name, members, names)
        self._bulk = bulk
        self._number = 0
        self._live: deque[list[AclBinding]] = deque()

    def step(self) -> None:
        if len(self._live) < (2 if self._bulk else _MAX_LIVE) or self.draw.random() < 0.5:
            self._create()
        if len(self._live) > 1 and self.draw.random() < 0.6:
            self._remove()

    def _create(self) -> None:
        self._number += 1
        label = f"{self.name}-{self._number}"
        if self._bulk:
            bindings = [_acl(f"{label}-{each}", f"User:{label}") for each in range(self.draw.choice(_BULKS))]
        else:
            bindings = [_acl(label, ALICE)]
        wanted = [acl(each.resource_name, each.principal) for each in bindings]
        reply, when, may_be_written = self._update("/v1/acls", bindings=wanted)
        if _is_refused(reply, may_be_written=may_be_written):
            self.calls.append(Refusal(**when, bindings=tuple(bindings)))
            return
        self._live.append(bindings)
        told = _told(reply)
        if told is None:
            self.calls.append(Creation(**when, bindings=tuple(bindings)))
            return
        made = tuple((UUID(each["id"]), bool(each["created"])) for each in told["results"])
        self.calls.append(Creation(**when, bindings=tuple(bindings), token=Token.parse(told["token"]), acls=made))
        self.names.changed(len(made), told["token"], [] if self._bulk else [label])

    def _remove(self) -> None:
        bindings = self._live.popleft()
        principal, name = bindings[0].principal, None if self._bulk else bindings[0].resource_name
        wanted = AclBindingFilter(principal=principal, resource_name=name)
        fields: Json = {"principal": principal} if name is None else {"principal": principal, "resource_name": name}
        reply, when, may_be_written = self._update("/v1/acls/delete", filters=[fields])
        if _is_refused(reply, may_be_written=may_be_written):
            self._live.append(bindings)
            return
        told = _told(reply)
        if told is None:
            self.calls.append(Deletion(**when, acl_filter=wanted))
            self._live.append(bindings)
            return
        gone = tuple(UUID(each["id"]) for result in told["results"] for each in result["matches"])
        self.calls.append(Deletion(**when, acl_filter=wanted, token=Token.parse(told["token"]), ids=gone))
        self.names.changed(len(gone), told["token"])

    def _update(self, path: str, **entries: list[Json]) -> tuple[httpx.Response | None, Json, bool]:
        return self.post(path, {"context": context(), "timeout_ms": _BULK_MS if self._bulk else _SINGLE_MS, **entries})


def _acl(name: str, principal: str) -> AclBinding:
    pattern = ResourceType.TOPIC, name, PatternType.LITERAL
    return AclBinding(*pattern, principal, "*", AclOperation.READ, AclPermissionType.ALLOW)


def _is_refused(reply: httpx.Response | None, *, may_be_written: bool) -> bool:
    return not may_be_written if reply is None else reply.status_code in _NOT_WRITTEN


def _told(reply: httpx.Response | None) -> Json | None:
    """What a 200 says; None while the outcome is unknown."""
    if reply is None or reply.status_code == httpx.codes.GATEWAY_TIMEOUT:
        return None
    assert reply.status_code == httpx.codes.OK, reply.text
    told: Json = reply.json()
    assert all(each["error_code"] == 0 for each in told["results"]), reply.text
    return told
