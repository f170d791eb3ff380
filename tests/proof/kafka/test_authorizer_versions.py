"""The same jar in brokers of the oldest Kafka that it is for, and of the newest."""

from pathlib import Path

import pytest

from tests.klamm import SUPER_USER, acl, wait_until
from tests.proof.kafka.acls_tool import AclsTool
from tests.proof.kafka.authorizer import Authorizer
from tests.proof.kafka.broker import Broker, free_ports, new_cluster_id
from tests.proof.kafka.jars import Kafka, NotToBeHadError, find_kafka
from tests.proof.kafka.scene import Scene
from tests.proof.kafka.wire import ALLOWED, REFUSED, Wire

_OLDEST, _NEWEST = "3.7.2", "4.4.0"
_POM = Path(__file__).with_name("bare.xml")
_READ = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
_TWO_PHASE_COMMIT = acl("t", "User:alice", "TWO_PHASE_COMMIT", resource_type="TRANSACTIONAL_ID")
"""An operation that Kafka has since 4.1."""
_LIST = ("--list", "--topic", "orders")


def _bare(version: str) -> Kafka:
    try:
        return find_kafka(_POM, version)
    except NotToBeHadError as why:
        pytest.skip(str(why))


@pytest.mark.parametrize(("version", "name"), [(_OLDEST, "PlainAuthorizer"), (_NEWEST, "KlammAuthorizer")])
def test_it_decides_and_changes_acls(authorizer: Authorizer, tmp_path: Path, version: str, name: str) -> None:
    bare, cluster_id = _bare(version), new_cluster_id()
    scene = Scene(tmp_path / "klamm", free_ports(1)[0], cluster_id)
    settings = (
        f"authorizer.class.name=klamm.kafka.{name}",
        f"klamm.urls={scene.service.url}",
        f"klamm.principal={SUPER_USER}",
        f"klamm.state.dir={tmp_path / 'acls'}",
        f"klamm.decision.log.path={tmp_path / 'log'}",
    )
    kafka = Kafka(bare.java, f"{authorizer.jar}:{bare.classpath}")
    try:
        with (
            Broker(kafka, tmp_path, cluster_id, settings) as broker,
            AclsTool(authorizer.kafka, broker.address, tmp_path) as acls,
            Wire(broker.address, "alice") as wire,
        ):
            assert wire.describe("orders") == {"orders": REFUSED}
            assert acls.run("--add", *_READ).exit == 0
            wait_until(lambda: wire.describe("orders") == {"orders": ALLOWED}, "the ACL holds")
            assert "User:alice" in acls.run(*_LIST).out
            scene.service.create(_TWO_PHASE_COMMIT)
            scene.service.create(acl("at-klamm"))
            wait_until(lambda: wire.describe("at-klamm") == {"at-klamm": ALLOWED}, "so does one of Klamm")
            assert len(scene.service.acls()) == 3
            # An older Kafka can't list what it has no name for, but all else.
            listed = acls.run("--list").out
            assert "at-klamm" in listed
            assert ("TWO_PHASE_COMMIT" in listed) == (version == _NEWEST)
            assert acls.run("--remove", "--force", *_READ).exit == 0
            wait_until(lambda: wire.describe("orders") == {"orders": REFUSED}, "the ACL holds no more")
            assert "User:alice" not in acls.run(*_LIST).out
    finally:
        scene.service.stop()
