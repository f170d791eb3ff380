"""From Kafka's own authorizer to Klamm's, as docs/kafka-broker.md tells it: export, import, compare, change over."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.service import binding, eventually
from tests.e2e.test_export_import import access, command
from tests.kafka.acls_tool import AclsTool
from tests.kafka.authorizer import Authorizer
from tests.kafka.broker import Broker, free_ports, new_cluster_id
from tests.kafka.scene import Scene
from tests.kafka.wire import ALLOWED, REFUSED, Wire

_ACLS = (
    ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders"),
    ("--allow-principal", "User:*", "--operation", "Describe", "--topic", "open"),
    ("--allow-principal", "User:bob", "--producer", "--topic", "o", "--resource-pattern-type", "prefixed"),
    ("--deny-principal", "User:bob", "--operation", "All", "--topic", "orders"),
)
_DIFFERS = "(CompareAuthorizer)"


@dataclass
class _Told:
    same: str
    different: str
    while_different: dict[str, int]
    away: dict[str, int]
    changed_over: dict[str, int]
    added_after: dict[str, int]


def _settings(scene: Scene, folder: Path, name: str) -> tuple[str, ...]:
    return (
        f"authorizer.class.name={name}",
        f"klamm.urls={scene.service.url}",
        f"klamm.state.dir={folder / 'acls'}",
        "klamm.principal=User:admin",
    )


def _asked(broker: Broker, user: str) -> dict[str, int]:
    with Wire(broker.address, user) as wire:
        return wire.describe("orders", "open", "other", "o")


@pytest.fixture(scope="module")
def told(authorizer: Authorizer, tmp_path_factory: pytest.TempPathFactory) -> _Told:
    folder, cluster_id = tmp_path_factory.mktemp("compare"), new_cluster_id()
    scene = Scene(folder / "klamm", free_ports(1)[0], cluster_id)
    settings = _settings(scene, folder, "klamm.kafka.CompareAuthorizer")
    broker = Broker(authorizer.kafka, folder, cluster_id, settings)
    try:
        return _tell(scene, broker, authorizer, folder)
    finally:
        scene.service.stop()


def _tell(scene: Scene, broker: Broker, authorizer: Authorizer, folder: Path) -> _Told:
    with broker, AclsTool(authorizer.kafka, broker.address, folder) as acls:
        for each in _ACLS:
            assert acls.run("--add", *each).exit == 0
        exported = folder / "acls.txt"
        exported.write_text(acls.run("--list").out)
        imported = command("import", str(exported), *access(scene.service))
        assert imported.returncode == 0, imported
        for user in ("alice", "bob", "mallory"):
            _asked(broker, user)
        same = broker.said()
        scene.service.delete({"principal": "User:bob"})
        scene.service.create(binding("other", "User:mallory"))

        def is_told() -> bool:
            for user in ("alice", "bob", "mallory"):
                _asked(broker, user)
            said = broker.said()
            return "Kafka denies, Klamm allows: User:mallory" in said and "Klamm denies: User:bob" in said

        eventually(is_told, "the differences are told")
        while_different = _asked(broker, "mallory")
        different = broker.said()
        scene.service.stop()
        away = _asked(broker, "alice")
        scene.restart()
    broker.set("authorizer.class.name", "klamm.kafka.KlammAuthorizer")
    with broker, AclsTool(authorizer.kafka, broker.address, folder) as acls:
        changed_over = _asked(broker, "mallory")
        assert acls.run("--add", *_ACLS[0][:1], "User:mallory", *_ACLS[0][2:]).exit == 0
        added_after = _asked(broker, "mallory")
    return _Told(same, different, while_different, away, changed_over, added_after)


def test_what_was_exported_and_imported_answers_alike(told: _Told) -> None:
    assert _DIFFERS not in told.same


def test_each_difference_is_logged_once_and_never_acted_on(told: _Told) -> None:
    lines = [line for line in told.different.splitlines() if _DIFFERS in line]
    assert len(lines) == len(set(lines))
    assert {line.split("User:")[1].split()[0] for line in lines} == {"mallory", "bob"}
    assert told.while_different["other"] == REFUSED
    assert told.while_different["open"] == ALLOWED


def test_kafka_s_own_authorizer_decides_while_klamm_is_away(told: _Told) -> None:
    assert told.away == {"orders": ALLOWED, "open": ALLOWED, "other": REFUSED, "o": REFUSED}


def test_after_the_change_over_klamm_decides_and_kafka_acls_changes_its_acls(told: _Told) -> None:
    assert told.changed_over == {"orders": REFUSED, "open": ALLOWED, "other": ALLOWED, "o": REFUSED}
    assert told.added_after["orders"] == ALLOWED
