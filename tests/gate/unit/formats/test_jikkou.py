"""KafkaPrincipalAuthorization resources as Jikkou's documentation has them."""

from textwrap import dedent, indent

import pytest

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.registry import format_named
from tests.acl_sets import bindings_of, problems_of, recognised, written

FORMAT = format_named("jikkou")
ALICE = """\
apiVersion: "kafka.jikkou.io/v1beta2"
kind: "KafkaPrincipalAuthorization"
metadata:
  name: "User:Alice"
  labels: {}
  annotations: {jikkou.io/managed-by-location: "./x.yaml"}
spec:
  roles: []
  acls:
    - resource:
        type: 'topic'
        pattern: 'my-topic-'
        patternType: 'PREFIXED'
      type: "DENY"
      operations: [ 'READ', 'WRITE' ]
      host: "*"
    - resource:
        type: 'transactional_id'
        pattern: '*'
        patternType: 'LITERAL'
      type: 'ALLOW'
      operations: [ 'DESCRIBE' ]
      host: '*'
"""
TOPIC = 'apiVersion: "kafka.jikkou.io/v1"\nkind: "KafkaTopic"\nmetadata: {name: t}\n'


def acl(operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, "my-topic-", PatternType.PREFIXED, "User:Alice", "*", operation, AclPermissionType.DENY
    )


ACLS = [
    acl(AclOperation.READ),
    acl(AclOperation.WRITE),
    AclBinding(
        ResourceType.TRANSACTIONAL_ID,
        "*",
        PatternType.LITERAL,
        "User:Alice",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    ),
]


def test_documents_and_lists_are_recognised_and_read(subtests: pytest.Subtests) -> None:
    for kind in ["KafkaPrincipalAuthorizationList", "ResourceList", "List"]:
        for version in ["v1beta2", "v1"]:
            with subtests.test(kind=kind, version=version):
                alice = ALICE.replace("v1beta2", version)
                listed = (
                    f"apiVersion: kafka.jikkou.io/{version}\nkind: {kind}\nitems:\n- {indent(alice, '  ').lstrip()}"
                )
                for text in (alice, f"---\n{TOPIC}---\n{alice}", listed, alice.replace("\n", "\r\n")):
                    assert recognised(text.encode()) is FORMAT
                    assert bindings_of(text.encode()) == ACLS
                assert bindings_of(f"---\n{alice}---\n{listed}---\n{TOPIC}".encode()) == ACLS * 2


def test_it_is_written_a_document_each() -> None:
    other = AclBinding(
        ResourceType.TOPIC, "t", PatternType.LITERAL, "User:é", "::1", AclOperation.ALL, AclPermissionType.ALLOW
    )
    assert written(FORMAT, [ACLS[0], other, ACLS[1]]).decode() == dedent(
        """\
        ---
        apiVersion: "kafka.jikkou.io/v1beta2"
        kind: "KafkaPrincipalAuthorization"
        metadata:
          name: "User:Alice"
        spec:
          acls:
            - resource:
                type: "TOPIC"
                pattern: "my-topic-"
                patternType: "PREFIXED"
              type: "DENY"
              host: "*"
              operations: ["READ", "WRITE"]
        ---
        apiVersion: "kafka.jikkou.io/v1beta2"
        kind: "KafkaPrincipalAuthorization"
        metadata:
          name: "User:é"
        spec:
          acls:
            - resource:
                type: "TOPIC"
                pattern: "t"
                patternType: "LITERAL"
              type: "ALLOW"
              host: "::1"
              operations: ["ALL"]
        """
    )


def test_what_is_not_understood_is_told(subtests: pytest.Subtests) -> None:
    for old, new, problem in [
        ("roles: []", "roles: [Reader]", "1: `roles`: only Jikkou can resolve them"),
        ("roles: []", "roles: Reader", "1: `roles`: not a list"),
        ("roles: []", "rolls: []", "1: `rolls`: there is no such field"),
        ("'PREFIXED'", "'MATCH'", "10: `patternType`: a regular expression, which only Jikkou can resolve"),
        ("'PREFIXED'", "'PREFIX'", "10: `pattern_type`: `PREFIX` is not a value that Kafka knows"),
        ("my-topic-", "{{ values.topic }}", "10: `pattern`: a template"),
        ("User:Alice", "User:{% x %}", "1: `name`: a template"),
        ("spec:\n", "template: {values: {}}\nspec:\n", "1: `template`: only Jikkou can fill it in"),
        (
            'managed-by-location: "./x.yaml"',
            "delete: true",
            "1: `jikkou.io/delete`: Jikkou deletes or ignores these ACLs",
        ),
        (
            'managed-by-location: "./x.yaml"',
            "ignore: 'true'",
            "1: `jikkou.io/ignore`: Jikkou deletes or ignores these ACLs",
        ),
        ("  acls:\n", "  ACLs:\n", "1: `ACLs`: there is no such field"),
        ('      type: "DENY"\n', "", "10: `type`: the field is missing"),
        ('      host: "*"\n', "", "10: `host`: the field is missing"),
        ("DENY", "FORBID", "10: `permission_type`: `FORBID` is not a value that Kafka knows"),
        ("'READ', 'WRITE'", "", "10: `operations`: the list is missing, or empty"),
        ("'READ'", "CREATE_TOKEN", "10: `operation`: `CREATE_TOKEN` is not a value that Kafka knows"),
        ("pattern: 'my-topic-'", "pattern: 012", "10: `pattern`: the value is not text"),
        ("User:Alice", "Alice", "10: Could not parse principal"),
        (
            "KafkaPrincipalAuthorization",
            "KafkaPrincipalRole",
            "1: `kafka.jikkou.io/v1beta2` `KafkaPrincipalRole`: unknown to Klamm",
        ),
        ("kafka.jikkou", "kafka.aiven", "1: `kafka.aiven.io/v1beta2` `KafkaPrincipalAuthorization`: unknown to Klamm"),
    ]:
        with subtests.test(old=old, new=new, problem=problem):
            text = ALICE.replace(old, new, 1)
            assert text != ALICE
            found = problems_of(text.encode(), FORMAT)
            assert found[0].startswith(problem), found


@pytest.mark.parametrize("other", ["strimzi", "jikkou"])
def test_a_file_of_two_tools_is_told_whichever_reads_it(other: str) -> None:
    user = (
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata: {name: a}\nspec:\n  authorization:\n"
        "    type: simple\n    acls: [{resource: {type: topic, name: t}, operations: [Read]}]\n"
    )
    for text in (f"{ALICE}---\n{user}", f"{user}---\n{ALICE}"):
        assert any("unknown to Klamm, so it may hold ACLs" in each for each in problems_of(text.encode()))
        given = format_named(other)
        assert any("unknown to Klamm, so it may hold ACLs" in each for each in problems_of(text.encode(), given))
