import shlex

import pytest

from app.client.acls.meaning import Meant, acls_to_add, acls_to_remove, check_options
from app.client.acls.options import Given, parse_options
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import CLUSTER_NAME, AclOperation, AclPermissionType, ResourceType
from app.core.kafka.operations import supported_operations


def acl(**changes: str) -> AclBinding:
    from app.pipeline.history.schemas import BINDING_FIELDS

    fields = ("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")
    return AclBinding.from_words({**dict(zip(BINDING_FIELDS, fields, strict=True)), **changes}.values())


def removal(tool: str = "klamm", **changes: str) -> str:
    from app.pipeline.hygiene.mending import Removal, remove_command

    return remove_command(Removal("REDUNDANT", acl(**changes)), tool)


def test_a_removal_names_all_seven_fields_and_does_not_ask_back() -> None:
    from app.pipeline.hygiene.mending import KAFKA_ACLS

    assert removal(KAFKA_ACLS) == (
        'kafka-acls --bootstrap-server "${BOOTSTRAP:?}" --remove --force --allow-principal User:alice'
        " --allow-host '*' --operation Read --topic orders --resource-pattern-type LITERAL"
    )


def test_an_addition_of_a_deny_uses_the_flags_for_denies() -> None:
    from app.pipeline.hygiene.mending import KAFKA_ACLS, add_command

    line = add_command(
        acl(permission_type="DENY", host="10.0.0.0/8", pattern_type="PREFIXED", operation="ALL"), KAFKA_ACLS
    )
    assert line == (
        'kafka-acls --bootstrap-server "${BOOTSTRAP:?}" --add --deny-principal User:alice --deny-host 10.0.0.0/8'
        " --operation All --topic orders --resource-pattern-type PREFIXED"
    )


def test_every_resource_type_has_its_flag(subtests: pytest.Subtests) -> None:
    for resource_type, name, operation, flags in [
        ("GROUP", "g", "ALTER_CONFIGS", ["AlterConfigs", "--group", "g"]),
        ("CLUSTER", "kafka-cluster", "CLUSTER_ACTION", ["ClusterAction", "--cluster"]),
        ("CLUSTER", "kafka-cluster", "IDEMPOTENT_WRITE", ["IdempotentWrite", "--cluster"]),
        ("TRANSACTIONAL_ID", "t", "TWO_PHASE_COMMIT", ["TwoPhaseCommit", "--transactional-id", "t"]),
        ("DELEGATION_TOKEN", "d", "DESCRIBE", ["Describe", "--delegation-token", "d"]),
        ("USER", "User:bob", "DESCRIBE_TOKENS", ["DescribeTokens", "--user-principal", "User:bob"]),
    ]:
        with subtests.test(resource_type=resource_type, name=name, operation=operation, flags=flags):
            line = removal(resource_type=resource_type, resource_name=name, operation=operation)
            words = shlex.split(line)
            assert words[words.index("--operation") + 1 : words.index("--resource-pattern-type")] == flags


def test_whatever_stands_in_a_name_reaches_the_tool_unchanged(subtests: pytest.Subtests) -> None:
    for text in ["it's", "a b", "$(reboot)", "`x`", 'a"b', "=ls", "😀é", "-x", "a:b,c|d;.", "\\"]:
        with subtests.test(text=text):
            words = shlex.split(removal(resource_name=text, principal=f"User:{text}", host=text))
            assert [words[words.index(flag) + 1] for flag in ("--topic", "--allow-principal", "--allow-host")] == [
                text,
                f"User:{text}",
                text,
            ]


def test_what_the_tool_can_not_name_becomes_one_comment_line(subtests: pytest.Subtests) -> None:
    from app.pipeline.hygiene.mending import add_command

    for changes, reason in [
        ({"resource_name": "orders "}, "it trims the resource name"),
        ({"principal": " User:alice"}, "it trims the principal"),
        ({"host": "*\n"}, "it trims the host"),
        ({"resource_name": "two\nlines"}, "no command line can show the resource name"),
        ({"principal": "User:a\x1b[2J"}, "no command line can show the principal"),
        ({"host": "a\rb"}, "no command line can show the host"),
        ({"resource_type": "CLUSTER", "pattern_type": "PREFIXED"}, "it does not support a prefixed cluster"),
        ({"operation": "CLUSTER_ACTION"}, "it refuses CLUSTER_ACTION on TOPIC"),
    ]:
        with subtests.test(changes=changes, reason=reason):
            for tool, called in (("klamm", "klamm acls"), ("kafka-acls", "kafka-acls")):
                for line in (add_command(acl(**changes), tool), removal(tool, **changes)):
                    assert line.startswith(f"# not for {called} ({reason}): POST /v1/acls")
                    assert "\n" not in line


def test_every_operation_that_a_type_supports_has_a_line() -> None:
    from app.pipeline.hygiene.mending import KAFKA_ACLS

    for resource_type in list(ResourceType)[2:]:
        name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else "orders"
        for operation in (AclOperation.ALL, *supported_operations(resource_type)):
            words = {"resource_type": resource_type.name, "resource_name": name, "operation": operation.name}
            assert removal(KAFKA_ACLS, **words).startswith("kafka-acls ")


NASTY = ["orders", "it's", "a b", "$(reboot)", "`x`", 'a"b', "😀é", "-x", "--force", "a:b,c|d.", "\\"]


def test_klamm_acls_itself_reads_a_printed_command_as_this_one_acl(subtests: pytest.Subtests) -> None:
    from app.pipeline.hygiene.mending import Removal, add_command, remove_command

    for text in NASTY:
        for permission_type in ["ALLOW", "DENY"]:
            with subtests.test(text=text, permission_type=permission_type):
                for resource_type in list(ResourceType)[2:]:
                    name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else text
                    wanted = acl(
                        resource_type=resource_type.name, resource_name=name, principal=f"User:{text}", operation="ALL"
                    )
                    wanted = wanted._replace(permission_type=AclPermissionType[permission_type], host=text)
                    added = _read(add_command(wanted))
                    gone = _read(remove_command(Removal("REDUNDANT", wanted)))
                    assert (check_options(added), check_options(gone)) == ("add", "remove")
                    assert _only(acls_to_add(added)) == _only(acls_to_remove(gone)) == wanted
                    assert gone.has("force")
                    assert added.value("klamm") == gone.value("klamm") == "http://klamm:8080"
                    assert added.strays == gone.strays == []


def _read(line: str) -> Given:
    """The options of the command, as a shell hands them on."""
    words = shlex.split(line.replace("${KLAMM:?}", "http://klamm:8080"))
    assert words[:2] == ["klamm", "acls"]
    return parse_options(words[2:])


def _only(meant: Meant) -> AclBinding:
    ((pattern, (entry,)),) = meant.items()
    return pattern.with_entry(entry)


@pytest.mark.parametrize("kind", ["UNUSED", "DETACHED", "OVER_BROAD", "VOID", "WHATEVER"])
def test_nothing_but_another_deny_is_a_reason_to_remove_a_deny(kind: str) -> None:
    from app.pipeline.hygiene.mending import Removal, mend_of

    deny = acl(permission_type="DENY")
    with pytest.raises(ValueError, match=f"{kind} is not a reason to remove a DENY"):
        Removal(kind, deny)
    assert mend_of(kind, deny, [list(acl().words)]) == []
    assert len(mend_of("REDUNDANT", deny, [])) == 1
    assert mend_of("REDUNDANT", deny, None) == []


def test_what_is_void_unused_or_on_no_resource_is_removed_if_it_allows() -> None:
    from app.pipeline.hygiene.mending import KAFKA_ACLS, Removal, mend_of, remove_command

    for kind in ("VOID", "REDUNDANT", "UNUSED", "DETACHED"):
        assert mend_of(kind, acl(), [], KAFKA_ACLS) == [remove_command(Removal(kind, acl()), KAFKA_ACLS)]
    assert mend_of("OVER_BROAD", acl(), None) == []
    narrow = mend_of("OVER_BROAD", acl(resource_name="*"), [list(acl().words)])
    assert [line.split()[4] for line in narrow] == ["--add", "--remove"]
