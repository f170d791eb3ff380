"""ACLs that no command of kafka-acls names, each with the reason."""

import pytest

from app.core.kafka.acl_command import beyond_kafka_acls
from app.core.kafka.bindings import AclBinding

GOOD = "TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"


def binding(*words: str) -> AclBinding:
    return AclBinding.from_words((*words, *GOOD[len(words) :]))


@pytest.mark.parametrize(
    ("acl", "why"),
    [
        (binding(), None),
        (binding("TRANSACTIONAL_ID", " tx ", "LITERAL", "User:alice", "*", "WRITE"), None),
        (binding("CLUSTER", "kafka-cluster", "LITERAL", "User:alice", "*", "ALTER"), None),
        (binding("TOPIC", " orders"), "it trims the resource name"),
        (binding("TOPIC", "orders", "LITERAL", "User:alice "), "it trims the principal"),
        (binding("GROUP", "g\u200b"), "no command line can show the resource name"),
        (binding("CLUSTER", "kafka", "PREFIXED"), "it does not support a prefixed cluster"),
        (binding("CLUSTER", "kafka"), "it supports no cluster but kafka-cluster"),
        (binding("GROUP", "g", "LITERAL", "User:alice", "*", "WRITE"), "it refuses WRITE on GROUP"),
    ],
)
def test_what_no_command_names_is_said_with_the_reason(acl: AclBinding, why: str | None) -> None:
    assert beyond_kafka_acls(acl) == why
