"""A share of Kafka's own tests, unchanged, with the plugin in their authorizer's place (all: `make test-kafka-own`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.klamm import over_socket
from tests.proof.kafka.authorizer import Authorizer
from tests.proof.kafka.jars import Kafka, NotToBeHadError, find_kafka
from tests.proof.kafka.own.suite import CLASSES, POM, PRIVATE, Suite, under_klamm

_TIMEOUT_S = 600
_UNIT, _OPERATIONS, *_, _REQUESTS = CLASSES
_SHARE = (
    "testAuthorizationWithTopicExisting",
    "testAuthorizeByResourceType.*",
    "testHostAddressBasedAcls",
    "testPrefixAcls",
    "testTransactionalProducerTopicAuthorizationExceptionInCommit",
    "testConsumerGroupHeartbeatWithRegexWithTopicDescribeAclAddedAndRemoved",
    "testShareFetchWithGroupReadAndTopicReadAcl",
)


@pytest.fixture(scope="module")
def own() -> Kafka:
    try:
        return find_kafka(POM)
    except NotToBeHadError as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def suite(authorizer: Authorizer, own: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    folder = tmp_path_factory.mktemp("own")
    with over_socket("--data-dir", str(folder / "klamm")).ready() as service:
        yield under_klamm(authorizer, own, service, folder)


def test_kafkas_tests_of_its_authorizer_pass(suite: Suite, tmp_path: Path) -> None:
    done = suite.run(tmp_path, _TIMEOUT_S, [_UNIT, _OPERATIONS])
    assert not {test: why for test, why in done.failed.items() if test not in PRIVATE}
    assert set(done.failed) == set(PRIVATE), "a test that passes is no exception"
    assert len(done.passed) == 37 + 3


def test_kafkas_tests_of_its_requests_pass(suite: Suite, tmp_path: Path) -> None:
    done = suite.run(tmp_path, _TIMEOUT_S, [_REQUESTS], rf".*[#.]({'|'.join(_SHARE)})")
    assert not done.failed
    assert len(done.passed) == 11
