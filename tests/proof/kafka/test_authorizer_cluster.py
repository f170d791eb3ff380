"""Three brokers and a controller under Klamm's authorizer: changes, outages, kills, torn files, and an older store.

One story, told once; each test looks at a part of it. `pytest -s` shows how long changes took to hold everywhere.
"""

import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.klamm import SUPER_USER, Json, Process, acl, wait_until
from tests.proof.kafka.acls_tool import AclsTool
from tests.proof.kafka.authorizer import Authorizer
from tests.proof.kafka.broker import free_ports, new_cluster_id
from tests.proof.kafka.cluster import BROKERS, CONTROLLER, Cluster
from tests.proof.kafka.scene import Scene
from tests.proof.kafka.test_authorizer_replica import copy_folder
from tests.proof.kafka.wire import ALLOWED, REFUSED, Wire

_ROUNDS = 50
_NAMES = tuple(f"topic-{number}" for number in range(60))
_KILLS = 4
_OUTAGE_S = int(os.environ.get("KLAMM_TEST_OUTAGE_S", "0"))
"""`KLAMM_TEST_OUTAGE_S=600` keeps Klamm away for ten minutes, and asks all brokers once a second meanwhile."""

pytestmark = pytest.mark.timeout(900 + _OUTAGE_S)

Answers = dict[int, dict[str, int]]
"""By broker and topic."""


@dataclass
class _Told:
    added_ms: list[float] = field(default_factory=list)
    removed_ms: list[float] = field(default_factory=list)
    before: Answers = field(default_factory=dict)
    asked_while_away: int = 0
    other_answers_while_away: list[Answers] = field(default_factory=list)
    after_kills: Answers = field(default_factory=dict)
    at_klamm: dict[str, int] = field(default_factory=dict)
    digests: set[str] = field(default_factory=set)
    digest_at_klamm: str = ""
    changes_during_kills: int = 0
    torn_said: str = ""
    torn: Answers = field(default_factory=dict)
    older: Answers = field(default_factory=dict)
    older_digests: set[str] = field(default_factory=set)
    older_at_klamm: str = ""


def _word(topic: str) -> tuple[str, ...]:
    return ("--allow-principal", "User:alice", "--operation", "Read", "--topic", topic)


def _ask(cluster: Cluster, *topics: str) -> Answers:
    answers: Answers = {}
    for number in BROKERS:
        with Wire(cluster.addresses[number], "alice") as wire:
            answers[number] = wire.describe(*topics)
    return answers


class _Stage:
    """The cluster, its store, and what is asked of both."""

    def __init__(self, scene: Scene, cluster: Cluster, authorizer: Authorizer) -> None:
        self.scene = scene
        self.cluster = cluster
        self._authorizer = authorizer

    def at_klamm(self) -> dict[str, int]:
        asked = [{"operation": "DESCRIBE", "resource_type": "TOPIC", "resource_name": name} for name in _NAMES]
        said = self.scene.service.authorize("User:alice", *asked)
        return {name: ALLOWED if each == "ALLOWED" else REFUSED for name, each in zip(_NAMES, said, strict=True)}

    def _head(self) -> Json:
        with self.scene.service.http.stream("GET", "/v1/watch", params={"snapshot": "true"}) as stream:
            head: Json = json.loads(next(stream.iter_lines()))
        return head

    def digest_at_klamm(self) -> str:
        head = self._head()
        return f"{head['token']} {head['digest']}"

    def digest(self, number: int) -> str:
        """Of a node's image, by its state file: each of its lines is proved on the way."""
        files = sorted(self.cluster.states[number].glob("*.jsonl"), key=lambda file: file.stat().st_mtime)
        last = self._authorizer.run("FeedLines", lines=files[-1].read_text())[-1]
        token, _, digest, _ = last.split()
        return f"{token} {digest}"

    def settle(self) -> None:
        """Wait until all nodes have what the store has."""

        def is_everywhere() -> bool:
            # The store may begin an epoch meanwhile. One that was put back may be at a hash that has been before.
            head = self._head()
            epoch, _, _ = head["token"].partition(":")
            texts = [file.read_text() for folder in self.cluster.states.values() for file in folder.glob("*.jsonl")]
            return len(texts) == len(self.cluster.states) and all(
                epoch in text and head["hash"] in text for text in texts
            )

        wait_until(is_everywhere, "all nodes have the last change")

    def digests(self) -> set[str]:
        return {self.digest(number) for number in (CONTROLLER, *BROKERS)}


@pytest.fixture(scope="module")
def told(authorizer: Authorizer, tmp_path_factory: pytest.TempPathFactory) -> _Told:
    folder, cluster_id = tmp_path_factory.mktemp("cluster"), new_cluster_id()
    scene = Scene(folder / "klamm", free_ports(1)[0], cluster_id)
    settings = (
        "authorizer.class.name=klamm.kafka.KlammAuthorizer",
        f"klamm.urls={scene.service.url}",
        f"klamm.principal={SUPER_USER}",
    )
    told = _Told()
    try:
        with Cluster(authorizer.kafka, folder, cluster_id, settings) as cluster:
            stage = _Stage(scene, cluster, authorizer)
            _tell_of_changes(stage, told, folder, authorizer)
            _tell_of_an_outage(stage, told)
            _tell_of_kills(stage, told)
            _tell_of_a_torn_file(stage, told)
            _tell_of_an_older_store(stage, told, folder)
    finally:
        scene.service.stop()
    return told


def _tell_of_changes(stage: _Stage, told: _Told, folder: Path, authorizer: Authorizer) -> None:
    address = stage.cluster.addresses[BROKERS[0]]
    with ExitStack() as stack:
        acls = stack.enter_context(AclsTool(authorizer.kafka, address, folder))
        wires = [stack.enter_context(Wire(stage.cluster.addresses[number], "alice")) for number in BROKERS]

        def until(topic: str, answer: int) -> float:
            began = time.monotonic()
            for wire in wires:
                wait_until(lambda wire=wire: wire.describe(topic)[topic] == answer, f"{topic}: {answer}")  # type: ignore[misc]
            return (time.monotonic() - began) * 1_000

        for number in range(_ROUNDS):
            topic = f"round-{number}"
            assert all(wire.describe(topic) == {topic: REFUSED} for wire in wires)
            assert acls.run("--add", *_word(topic)).exit == 0
            told.added_ms.append(until(topic, ALLOWED))
            assert acls.run("--remove", "--force", *_word(topic)).exit == 0
            told.removed_ms.append(until(topic, REFUSED))
    for name, took in (("added", told.added_ms), ("removed", told.removed_ms)):
        ordered = sorted(took)
        p50, longest = ordered[len(ordered) // 2], ordered[-1]
        print(f"{name}, until all three brokers answer so: p50 {p50:.1f} ms, longest {longest:.1f} ms")


def _tell_of_an_outage(stage: _Stage, told: _Told) -> None:
    stage.scene.service.create(*(acl(name) for name in _NAMES[::3]))
    stage.settle()
    told.before = _ask(stage.cluster, *_NAMES)
    stage.scene.service.stop()
    began = time.monotonic()
    _ask_until(began + _OUTAGE_S / 2, stage, told)
    stage.cluster.restart(BROKERS[1])
    _ask_until(began + _OUTAGE_S, stage, told)
    print(
        f"{told.asked_while_away} decisions in an outage of {time.monotonic() - began:.0f} s with a broker begun again:"
        f" {len(told.other_answers_while_away)} rounds of them with other answers than before"
    )
    stage.scene.restart()


def _ask_until(end: float, stage: _Stage, told: _Told) -> None:
    """Ask all brokers, at least once."""
    while True:
        answers = _ask(stage.cluster, *_NAMES)
        told.asked_while_away += sum(map(len, answers.values()))
        if answers != told.before:
            told.other_answers_while_away.append(answers)
        if time.monotonic() >= end:
            return
        time.sleep(1)


def _tell_of_kills(stage: _Stage, told: _Told) -> None:
    is_over = threading.Event()

    def change(service: Process) -> None:
        draw = random.Random(1)
        while not is_over.is_set():
            name = draw.choice(_NAMES)
            service.create(acl(name)) if draw.random() < 0.5 else service.delete({"resource_name": name})
            told.changes_during_kills += 1
            time.sleep(0.02)

    _beside(lambda: change(stage.scene.service), is_over, lambda: _kill(stage.cluster))
    stage.settle()
    told.after_kills = _ask(stage.cluster, *_NAMES)
    told.at_klamm = stage.at_klamm()
    told.digests, told.digest_at_klamm = stage.digests(), stage.digest_at_klamm()


def _beside(work: Callable[[], None], is_over: threading.Event, story: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        story()
    finally:
        is_over.set()
        thread.join(60)


def _kill(cluster: Cluster) -> None:
    for number in range(_KILLS):
        cluster.restart(BROKERS[number % len(BROKERS)])


def _tell_of_a_torn_file(stage: _Stage, told: _Told) -> None:
    number = BROKERS[2]
    node = stage.cluster.nodes[number]
    node.kill()
    for file in stage.cluster.states[number].glob("*.jsonl"):
        file.write_bytes(file.read_bytes()[:-20])
    node.begin()
    node.has_begun()
    stage.settle()
    told.torn_said = node.said()
    told.torn = _ask(stage.cluster, *_NAMES)


def _tell_of_an_older_store(stage: _Stage, told: _Told, folder: Path) -> None:
    data, backup = folder / "klamm", folder / "backup"
    stage.scene.service.stop()
    copy_folder(data, backup)
    stage.scene.restart()
    for name in ("lost", "lost-as-well", "gone-later"):
        stage.scene.service.create(acl(name))
    stage.settle()
    assert all(each == {"lost": ALLOWED} for each in _ask(stage.cluster, "lost").values())
    stage.scene.service.stop()
    shutil.rmtree(data)
    copy_folder(backup, data)
    stage.scene.restart()
    # Nobody writes: the store learns from the nodes that it has lost records.
    wait_until(
        lambda: all(each == {"lost": REFUSED} for each in _ask(stage.cluster, "lost").values()), "all nodes follow it"
    )
    stage.scene.service.create(acl("new"))
    stage.settle()
    told.older = _ask(stage.cluster, *_NAMES, "lost", "new")
    told.older_digests, told.older_at_klamm = stage.digests(), stage.digest_at_klamm()


def test_a_change_holds_on_all_brokers(told: _Told) -> None:
    assert len(told.added_ms) == len(told.removed_ms) == _ROUNDS


def test_klamm_s_absence_changes_no_answer_also_on_a_broker_that_starts_meanwhile(told: _Told) -> None:
    assert {each["topic-0"] for each in told.before.values()} == {ALLOWED}
    assert {each["topic-1"] for each in told.before.values()} == {REFUSED}
    assert told.asked_while_away >= 2 * len(BROKERS) * len(_NAMES)
    assert told.other_answers_while_away == []


def test_kills_of_brokers_while_acls_change_leave_every_node_with_the_store_s_state(told: _Told) -> None:
    assert told.changes_during_kills > _KILLS
    assert [told.after_kills[number] for number in BROKERS] == [told.at_klamm] * len(BROKERS)
    assert told.digests == {told.digest_at_klamm}


def test_a_torn_state_file_is_refused_and_fetched_anew(told: _Told) -> None:
    assert "the state file is not used, and is fetched anew from Klamm" in told.torn_said
    assert told.torn == told.after_kills


def test_a_store_put_back_to_an_older_state_is_followed_there(told: _Told) -> None:
    wanted = {**told.at_klamm, "lost": REFUSED, "new": ALLOWED}
    assert [told.older[number] for number in BROKERS] == [wanted] * len(BROKERS)
    assert told.older_digests == {told.older_at_klamm}
