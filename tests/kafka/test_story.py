"""A real broker that asks the service for every decision, and its users' own tools. (docs/kafka-broker.md)

The story is told once; each step is a test. Then the service is told to allow everything, and whatever refused
something in the story is done again: a story that would be green then, too, would show nothing.
"""

import re
from dataclasses import dataclass, field

import pytest

from tests.kafka.broker import CACHE_S, Broker, free_ports, new_cluster_id
from tests.kafka.jars import Kafka
from tests.kafka.scene import Scene
from tests.kafka.steps import STEPS, Step, passes
from tests.kafka.tools import Said, Tools

_REFUSALS = tuple(step for step in STEPS if step.refuses)
_COUNTS = re.compile(r'^klamm_http_requests_total\{operation="opaAuthorize",status="(\dxx)"\} (\S+)', re.MULTILINE)


@dataclass
class Told:
    """What came of the story."""

    failures: dict[str, AssertionError] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    """Requests at the door during the story, by class of status; the service was started anew within it."""
    unrestricted: dict[str, Said] = field(default_factory=dict)
    """What the steps that refuse have said when everything was allowed."""
    broker: str = ""
    service: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def told(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder, cluster_id = tmp_path_factory.mktemp("kafka"), new_cluster_id()
    scene = Scene(folder / "klamm", free_ports(1)[0], cluster_id)
    told = Told()
    opa = (
        "authorizer.class.name=org.openpolicyagent.kafka.OpaAuthorizer",
        f"opa.authorizer.url={scene.opa_url}",
        "opa.authorizer.allow.on.error=false",
        f"opa.authorizer.cache.expire.after.seconds={CACHE_S}",
    )
    try:
        with Broker(kafka, folder, cluster_id, opa) as broker:
            scene.tools = Tools(kafka, broker.address, folder)
            _tell(scene, told)
            scene.restart(KLAMM_AUTHORIZER_ENABLED="false")
            for step in _REFUSALS:
                told.unrestricted[step.title] = step.ask(scene)
            told.broker = broker.said()
    finally:
        scene.service.stop()
    return told


def _tell(scene: Scene, told: Told) -> None:
    for step in STEPS:
        if step.given:
            scene.change(*step.given)
        try:
            step.check(step.ask(scene))
        except AssertionError as failure:
            told.failures[step.title] = failure
    told.counts = {status: float(count) for status, count in _COUNTS.findall(scene.service.http.get("/metrics").text)}
    told.service = scene.service.lines


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.title)
def test_the_broker_does_as_the_service_decides(told: Told, step: Step) -> None:
    if step.title in told.failures:
        raise told.failures[step.title]


@pytest.mark.parametrize("step", _REFUSALS, ids=lambda step: step.title)
def test_the_step_turns_red_when_everything_is_allowed(told: Told, step: Step) -> None:
    said = told.unrestricted[step.title]
    passes(said)
    with pytest.raises(AssertionError):
        step.check(said)


def test_the_broker_asks_nothing_that_the_service_does_not_understand(told: Told) -> None:
    assert told.counts["2xx"] > 0
    assert set(told.counts) == {"2xx"}
    assert not [line for line in told.service if "opa_refused" in line or " ERROR " in line]
