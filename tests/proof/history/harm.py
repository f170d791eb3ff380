"""What befalls the members of a story: kills of each, the postmaster's, cut connections, a store that is put back."""

import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.klamm import acl, action, context, wait_until
from tests.postgres import Postgres
from tests.proof.e2e.clusters import copy
from tests.proof.e2e.outside import Outside
from tests.proof.history.members import Member
from tests.proxy import Proxy

_log = logging.getLogger(__name__)

_BACK_S = 120.0


@dataclass(frozen=True)
class Scene:
    """The store's server, the services on it and their followers, and the ways between follower and upstream."""

    server: Postgres
    dsn: str
    members: Sequence[Member]
    ways: Sequence[Proxy]


class Harm:
    """Does one thing after the other, each as often as the others, and counts them."""

    def __init__(self, scene: Scene, counts: Counter[str]) -> None:
        self._scene = scene
        self._counts = counts
        self._draw = random.Random(1)
        self._deeds: list[tuple[str, Callable[[], None]]] = [
            ("kills of the postmaster", self._kill_postmaster),
            ("cut streams", self._cut_streams),
            ("cut connections to the store", self._cut_database),
        ]
        self._deeds += [(f"kills of {each.name}", partial(self._kill, each)) for each in scene.members]

    def do(self, every_s: float) -> None:
        time.sleep(every_s * self._draw.uniform(0.5, 1.5))
        what, deed = self._draw.choice(self._deeds)
        deed()
        self._counts[what] += 1

    def _kill(self, member: Member) -> None:
        member.kill()
        time.sleep(self._draw.uniform(0, 1))
        member.start()

    def _kill_postmaster(self) -> None:
        for process in self._scene.server.processes():
            os.kill(process, signal.SIGKILL)
        self._scene.server.stop()
        self._scene.server.start()

    def _cut_streams(self) -> None:
        self._draw.choice(self._scene.ways).cut()

    def _cut_database(self) -> None:
        with Outside(self._scene.dsn) as outside:
            outside.kill_any()


def put_back(scene: Scene) -> None:
    """The store's folder is restored under running services: all go on in another epoch, and none answers of both."""
    first = scene.members[0].service
    first.create(acl("kept"))
    cluster, backup = (scene.server.folder / name for name in ("postgres", "backup"))
    scene.server.stop()
    copy(cluster, backup)
    scene.server.start()
    lost: list[str] = []
    wait_until(lambda: _created(scene.members[-1], "lost", lost), "an update behind the backup", _BACK_S)
    for member in scene.members:
        wait_until(partial(_knows, member, lost[0]), f"{member.name} has the lost update", _BACK_S)
    scene.server.stop()
    cluster.rename(scene.server.folder / "lost")
    backup.rename(cluster)
    scene.server.start()
    for member in scene.members:
        _restored(member, lost[0])


def _created(member: Member, name: str, tokens: list[str]) -> bool:
    reply = member.service.http.post("/v1/acls", json={"context": context(), "bindings": [acl(name)]})
    tokens.extend([reply.json()["token"]] if reply.is_success else [])
    return reply.is_success


def _knows(member: Member, lost: str) -> bool:
    body = {"context": context("User:alice"), "actions": [action("lost")], "at_least": lost}
    results: list[str] = member.service.http.post("/v1/authorize", json=body).json().get("results", [])
    return results == ["ALLOWED"]


def _restored(member: Member, lost: str) -> None:
    asked = {"context": context("User:alice"), "actions": [action("kept"), action("lost")]}

    def is_restored() -> bool:
        results = member.service.post("/v1/authorize", asked)["results"]
        assert results[0] == "ALLOWED"
        return bool(results[1] == "DENIED")

    wait_until(is_restored, f"{member.name} has the state of the backup", _BACK_S)
    # A follower asks nobody about the token of a caller: it waits for it in vain.
    lost_to_it = "OFFSET_NOT_AVAILABLE" if member.follows else "TOKEN_EPOCH_MISMATCH"
    refused = member.service.http.post("/v1/authorize", json={**asked, "at_least": lost})
    assert refused.json().get("code") == lost_to_it, refused.text
