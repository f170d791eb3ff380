import shlex

import pytest

from app.core.codes import CLUSTER_NAME, AclOperation, ResourceType
from app.core.operations import supported_operations
from app.pipeline.kafka_acls import add_command, remove_command
from app.pipeline.schemas import BINDING_FIELDS


def acl(**changes: str) -> dict[str, str]:
    fields = ("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")
    return {**dict(zip(BINDING_FIELDS, fields, strict=True)), **changes}


def test_a_removal_names_all_seven_fields_and_does_not_ask_back() -> None:
    assert remove_command(acl()) == (
        'kafka-acls --bootstrap-server "$BOOTSTRAP" --remove --force --allow-principal User:alice'
        " --allow-host '*' --operation Read --topic orders --resource-pattern-type LITERAL"
    )


def test_an_addition_of_a_deny_uses_the_flags_for_denies() -> None:
    line = add_command(acl(permission_type="DENY", host="10.0.0.0/8", pattern_type="PREFIXED", operation="ALL"))
    assert line == (
        'kafka-acls --bootstrap-server "$BOOTSTRAP" --add --deny-principal User:alice --deny-host 10.0.0.0/8'
        " --operation All --topic orders --resource-pattern-type PREFIXED"
    )


@pytest.mark.parametrize(
    ("resource_type", "name", "operation", "flags"),
    [
        ("GROUP", "g", "ALTER_CONFIGS", ["AlterConfigs", "--group", "g"]),
        ("CLUSTER", "kafka-cluster", "CLUSTER_ACTION", ["ClusterAction", "--cluster"]),
        ("CLUSTER", "kafka-cluster", "IDEMPOTENT_WRITE", ["IdempotentWrite", "--cluster"]),
        ("TRANSACTIONAL_ID", "t", "TWO_PHASE_COMMIT", ["TwoPhaseCommit", "--transactional-id", "t"]),
        ("DELEGATION_TOKEN", "d", "DESCRIBE", ["Describe", "--delegation-token", "d"]),
        ("USER", "User:bob", "DESCRIBE_TOKENS", ["DescribeTokens", "--user-principal", "User:bob"]),
    ],
)
def test_every_resource_type_has_its_flag(resource_type: str, name: str, operation: str, flags: list[str]) -> None:
    line = remove_command(acl(resource_type=resource_type, resource_name=name, operation=operation))
    words = shlex.split(line)
    assert words[words.index("--operation") + 1 : words.index("--resource-pattern-type")] == flags


@pytest.mark.parametrize("text", ["it's", "a b", "$(reboot)", "`x`", 'a"b', "=ls", "😀é", "-x", "a:b,c|d;.", "\\"])
def test_whatever_stands_in_a_name_reaches_the_tool_unchanged(text: str) -> None:
    words = shlex.split(remove_command(acl(resource_name=text, principal=f"User:{text}", host=text)))
    assert [words[words.index(flag) + 1] for flag in ("--topic", "--allow-principal", "--allow-host")] == [
        text,
        f"User:{text}",
        text,
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"resource_name": "orders "}, "it trims the resource name"),
        ({"principal": " User:alice"}, "it trims the principal"),
        ({"host": "*\n"}, "it trims the host"),
        ({"resource_name": "two\nlines"}, "no command line can show the resource name"),
        ({"principal": "User:a\x1b[2J"}, "no command line can show the principal"),
        ({"host": "a\rb"}, "no command line can show the host"),
        ({"resource_type": "CLUSTER", "pattern_type": "PREFIXED"}, "it knows no prefixed cluster"),
        ({"operation": "CLUSTER_ACTION"}, "it refuses CLUSTER_ACTION on TOPIC"),
    ],
)
def test_what_the_tool_can_not_name_becomes_one_comment_line(changes: dict[str, str], reason: str) -> None:
    for command in (add_command, remove_command):
        line = command(acl(**changes))
        assert line.startswith(f"# not for kafka-acls ({reason}): POST /v1/acls")
        assert "\n" not in line


def test_every_operation_that_a_type_supports_has_a_line() -> None:
    for resource_type in list(ResourceType)[2:]:
        name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else "orders"
        for operation in (AclOperation.ALL, *supported_operations(resource_type)):
            words = {"resource_type": resource_type.name, "resource_name": name, "operation": operation.name}
            line = remove_command(acl(**words))
            assert line.startswith("kafka-acls ")
