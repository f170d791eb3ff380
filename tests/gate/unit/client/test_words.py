"""Kafka's words as operators type them."""

import pytest

from app.client.words import operation_named, principal_named, resource_named
from app.core.kafka.codes import AclOperation, ResourceType
from app.formats.arguments import one_line
from app.formats.command_errors import UsageError


def test_an_operation_is_known_in_every_usual_spelling(subtests: pytest.Subtests) -> None:
    for operation in [each for each in AclOperation if each.name not in ("UNKNOWN", "ANY")]:
        with subtests.test(operation=operation):
            spellings = {
                operation.name,
                operation.name.lower(),
                operation.camel_case,
                operation.name.replace("_", "-").lower(),
            }
            assert {operation_named(spelling) for spelling in spellings} == {operation}


@pytest.mark.parametrize("text", ["", "ANY", "unknown", "Reed", "READ WRITE"])
def test_a_word_that_is_none_is_told_with_those_that_are(text: str) -> None:
    with pytest.raises(UsageError, match="READ, WRITE") as caught:
        operation_named(text)
    assert "ANY," not in str(caught.value)
    assert "UNKNOWN" not in str(caught.value).removeprefix(f"`{text}`")


def test_a_resource_is_its_type_and_name(subtests: pytest.Subtests) -> None:
    for text, expected in [
        ("topic:orders", (ResourceType.TOPIC, "orders")),
        ("TOPIC:a:b", (ResourceType.TOPIC, "a:b")),
        ("transactional-id:t", (ResourceType.TRANSACTIONAL_ID, "t")),
        ("user:User:bob", (ResourceType.USER, "User:bob")),
        ("cluster", (ResourceType.CLUSTER, "kafka-cluster")),
        ("cluster:kafka-cluster", (ResourceType.CLUSTER, "kafka-cluster")),
        ("delegation_token: x ", (ResourceType.DELEGATION_TOKEN, " x ")),
    ]:
        with subtests.test(text=text, expected=expected):
            assert resource_named(text) == expected


def test_what_is_no_resource_is_refused(subtests: pytest.Subtests) -> None:
    for text in ["", "orders", "topic:", ":orders", "any:x", "queue:x"]:
        with subtests.test(text=text), pytest.raises(UsageError):
            resource_named(text)


def test_a_principal_has_a_type() -> None:
    assert principal_named("User:CN=a, O=b") == "User:CN=a, O=b"
    with pytest.raises(UsageError, match="User:alice"):
        principal_named("alice")


def test_a_line_for_the_operator_moves_no_cursor() -> None:
    assert one_line("a\nb\x1b[2Jc\u202e é日") == "a\\nb\\x1b[2Jc\\u202e é日"
    assert len(one_line("x" * 10_000)) < 5_000
