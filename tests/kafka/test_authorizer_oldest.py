"""The same jar in the oldest Kafka that it is for."""

from pathlib import Path

import pytest

from tests.e2e.service import ADMIN, binding, eventually
from tests.kafka.acls_tool import AclsTool
from tests.kafka.authorizer import Authorizer
from tests.kafka.broker import Broker, free_ports, new_cluster_id
from tests.kafka.jars import Kafka, NotToBeHadError, find_kafka
from tests.kafka.scene import Scene
from tests.kafka.wire import ALLOWED, REFUSED, Wire

_POM = Path(__file__).with_name("oldest.xml")
_READ = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")


@pytest.fixture(scope="module")
def oldest() -> Kafka:
    try:
        return find_kafka(_POM)
    except NotToBeHadError as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("name", ["PlainAuthorizer", "CompareAuthorizer"])
def test_it_decides_and_changes_acls(authorizer: Authorizer, oldest: Kafka, tmp_path: Path, name: str) -> None:
    cluster_id = new_cluster_id()
    scene = Scene(tmp_path / "klamm", free_ports(1)[0], cluster_id)
    settings = (
        f"authorizer.class.name=klamm.kafka.{name}",
        f"klamm.urls={scene.service.url}",
        f"klamm.principal={ADMIN}",
        f"klamm.state.dir={tmp_path / 'acls'}",
        f"klamm.decision.log.path={tmp_path / 'log'}",
    )
    kafka = Kafka(oldest.java, f"{authorizer.jar}:{oldest.classpath}")
    try:
        with (
            Broker(kafka, tmp_path, cluster_id, settings) as broker,
            AclsTool(authorizer.kafka, broker.address, tmp_path) as acls,
            Wire(broker.address, "alice") as wire,
        ):
            assert wire.describe("orders") == {"orders": REFUSED}
            assert acls.run("--add", *_READ).exit == 0
            eventually(lambda: wire.describe("orders") == {"orders": ALLOWED}, "the ACL holds")
            scene.service.create(binding("at-klamm"))
            if name == "PlainAuthorizer":
                eventually(lambda: wire.describe("at-klamm") == {"at-klamm": ALLOWED}, "so does one of Klamm")
                assert len(scene.service.acls()) == 2
            else:
                eventually(lambda: "Klamm allows" in _asked(broker, wire, "at-klamm"), "the difference is told")
    finally:
        scene.service.stop()


def _asked(broker: Broker, wire: Wire, topic: str) -> str:
    assert wire.describe(topic) == {topic: REFUSED}
    return broker.said()
