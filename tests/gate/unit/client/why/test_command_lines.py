"""Commands that are shown are those that `klamm acls` understands: each means just the ACL that it was made for."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.client.acl_texts import command_for
from app.client.acls.meaning import acls_to_add, acls_to_remove, check_options
from app.client.acls.options import parse_options
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.operations import supported_operations
from app.core.readable import visible
from app.formats.quoting import shell_line

PRINTABLE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
TOPICS = st.builds(
    AclBinding,
    st.sampled_from([each for each in ResourceType if each > ResourceType.ANY and each is not ResourceType.CLUSTER]),
    PRINTABLE | st.sampled_from(["*", "-x", "--topic", "a b", "it's", "a,b=c", "$HOME", "`id`", "=ls"]),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from(["User:bob", "User:*", "User:CN=a b, O='x'", "Group:-y", ":"]),
    st.sampled_from(["*", "10.1.2.3", "10.0.0.0/8", "0:0:0:0:0:0:0:1"]),
    st.sampled_from(AclOperation),
    st.sampled_from((AclPermissionType.ALLOW, AclPermissionType.DENY)),
)


def meant_by(words: list[str]) -> list[AclBinding]:
    assert words[:2] == ["klamm", "acls"]
    given_options = parse_options(words[2:])
    assert given_options.strays == []
    meant = {"add": acls_to_add, "remove": acls_to_remove}[check_options(given_options)](given_options)
    return [pattern.with_entry(entry) for pattern, entries in meant.items() for entry in entries]


@given(TOPICS, st.sampled_from(("add", "remove")))
def test_a_command_means_its_acl_and_no_other(acl: AclBinding, action: str) -> None:
    command = command_for(action, acl, ("--as", "User:admin"))
    sayable = acl.operation is AclOperation.ALL or acl.operation in supported_operations(acl.resource_type)
    # A name that can't be seen can't be copied either.
    assert (command is not None) is (sayable and visible(acl.resource_name) == acl.resource_name)
    if command is not None:
        assert meant_by(shlex.split(command)) == [acl]


def topic(name: str, **changes: object) -> AclBinding:
    fields: dict[str, object] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "pattern_type": PatternType.LITERAL,
        "principal": "User:bob",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermissionType.ALLOW,
    }
    return AclBinding(**{**fields, **changes})  # type: ignore[arg-type]  # fields by name


def test_the_command_is_as_short_as_can_be() -> None:
    assert command_for("add", topic("orders")) == (
        "klamm acls --add --allow-principal User:bob --operation Read --topic orders"
    )
    changed = topic("o", pattern_type=PatternType.PREFIXED, host="10.0.0.0/8", permission_type=AclPermissionType.DENY)
    assert command_for("remove", changed, ("--klamm", "http://k:1")) == (
        "klamm acls --klamm http://k:1 --remove --deny-principal User:bob --deny-host 10.0.0.0/8 --operation Read "
        "--topic o --resource-pattern-type PREFIXED"
    )


def test_the_cluster_has_no_name() -> None:
    acl = topic("kafka-cluster", resource_type=ResourceType.CLUSTER, operation=AclOperation.IDEMPOTENT_WRITE)
    command = command_for("add", acl)
    assert command == "klamm acls --add --allow-principal User:bob --operation IdempotentWrite --cluster"
    assert meant_by(shlex.split(command)) == [acl]


def test_blanks_around_transactional_ids_are_kept_as_by_kafka_acls() -> None:
    acl = topic(" tx ", resource_type=ResourceType.TRANSACTIONAL_ID, operation=AclOperation.WRITE)
    command = command_for("add", acl)
    assert command is not None
    assert meant_by(shlex.split(command)) == [acl]


def test_what_the_flags_have_no_way_to_say_has_no_command(subtests: pytest.Subtests) -> None:
    for acl in [
        topic(" orders"),
        topic("orders\n"),
        topic(""),
        topic("orders", principal="User:bob "),
        topic("orders", operation=AclOperation.CLUSTER_ACTION),
        topic("orders", operation=AclOperation.UNKNOWN),
        topic("kafka-cluster", resource_type=ResourceType.CLUSTER, operation=AclOperation.READ),
        topic(
            "kafka-cluster",
            resource_type=ResourceType.CLUSTER,
            operation=AclOperation.ALTER,
            pattern_type=PatternType.PREFIXED,
        ),
        topic("orders", resource_type=ResourceType.UNKNOWN),
    ]:
        with subtests.test(acl=acl):
            assert command_for("add", acl) is None


UNPRINTABLE = (
    "a\nb", "a\rb", "a\tb", "a\x1b[31mb", "a\x1b]0;x\x07b", "a\x9bb", "a\x7fb", "a\x01b", "é\u202eb", "a\u2028b",
    "a'\ntouch owned\n'", "a\u200bb",
)  # fmt: skip


def test_what_can_not_be_printed_has_no_command(subtests: pytest.Subtests) -> None:
    for name in UNPRINTABLE:
        with subtests.test(name=name):
            for acl in (topic(name), topic("t", principal=f"User:{name}"), topic("t", host=name)):
                for action in ("add", "remove"):
                    assert command_for(action, acl) is None
            assert command_for("add", topic("t"), ("--as", f"User:{name}")) is None


@given(TOPICS, st.text(max_size=8))
def test_a_line_is_printable_and_means_its_words_or_there_is_none(acl: AclBinding, text: str) -> None:
    line = shell_line(["klamm", text, acl.resource_name])
    assert (line is not None) is (visible(text + acl.resource_name) == text + acl.resource_name)
    if line is not None:
        assert line.isprintable()
        assert shlex.split(line) == ["klamm", text, acl.resource_name]
