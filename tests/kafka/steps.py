"""The story: what the broker's users do, one step after the other, and what has to come of it."""

from collections.abc import Callable
from typing import NamedTuple

from tests.kafka.scene import Change, Scene, allow, deny, revoke
from tests.kafka.tools import Said

Check = Callable[[Said], None]


class Step(NamedTuple):
    """One thing that somebody does. `refuses` says that something is kept from him, and that rights alone do that."""

    title: str
    ask: Callable[[Scene], Said]
    check: Check
    given: tuple[Change, ...] = ()
    refuses: bool = False


def passes(said: Said) -> None:
    """It was done."""
    assert said.code == 0, said
    assert not said.refusals, said


def shows(*lines: str) -> Check:
    """It was done, and these lines came of it, and no others."""

    def check(said: Said) -> None:
        passes(said)
        assert said.lines == set(lines), said

    return check


def refused(word: str) -> Check:
    """It was not done, for lack of this right. The console consumer ends with 0 even so."""

    def check(said: Said) -> None:
        assert said.code != 0 or not said.out, said
        assert word in said.refusals, said

    return check


def _topics(user: str, *arguments: str) -> Callable[[Scene], Said]:
    return lambda scene: scene.tools.run("topics", user, *arguments)


def _create(user: str, topic: str) -> Callable[[Scene], Said]:
    return _topics(user, "--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1")


def _produce(user: str, topic: str, line: str) -> Callable[[Scene], Said]:
    return lambda scene: scene.tools.produce(user, topic, line)


def _consume(user: str, topic: str, group: str) -> Callable[[Scene], Said]:
    return lambda scene: scene.tools.consume(user, topic, group)


def _read(user: str, topic: str) -> Callable[[Scene], Said]:
    return lambda scene: scene.tools.read(user, topic)


def _groups(user: str) -> Callable[[Scene], Said]:
    return lambda scene: scene.tools.run("groups", user, "--list")


def _revoked_while_open(scene: Scene) -> Said:
    with scene.tools.open_producer("alice", "orders") as producer:
        producer.enter("second")
        # That it is there shows that the producer was in use before the right was taken away.
        before = scene.tools.consume("bob", "orders", "billing")
        scene.change(revoke(principal="User:alice", operation="WRITE", resource_name="orders"))
        producer.enter("third")
        return Said(before.code, before.out, producer.end())


def _seen_and_then_refused(said: Said) -> None:
    assert said.lines == {"second"}, said
    assert "TopicAuthorizationException" in said.refusals, said


_TOPIC, _GROUP, _CLUSTER = "TopicAuthorizationException", "GroupAuthorizationException", "ClusterAuthorizationException"

STEPS = (
    Step("a super user of the service creates a topic", _create("admin", "orders"), passes),
    Step("and another one", _create("admin", "public-news"), passes),
    Step("who has no rights creates no topic", _create("mallory", "mallory-1"), refused(_TOPIC), refuses=True),
    Step(
        "a prefix allows to create topics below it",
        _create("alice", "alice-1"),
        passes,
        (allow("alice-", "User:alice", "CREATE", pattern_type="PREFIXED"),),
    ),
    Step("but none beside it", _create("alice", "also-alice"), refused(_TOPIC), refuses=True),
    Step("without a right nothing is written", _produce("alice", "orders", "zero"), refused(_TOPIC), refuses=True),
    Step(
        "with WRITE a message is written, by an idempotent producer",
        _produce("alice", "orders", "first"),
        passes,
        (allow("orders", "User:alice", "WRITE"),),
    ),
    Step(
        "who may describe and write nowhere gets no producer id",
        _produce("gina", "orders", "zero"),
        refused(_CLUSTER),
        (allow("orders", "User:gina", "DESCRIBE"),),
        refuses=True,
    ),
    Step(
        "who may write somewhere gets one, and is refused by the topic",
        _produce("gina", "orders", "zero"),
        refused(_TOPIC),
        (allow("gina-", "User:gina", "WRITE", pattern_type="PREFIXED"),),
        refuses=True,
    ),
    Step("without rights nothing is read", _read("bob", "orders"), refused(_TOPIC), refuses=True),
    Step(
        "READ of the topic does without a group",
        _read("bob", "orders"),
        shows("first"),
        (allow("orders", "User:bob", "READ"),),
    ),
    Step("and not with one", _consume("bob", "orders", "billing"), refused(_GROUP), refuses=True),
    Step(
        "READ of a prefix of groups lets a group read",
        _consume("bob", "orders", "billing"),
        shows("first"),
        (allow("bill", "User:bob", "READ", resource_type="GROUP", pattern_type="PREFIXED"),),
    ),
    Step(
        "DENY stands over ALLOW",
        _read("bob", "orders"),
        refused(_TOPIC),
        (deny("orders", "User:bob", "READ"),),
        refuses=True,
    ),
    Step(
        "without the DENY the ALLOW is good again",
        _read("bob", "orders"),
        shows("first"),
        (revoke(principal="User:bob", permission_type="DENY"),),
    ),
    Step(
        "an ACL for another host is none for this one",
        _read("carol", "orders"),
        refused(_TOPIC),
        (allow("orders", "User:carol", "READ", host="10.9.9.9"),),
        refuses=True,
    ),
    Step(
        "one for this host is",
        _read("carol", "orders"),
        shows("first"),
        (allow("orders", "User:carol", "READ", host="127.0.0.1"),),
    ),
    Step(
        "and one for a range of hosts",
        _read("dan", "orders"),
        shows("first"),
        (allow("orders", "User:dan", "READ", host="127.0.0.0/8"),),
    ),
    Step("a super user writes where no ACL is", _produce("admin", "public-news", "extra, extra"), passes),
    Step(
        "User:* is everybody",
        _read("mallory", "public-news"),
        shows("extra, extra"),
        (allow("public-", "User:*", "READ", pattern_type="PREFIXED"),),
    ),
    Step("to read is not to write", _produce("mallory", "public-news", "lies"), refused(_CLUSTER), refuses=True),
    Step(
        "who lists topics sees those that he may describe",
        _topics("bob", "--list"),
        shows("orders", "public-news"),
        refuses=True,
    ),
    Step("a super user reads in a group of his", _consume("admin", "public-news", "audit"), shows("extra, extra")),
    Step("who lists groups sees his own", _groups("bob"), shows("billing"), refuses=True),
    Step("or none", _groups("mallory"), shows(), refuses=True),
    Step(
        "with DESCRIBE of the cluster he sees all",
        _groups("carol"),
        shows("audit", "billing"),
        (allow("kafka-cluster", "User:carol", "DESCRIBE", resource_type="CLUSTER"),),
    ),
    Step("what is revoked is refused to a producer that is open", _revoked_while_open, _seen_and_then_refused),
    Step("and to whoever comes after", _produce("alice", "orders", "fourth"), refused(_TOPIC), refuses=True),
    Step(
        "without the service nothing is allowed",
        lambda scene: scene.without_service(lambda: scene.tools.read("bob", "orders")),
        refused(_TOPIC),
    ),
    Step("and with it everything as before", _read("bob", "orders"), shows("first")),
    Step(
        "to read a topic is not to delete it",
        _topics("bob", "--delete", "--topic", "orders"),
        refused(_TOPIC),
        refuses=True,
    ),
)
