"""A real broker with its own authorizer (`plugin/`): kafka-acls, clients, and a broker that starts while Klamm is away.

One story, told once; each test looks at a part of it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kafka_acls_tool import Said as AclsSaid
from tests.klamm import SUPER_USER, wait_until
from tests.proof.kafka.acls_tool import AclsTool
from tests.proof.kafka.authorizer import Authorizer
from tests.proof.kafka.broker import BROKER, Broker, free_ports, new_cluster_id
from tests.proof.kafka.scene import Scene
from tests.proof.kafka.tools import Said, Tools

_READ = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
_WRITE = ("--allow-principal", "User:bob", "--producer", "--topic", "orders")
_CAROL = ("--allow-principal", "User:carol", "--allow-host")
_CONSUMES = (*_CAROL, "127.0.0.0/8", "--consumer", "--topic", "orders", "--group", "billing")
_PRODUCES = (*_CAROL, "127.0.0.0/8", "--producer", "--topic", "orders")
_ELSEWHERE = (*_CAROL, "10.0.0.0/8", "--operation", "Read", "--topic", "secret")


@dataclass
class _Carol:
    """She has rights on one of two topics and one of two groups, as a client from a range of addresses."""

    consumed: Said
    topics: Said
    groups: Said
    sent: Said
    revoked: Said


@dataclass
class _Told:
    before: Said
    added: AclsSaid
    read: Said
    removed: AclsSaid
    revoked: Said
    away_bob: Said
    away_alice: Said
    away_added: AclsSaid
    away_log: str
    back: AclsSaid
    count_at_klamm: int
    comments: set[str | None]
    carol: _Carol


def _settings(scene: Scene, folder: Path) -> tuple[str, ...]:
    return (
        "authorizer.class.name=klamm.kafka.KlammAuthorizer",
        f"klamm.urls={scene.service.url}",
        f"klamm.state.dir={folder / 'acls'}",
        f"klamm.principal={SUPER_USER}",
    )


@pytest.fixture(scope="module")
def told(authorizer: Authorizer, tmp_path_factory: pytest.TempPathFactory) -> _Told:
    folder, cluster_id = tmp_path_factory.mktemp("authorizer"), new_cluster_id()
    scene = Scene(folder / "klamm", free_ports(1)[0], cluster_id)
    broker = Broker(authorizer.kafka, folder, cluster_id, _settings(scene, folder))
    try:
        return _tell(scene, broker, authorizer, folder)
    finally:
        scene.service.stop()


def _comments(scene: Scene) -> set[str | None]:
    """What the records of all changes so far say of why."""
    token: str = scene.service.create()["token"]
    found: set[str | None] = set()
    after = {"after": f"{token.partition(':')[0]}:0"}
    with scene.service.http.stream("GET", "/v1/watch", params=after) as stream:
        for event in map(json.loads, stream.iter_lines()):
            if event["type"] == "bookmark":
                break
            found.update(record["comment"] for record in event["records"])
    return found


def _tell_of_carol(tools: Tools, acls: AclsTool) -> _Carol:
    rights = (_CONSUMES, _PRODUCES, _ELSEWHERE)
    assert tools.run("topics", BROKER, "--create", "--topic", "secret").code == 0
    assert [acls.run("--add", *each).exit for each in rights] == [0, 0, 0]
    consumed = tools.consume("carol", "orders", "billing")
    assert tools.consume(BROKER, "orders", "audit").lines == {"one"}
    topics, groups = tools.run("topics", "carol", "--list"), tools.run("groups", "carol", "--list")
    with tools.open_producer("carol", "orders") as producer:
        producer.enter("before")
        sent = tools.read(BROKER, "orders", "1")
        assert [acls.run("--remove", "--force", *each).exit for each in rights] == [0, 0, 0]
        producer.enter("after")
        revoked = producer.end()
    return _Carol(consumed, topics, groups, sent, revoked)


def _tell(scene: Scene, broker: Broker, authorizer: Authorizer, folder: Path) -> _Told:
    tools = Tools(authorizer.kafka, broker.address, folder)
    with broker, AclsTool(authorizer.kafka, broker.address, folder) as acls:
        created = tools.run("topics", BROKER, "--create", "--topic", "orders")
        assert created.code == 0, created
        assert acls.run("--add", *_WRITE).exit == 0
        assert tools.produce("bob", "orders", "one").refusals == set()
        before = tools.read("alice", "orders")
        added = acls.run("--add", *_READ)
        read = tools.read("alice", "orders")
        removed = acls.run("--remove", "--force", *_READ)
        revoked = tools.read("alice", "orders")
        carol = _tell_of_carol(tools, acls)
        comments = _comments(scene)
    scene.service.stop()
    with broker, AclsTool(authorizer.kafka, broker.address, folder) as acls:
        away_bob = tools.produce("bob", "orders", "two")
        away_alice = tools.read("alice", "orders")
        away_added = acls.run("--add", *_READ)
        away_log = broker.said()
        scene.restart()
        wait_until(lambda: acls.run("--add", *_READ).exit == 0, "Klamm is heard of again")
        # The change is done when the controller has it; the broker may still wait for its next attempt to follow.
        wait_until(lambda: "User:alice" in acls.run("--list", "--topic", "orders").out, "the broker has it, too")
        back = acls.run("--list", "--topic", "orders")
        count = len(scene.service.acls())
    return _Told(
        before, added, read, removed, revoked, away_bob, away_alice, away_added, away_log, back, count, comments, carol
    )


def test_an_acl_that_is_added_holds_at_once_and_one_that_is_removed_does_not(told: _Told) -> None:
    assert told.before.refusals
    assert told.added.exit == 0, told.added
    assert told.read.refusals == set(), told.read
    assert "one" in told.read.lines
    assert told.removed.exit == 0, told.removed
    assert told.revoked.refusals


def test_who_has_few_rights_sees_the_topics_and_groups_of_these_alone(told: _Told) -> None:
    assert (told.carol.topics.lines, told.carol.groups.lines) == ({"orders"}, {"billing"}), told.carol


def test_an_acl_for_a_range_of_hosts_holds_for_a_client_in_it(told: _Told) -> None:
    assert (told.carol.consumed.lines, told.carol.consumed.refusals) == ({"one"}, set()), told.carol


def test_what_is_revoked_is_refused_to_a_producer_that_is_open(told: _Told) -> None:
    assert told.carol.sent.lines == {"before"}, told.carol.sent
    assert "TopicAuthorizationException" in told.carol.revoked.refusals, told.carol.revoked


def test_klamm_knows_who_asked_for_the_change(told: _Told) -> None:
    assert told.comments == {f"asked by User:{BROKER} from 127.0.0.1 through Kafka"}


def test_a_broker_that_starts_while_klamm_is_away_decides_as_before(told: _Told) -> None:
    assert told.away_bob.refusals == set(), told.away_bob
    assert told.away_alice.refusals


def test_a_change_while_klamm_is_away_fails_and_says_why(told: _Told) -> None:
    assert told.away_added.exit == 1
    text = told.away_added.out + told.away_added.refusal
    assert "the ACLs were not changed: Klamm can't be reached at" in text
    assert "Unexpected error" not in told.away_log, "Kafka expects no future that throws"


def test_the_broker_goes_on_when_klamm_is_back(told: _Told) -> None:
    assert "User:alice" in told.back.out
    assert told.count_at_klamm == told.back.out.count("permissionType=ALLOW")
