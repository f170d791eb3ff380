"""KafkaPrincipalAuthorization resources as Jikkou's documentation has them."""

from textwrap import dedent, indent

import pytest

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.reading import FileSet
from app.formats.registry import format_named
from tests.acl_sets import bindings_of, entries, problems_of, recognised, written

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


def test_items_of_a_list_of_one_kind_may_leave_out_what_they_are(subtests: pytest.Subtests) -> None:
    body = ALICE.partition("\n")[2].partition("\n")[2]
    topics = (
        "apiVersion: kafka.jikkou.io/v1\nkind: KafkaTopicList\nitems:\n- metadata: {name: t}\n- metadata: {name: u}\n"
    )
    listed = "apiVersion: kafka.jikkou.io/v1\nkind: KafkaPrincipalAuthorizationList\nitems:\n"
    item = f"- {indent(body, '  ').lstrip()}"
    files = FileSet()
    found = entries(f"{topics}---\n{listed}{item}".encode(), None, files)
    assert [each.binding for _, each in found if isinstance(each, NewAcl)] == ACLS
    assert files.passed_over() == {"KafkaTopic": 2}
    for text, problem in [
        (
            listed.replace("kind: KafkaPrincipalAuthorizationList", "kind: ResourceList") + item,
            "4: `apiVersion`: the f",
        ),
        (listed + item.replace("- metadata", "- knd: KafkaTopic\n  metadata"), "4: `knd`: there is no such field; did"),
        (listed + item.replace("- metadata", "- kind: KafkaTopik\n  metadata"), "4: `kafka.jikkou.io/v1` `KafkaTopik`"),
        (
            topics.replace("- metadata: {name: t}", f"{item.rstrip()}"),
            "4: `kind`: a KafkaTopic has no ACLs, but this one",
        ),
    ]:
        with subtests.test(problem=problem):
            assert problems_of(text.encode())[0].startswith(problem), problems_of(text.encode())


def test_the_list_that_jikkou_0_31_to_0_35_prints_is_read() -> None:
    head = "apiVersion: kafka.jikkou.io/v1beta2\nkind: KafkaTopicAuthorizationList\nitems:\n- "
    assert bindings_of(f"{head}{indent(ALICE, '  ').lstrip()}".encode()) == ACLS


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
        ("roles: []", "roles: Reader", "8: `roles`: not a list"),
        ("roles: []", "rolls: []", "8: `rolls`: there is no such field; did you mean `roles`?"),
        ("'PREFIXED'", "'MATCH'", "13: `patternType`: a regular expression, which only Jikkou can resolve"),
        ("'PREFIXED'", "'PREFIX'", "13: `patternType`: `PREFIX` is not one of its values; did you mean PREFIXED?"),
        ("my-topic-", "{{ values.topic }}", "12: `pattern`: a template"),
        ("User:Alice", "User:{% x %}", "4: `name`: a template"),
        ("spec:\n", "template: {values: {}}\nspec:\n", "1: `template`: only Jikkou can fill it in"),
        (
            'managed-by-location: "./x.yaml"',
            "delet: true",
            "1: `jikkou.io/delet`: did you mean `jikkou.io/delete`?",
        ),
        ("        patternType: 'PREFIXED'\n", "", "11: `patternType`: the field is missing"),
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
        ("  acls:\n", "  ACLs:\n", "9: `ACLs`: there is no such field"),
        ('      type: "DENY"\n', "", "10: `type`: the field is missing"),
        ('      host: "*"\n', "", "10: `host`: the field is missing"),
        ("DENY", "FORBID", "14: `type`: `FORBID` is not one of its values; write one of DENY, ALLOW"),
        ("'READ', 'WRITE'", "", "15: `operations`: the list is empty"),
        (
            "'READ'",
            "CREATE_TOKEN",
            "15: `operations`: `CREATE_TOKEN` is not one of its values; did you mean CREATE_TOKENS?",
        ),
        ("pattern: 'my-topic-'", "pattern: 012", "12: `pattern`: the value is not text"),
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


def test_kinds_without_acls_are_passed_over_by_name_and_counted(subtests: pytest.Subtests) -> None:
    for group, kind in [
        ("kafka", "KafkaTopic"),
        ("kafka", "KafkaClientQuota"),
        ("kafka", "KafkaConnector"),
        ("kafka", "KafkaUser"),
        ("core", "ConfigMap"),
        ("schemaregistry", "SchemaRegistrySubject"),
        ("iceberg", "IcebergTable"),
    ]:
        with subtests.test(kind=kind):
            other = f"apiVersion: {group}.jikkou.io/v1\nkind: {kind}\nspec: {{}}\n"
            listed = f"apiVersion: {group}.jikkou.io/v1\nkind: {kind}List\nitems:\n- {indent(other, '  ').lstrip()}"
            files = FileSet()
            found = entries(f"{other}---\n{listed}---\n{ALICE}".encode(), None, files)
            assert [each.binding for _, each in found if isinstance(each, NewAcl)] == ACLS
            assert files.passed_over() == {kind: 2}


def test_kinds_that_may_hold_acls_are_refused(subtests: pytest.Subtests) -> None:
    unknown = "unknown to Klamm, so it may hold ACLs"
    for group, kind, hint in [
        ("kafka", "KafkaPrincipalAuthorisation", "kind KafkaPrincipalAuthorization?"),
        ("kafka", "Kafkatopic", "kind KafkaTopic?"),
        ("kafkaa", "KafkaTopic", "apiVersion kafka.jikkou.io/v1, kind KafkaTopic?"),
        ("kafka", "KafkaPrincipalRole", ""),
        ("core", "ValidatingResourcePolicy", ""),
    ]:
        with subtests.test(kind=kind):
            (found,) = problems_of(f"apiVersion: {group}.jikkou.io/v1\nkind: {kind}\nspec: {{}}\n---\n{ALICE}".encode())
            assert unknown in found
            assert hint in found
    (found,) = problems_of(ALICE.replace("KafkaPrincipalAuthorization", "KafkaTopic").encode())
    assert found == "1: `kind`: a KafkaTopic has no ACLs, but this one has a list `spec.acls`; correct its kind"


def test_what_stands_in_another_block_than_its_own_is_refused(subtests: pytest.Subtests) -> None:
    for old, new, problem in [
        (
            "spec:\n  roles: []\n  acls:",
            "spec:\n  roles: []\nacls:",
            "9: `acls`: there is no such field here; it belongs to `spec`",
        ),
        (
            '      type: "DENY"',
            '        host: x\n      type: "DENY"',
            "14: `host`: there is no such field here; it belongs to `spec.acls`",
        ),
        ("  labels: {}", "  labels: {}\n  roles: []", "6: `roles`: there is no such field here; it belongs to `spec`"),
        ("pattern:", "patern:", "12: `patern`: there is no such field; did you mean `pattern`?"),
        ("operations:", "operation:", "15: `operation`: there is no such field; did you mean `operations`?"),
        ("spec:", "stauts: {}\nspec:", "7: `stauts`: there is no such field"),
    ]:
        with subtests.test(new=new):
            text = ALICE.replace(old, new, 1)
            assert text != ALICE
            assert problems_of(text.encode())[0].startswith(problem), problems_of(text.encode())


def test_the_provider_says_of_which_cluster_a_resource_is() -> None:
    live, other = (
        ALICE.replace("{jikkou.io/managed", f"{{jikkou.io/provider: {name}, jikkou.io/managed")
        for name in ("live", "try")
    )
    both = f"{live}---\n{other}".encode()
    assert "it is of the cluster `try`, but line 4 is of `live`" in problems_of(both)[0]
    files = FileSet(of_cluster="try")
    assert len([each for _, each in entries(both, None, files) if isinstance(each, NewAcl)]) == len(ACLS)
    assert files.other_clusters() == {"live": 1}
    assert bindings_of(f"{live}---\n{ALICE}".encode()) == ACLS * 2


def test_false_annotations_mean_nothing() -> None:
    for value in ["false", "'False'"]:
        text = ALICE.replace('managed-by-location: "./x.yaml"', f"delete: {value}, jikkou.io/ignore: {value}")
        assert bindings_of(text.encode()) == ACLS


def test_what_says_something_of_acls_is_told_where_jikkou_does_not_look(subtests: pytest.Subtests) -> None:
    for name in ("provider", "delete", "ignore", "Provider", "providers"):
        with subtests.test(name=name):
            (found,) = problems_of(ALICE.replace("labels: {}", f"labels: {{jikkou.io/{name}: live}}").encode())
            assert f"`jikkou.io/{name}`: not a label; write `jikkou.io/" in found
            for block in ("labels", "annotations"):
                listed = (
                    "apiVersion: kafka.jikkou.io/v1\nkind: KafkaPrincipalAuthorizationList\n"
                    f"metadata: {{{block}: {{jikkou.io/{name}: live}}}}\nitems:\n- "
                ) + indent(ALICE, "  ").lstrip(" -\n")
                (found,) = problems_of(listed.encode())
                assert f"`jikkou.io/{name}`: it says nothing about the items of a list" in found
    (found,) = problems_of(ALICE.replace('managed-by-location: "./x.yaml"', "provider: [live]").encode())
    assert "`jikkou.io/provider`: not a name" in found


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
