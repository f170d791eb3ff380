"""From Kafka's own authorizer to Klamm's, as docs/kafka-broker.md tells it: export, import, plan, change over."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.klamm import acl
from tests.proof.e2e.test_export_import import access, command
from tests.proof.kafka.acls_tool import AclsTool
from tests.proof.kafka.authorizer import Authorizer
from tests.proof.kafka.broker import Broker, free_ports, new_cluster_id
from tests.proof.kafka.scene import Scene
from tests.proof.kafka.wire import ALLOWED, REFUSED, Wire

_ACLS = (
    ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders"),
    ("--allow-principal", "User:*", "--operation", "Describe", "--topic", "open"),
    ("--allow-principal", "User:bob", "--producer", "--topic", "o", "--resource-pattern-type", "prefixed"),
    ("--deny-principal", "User:bob", "--operation", "All", "--topic", "orders"),
)


@dataclass
class _Told:
    planned: str
    before: dict[str, int]
    changed_over: dict[str, int]
    added_after: dict[str, int]


def _settings(scene: Scene, folder: Path) -> tuple[str, ...]:
    return (
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        f"klamm.urls={scene.service.url}",
        f"klamm.state.dir={folder / 'acls'}",
        "klamm.principal=User:admin",
    )


def _asked(broker: Broker, user: str) -> dict[str, int]:
    with Wire(broker.address, user) as wire:
        return wire.describe("orders", "open", "other", "o")


@pytest.fixture(scope="module")
def told(authorizer: Authorizer, tmp_path_factory: pytest.TempPathFactory) -> _Told:
    folder, cluster_id = tmp_path_factory.mktemp("change-over"), new_cluster_id()
    scene = Scene(folder / "klamm", free_ports(1)[0], cluster_id)
    broker = Broker(authorizer.kafka, folder, cluster_id, _settings(scene, folder))
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
        planned = command("plan", str(exported), *access(scene.service))
        before = _asked(broker, "alice")
    scene.service.create(acl("other", "User:mallory"))
    broker.set("authorizer.class.name", "klamm.kafka.KlammAuthorizer")
    with broker, AclsTool(authorizer.kafka, broker.address, folder) as acls:
        changed_over = _asked(broker, "mallory")
        same = _asked(broker, "alice")
        assert same == before
        assert acls.run("--add", *_ACLS[0][:1], "User:mallory", *_ACLS[0][2:]).exit == 0
        added_after = _asked(broker, "mallory")
    return _Told(planned.stdout.decode(), before, changed_over, added_after)


def test_what_was_imported_is_what_the_broker_had(told: _Told) -> None:
    assert told.planned.startswith("Nothing to do")
    assert told.before == {"orders": ALLOWED, "open": ALLOWED, "other": REFUSED, "o": REFUSED}


def test_after_the_change_over_klamm_decides_and_kafka_acls_changes_its_acls(told: _Told) -> None:
    assert told.changed_over == {"orders": REFUSED, "open": ALLOWED, "other": ALLOWED, "o": REFUSED}
    assert told.added_after["orders"] == ALLOWED
