"""`klamm acls` on a service and Kafka's own kafka-acls on a broker, told the same: they say and do the same.

What else the tool has said is recorded (tests/kafka_acls_tool.py); this is the tool, the broker and the service of
today. Left out is what docs/acls.md sets apart.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from app.client.acls.command import main as run_acls
from tests.kafka_acls_tool import FAILED, Said, ordered, ordered_words
from tests.klamm import SUPER_USER, Process, over_socket, wait_until
from tests.proof.e2e.history import seven_of
from tests.proof.kafka.acls_tool import AclsTool
from tests.proof.kafka.broker import Broker, new_cluster_id
from tests.proof.kafka.jars import Kafka

_STORY = """
--add --allow-principal User:a --topic t --group g --cluster --delegation-token d --transactional-id x
--add --allow-principal=User:a --deny-principal=Group:b --deny-host=10.0.0.0/8 --operation=read --topic=t --topic=ü*
--add --allow-principal User:a --topic t
--add --allow-principal User:p --producer --consumer --idempotent --topic p- --group p- --resource-pattern-type prefixed
--add --allow-principal User:a --operation createtokens --operation DescribeTokens --user-principal User:u
--add --allow-principal User:a --topic * --resource-pattern-type LİTERAL
--list
--list --topic p-x --group p-x --resource-pattern-type match
--list --topic p- --topic t --resource-pattern-type any
--list --principal User:p --topic t --topic p- --resource-pattern-type PREFIXED
--list --cluster --resource-pattern-type any
--list --principal --topic t -- --zap
--add --allow-principal User:a --topic t --resource-pattern-type preﬁxed
--add --allow-principal User:a --topic t --resource-pattern-type zip --resource-pattern-type literal
--add --allow-principal User:a --topic t --resource-pattern-type match
--add --allow-principal User:a --operation Any --deny-principal bad --topic t
--add --allow-principal User:a --operation Alter --transactional-id x
--add --allow-principal User:a --topic=
--add --allow-principal User:a --producer --operation Read --topic t
--add --consumer --topic t --cluster --group g
--add --topic t
--add --list
--list --topic
--list --top t
--list -=t
--list -topic=t
--remove --topic t
--remove --force
--remove --force --allow-principal User:a --operation Read --topic t
--remove --force --producer --allow-principal User:p --topic p- --resource-pattern-type prefixed
--remove --force --operation Read --deny-host 10.0.0.0/8 --group g
--remove --force --topic tt --topic p-x --resource-pattern-type match
--list
""".strip().splitlines()


@dataclass(frozen=True)
class _Twins:
    tool: AclsTool
    service: Process

    def ours(self, words: list[str]) -> Said:
        out, err = io.StringIO(), io.StringIO()
        code = run_acls(["--klamm", self.service.url, "--as", SUPER_USER, *words], out, err, io.StringIO())
        told = [line for line in err.getvalue().splitlines() if not line.startswith("klamm acls: ")]
        return Said(words, code, out.getvalue(), told[0] if told else "")

    def same_acls(self) -> bool:
        return {seven_of(acl) for acl in self.service.acls()} == self.tool.acls()


@pytest.fixture(scope="module")
def twins(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Twins]:
    folder = tmp_path_factory.mktemp("acls")
    own_acls = ["authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"]
    with (
        over_socket("--data-dir", str(folder / "klamm")) as service,
        Broker(kafka, folder, new_cluster_id(), own_acls) as broker,
        AclsTool(kafka, broker.address, folder) as tool,
    ):
        yield _Twins(tool, service.ready())


def test_each_command_says_and_does_what_kafka_acls_does(twins: _Twins) -> None:
    for line in _STORY:
        theirs, ours = twins.tool.run(*line.split()), twins.ours(line.split())
        assert ours.exit == theirs.exit, line
        assert ordered_words(ours.refusal) == ordered_words(theirs.refusal), line
        assert (FAILED in ours.out) is (FAILED in theirs.out), line
        # Behind it stands what Java or Klamm has to say.
        assert ordered(ours.out.partition(FAILED)[0]) == ordered(theirs.out.partition(FAILED)[0]), line
        # A broker's own ACLs follow those of its controller.
        wait_until(twins.same_acls, f"the same ACLs after {line}")
