"""Applications under Klamm's authorizer run with the least rights that Kafka's pages name, and with no less."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.klamm import SUPER_USER, Json, Process, acl
from tests.proof.kafka.authorizer import Authorizer
from tests.proof.kafka.broker import BROKER, Broker, free_ports, new_cluster_id
from tests.proof.kafka.jvm import Jvm
from tests.proof.kafka.scene import Scene

_SOURCE = Path(__file__).with_name("Clients.java")
_USER = "carol"
_SHARE_GROUP = "sharers"


def _needs(operation: str, resource_type: str, name: str, pattern_type: str = "LITERAL") -> Json:
    more = {"resource_type": resource_type, "pattern_type": pattern_type}
    return {**acl(name, f"User:{_USER}", operation), **more}


_READ_IN = _needs("READ", "TOPIC", "in")
_WRITE_OUT = _needs("WRITE", "TOPIC", "out")
_APPLICATIONS: dict[str, tuple[str, list[Json]]] = {
    "producer": (f"produce {_USER} out", [_WRITE_OUT]),
    "consumer group": (f"consume {_USER} in readers", [_READ_IN, _needs("READ", "GROUP", "readers")]),
    "transactional producer": (
        # Of a group of its own: one that has committed offsets reads nothing a second time.
        f"transact {_USER} out in pays payers",
        [_WRITE_OUT, _READ_IN, _needs("WRITE", "TRANSACTIONAL_ID", "pays"), _needs("READ", "GROUP", "payers")],
    ),
    "share group": (f"share {_USER} in {_SHARE_GROUP}", [_READ_IN, _needs("READ", "GROUP", _SHARE_GROUP)]),
    "streams": (
        f"stream {_USER} words in out",
        [
            _READ_IN,
            _WRITE_OUT,
            _needs("READ", "GROUP", "words", "PREFIXED"),
            *(_needs(each, "TOPIC", "words", "PREFIXED") for each in ("CREATE", "READ", "WRITE")),
        ],
    ),
}


@dataclass
class _Stage:
    service: Process
    clients: Jvm
    """It plays one application after another."""

    def runs_with(self, application: str, rights: list[Json]) -> str:
        """What an application says that has these rights and no others."""
        self.service.delete({})
        if rights:
            self.service.create(*rights)
        return self.clients.answer_to(application)


@pytest.fixture(scope="module")
def stage(authorizer: Authorizer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Stage]:
    folder, cluster_id = tmp_path_factory.mktemp("least"), new_cluster_id()
    scene = Scene(folder / "klamm", free_ports(1)[0], cluster_id)
    settings = (
        "authorizer.class.name=klamm.kafka.KlammAuthorizer",
        f"klamm.urls={scene.service.url}",
        f"klamm.principal={SUPER_USER}",
    )
    with ExitStack() as stack:
        stack.callback(scene.service.stop)
        broker = stack.enter_context(Broker(authorizer.kafka, folder, cluster_id, settings))
        clients = stack.enter_context(Jvm(authorizer.kafka, str(_SOURCE), broker.address))
        assert clients.answer_to(f"topics {BROKER} in out {_SHARE_GROUP}") == "done"
        assert clients.answer_to(f"produce {BROKER} in") == "done"
        yield _Stage(scene.service, clients)


@pytest.mark.parametrize("name", _APPLICATIONS)
def test_it_runs_with_the_least_rights_and_is_refused_without_each(stage: _Stage, name: str) -> None:
    application, rights = _APPLICATIONS[name]
    for without in rights:
        said = stage.runs_with(application, [each for each in rights if each != without])
        assert "authorization" in said.casefold(), (said, without)
    assert stage.runs_with(application, rights) == "done"
