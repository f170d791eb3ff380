import io
from textwrap import dedent, indent

import pytest

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats import yaml_documents
from app.formats.acl_entries import FormatLimitError
from app.formats.registry import format_named
from tests.acl_sets import bindings_of, problems_of, recognised, written

FORMAT = format_named("strimzi")

USER = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaUser
metadata:
  name: my-user
  labels:
    strimzi.io/cluster: my-cluster
spec:
  authentication:
    type: tls
  authorization:
    type: simple
    acls:
      - resource:
          type: topic
          name: my-topic
          patternType: literal
        operations:
          - Read
          - Describe
        host: "*"
      - resource: {type: group, name: my-, patternType: prefix}
        operation: Read
        type: deny
      - resource:
          type: cluster
        operations: [ClusterAction]
        host: 10.0.0.0/8
      - resource: {type: transactionalId, name: "*"}
        operations: ["All"]
"""


def acl(name: str = "t", principal: str = "User:a", operation: AclOperation = AclOperation.READ) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW)


def read(text: str) -> list[AclBinding]:
    return bindings_of(text.encode(), FORMAT)


def told(text: str) -> list[str]:
    return problems_of(text.encode(), FORMAT)


def user(rules: str) -> str:
    return (
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata: {name: a}\nspec:\n"
        "  authorization:\n    type: simple\n    acls:\n" + indent(dedent(rules).strip("\n"), "      ") + "\n"
    )


def test_a_user_as_strimzis_documentation_has_it_is_read() -> None:
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    principal = "User:CN=my-user"
    literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
    assert recognised(USER.encode()) is FORMAT
    assert read(USER) == [
        AclBinding(ResourceType.TOPIC, "my-topic", literal, principal, "*", AclOperation.READ, allow),
        AclBinding(ResourceType.TOPIC, "my-topic", literal, principal, "*", AclOperation.DESCRIBE, allow),
        AclBinding(ResourceType.GROUP, "my-", prefixed, principal, "*", AclOperation.READ, deny),
        AclBinding(
            ResourceType.CLUSTER, "kafka-cluster", literal, principal, "10.0.0.0/8", AclOperation.CLUSTER_ACTION, allow
        ),
        AclBinding(ResourceType.TRANSACTIONAL_ID, "*", literal, principal, "*", AclOperation.ALL, allow),
    ]


@pytest.mark.parametrize(
    ("authentication", "principal"),
    [
        ("tls", "User:CN=my-user"),
        ("tls-external", "User:CN=my-user"),
        ("scram-sha-512", "User:my-user"),
        (None, "User:my-user"),
    ],
)
def test_the_principal_is_made_of_name_and_authentication(authentication: str | None, principal: str) -> None:
    block = "  authentication:\n    type: tls\n"
    text = USER.replace(block, "" if authentication is None else block.replace("tls", authentication))
    assert {each.principal for each in read(text)} == {principal}


def test_several_documents_and_lists_are_read_and_other_kinds_passed_over() -> None:
    topic = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata: {name: t}\n"
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + indent(USER, "  ").lstrip()
    text = f"---\n{USER}---\n{topic}---\n---\n{listed}"
    assert read(text) == read(USER) * 2


def test_other_kinds_of_kubernetes_and_strimzi_are_passed_over(subtests: pytest.Subtests) -> None:
    for version in [
        "v1",
        "apps/v1",
        "batch/v1",
        "rbac.authorization.k8s.io/v1",
        "kafka.strimzi.io/v1beta2",
        "core.strimzi.io/v1",
    ]:
        with subtests.test(version=version):
            assert read(f"apiVersion: {version}\nkind: Other\nspec: {{}}\n---\n{USER}") == read(USER)


def test_the_json_of_kubectl_is_read() -> None:
    text = """{"apiVersion": "v1", "items": [{"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaUser",
      "metadata": {"name": "a"}, "spec": {"authorization": {"type": "simple", "acls": [
        {"resource": {"type": "topic", "name": "t\\u00e9\\/"}, "operations": ["Read"]}]}}}], "kind": "List"}"""
    assert recognised(text.encode()) is FORMAT
    assert read(text) == [acl("té/")]


def test_users_without_acls_have_none() -> None:
    head = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata: {name: a}\n"
    assert read(head + "spec: {}\n---\n" + USER) == read(USER)
    assert read(head + "spec: {authorization: {type: simple}}\n---\n" + USER) == read(USER)
    assert read(head + "spec: {authorization: {type: simple, acls: []}}\n---\n" + USER) == read(USER)
    assert read(head + "spec: {authorization: null, authentication: ~}\n---\n" + USER) == read(USER)


def test_it_is_written_a_user_each_with_rules_that_share_what_they_can() -> None:
    bindings = [
        acl(),
        acl(operation=AclOperation.ALTER_CONFIGS),
        AclBinding(
            ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:CN=b.c", "::1", AclOperation.ALL,
            AclPermissionType.DENY,
        ),
    ]  # fmt: skip
    assert written(FORMAT, bindings).decode() == dedent(
        """\
        apiVersion: kafka.strimzi.io/v1
        kind: KafkaUser
        metadata:
          name: "a"
        spec:
          authentication:
            type: scram-sha-512
          authorization:
            type: simple
            acls:
              - type: allow
                resource:
                  type: topic
                  name: "t"
                  patternType: literal
                host: "*"
                operations: [Read, AlterConfigs]
        ---
        apiVersion: kafka.strimzi.io/v1
        kind: KafkaUser
        metadata:
          name: "b.c"
        spec:
          authentication:
            type: tls
          authorization:
            type: simple
            acls:
              - type: deny
                resource:
                  type: cluster
                host: "::1"
                operations: [All]
        """
    )


def test_principals_that_strimzi_can_not_make_are_named(subtests: pytest.Subtests) -> None:
    for principal, limit in [
        ("Group:a", "only principals of type User"),
        ("User:*", "names"),
        ("User:Alice", "lower case"),
        ("User:", "names"),
        ("User:a_b", "names"),
        ("User:-a", "names"),
        ("User:a\n", "names"),
        ("User:CN=a,O=b", "names"),
        ("User:" + "a" * 254, "names"),
        ("User:CN=" + "a" * 65, "up to 64 characters with CN="),
        ("User:CN=a", "a KafkaUser of this name, `User:a`"),
    ]:
        with subtests.test(principal=principal, limit=limit):
            out = io.StringIO()
            with pytest.raises(FormatLimitError) as refused:
                FORMAT.write([NewAcl(acl()), NewAcl(acl(principal=principal))], out)
            assert limit in str(refused.value)
            assert refused.value.binding.principal == principal
            assert out.getvalue() == ""


def test_the_longest_names_are_written() -> None:
    bindings = [acl(principal="User:" + "a" * 253), acl(principal="User:CN=" + "b" * 64)]
    assert read(written(FORMAT, bindings).decode()) == bindings


def test_a_rule_that_strimzi_would_not_take_is_told_by_its_line(subtests: pytest.Subtests) -> None:
    for rule, problem in [
        ("- {resource: {type: topic, name: t}}", "8: `operations`: the list is missing, or empty"),
        ("- {resource: {type: topic, name: t}, operations: []}", "8: `operations`: the list is missing, or empty"),
        ("- {resource: {type: topic, name: t}, operations: Read}", "8: `operations`: the list is missing, or empty"),
        ("- {resource: {type: topic, name: t}, operations: [1]}", "8: `operations`: an entry is not text"),
        (
            "- {resource: {type: topic, name: t}, operations: [READ]}",
            "8: `operations`: `READ` is not one of its values",
        ),
        (
            "- {resource: {type: topic, name: t}, operations: [CreateTokens]}",
            "8: `operations`: `CreateTokens` is not one of its values",
        ),
        (
            "- {resource: {type: topic, name: t}, operations: [Read], operation: Read}",
            "8: `operation` and `operations`: both are given",
        ),
        ("- {resource: {type: user, name: t}, operations: [Read]}", "8: `type`: `user` is not one of its values"),
        ("- {resource: {type: topic}, operations: [Read]}", "8: `name`: the field is missing"),
        ("- {resource: {type: topic, name: ''}, operations: [Read]}", "8: Invalid empty resource name"),
        ("- {resource: {type: topic, name: 012}, operations: [Read]}", "8: `name`: the value is not text; write it in"),
        ("- {resource: {type: topic, name: yes}, operations: [Read]}", "8: `name`: the value is not text"),
        ("- {resource: {type: topic, name: 2026-01-01}, operations: [Read]}", "8: `name`: the value is not text"),
        ("- {resource: {type: topic, name: }, operations: [Read]}", "8: `name`: the value is not text"),
        (
            "- {resource: {type: topic, name: t, patternType: prefixed}, operations: [Read]}",
            "8: `patternType`: `prefixed` is not one of its values; write one of literal, prefix",
        ),
        ("- {resource: {type: cluster, name: x}, operations: [Read]}", "8: `resource`: a cluster has neither name"),
        ("- {resource: {type: topic, name: t}, operations: [Read], hots: x}", "8: `hots`: there is no such field"),
        ("- {resource: {type: topic, name: t}, operations: [Read], host: ''}", "8: Host pattern cannot be null"),
        ("- {resource: {type: topic, name: t}, operations: [Read], host: 10.0.0.0/33}", "8: Invalid CIDR notation"),
        ("- {resource: {type: topic, name: t}, operations: [Read], type: permit}", "8: `type`: `permit` is not one of"),
        ("- {resource: x, operations: [Read]}", "8: `resource`: not a mapping"),
        ("- x", "8: `acls`: an entry is not a rule"),
        ("x: y", "1: `acls`: not a list; write one"),
        ("- a: 1\n  a: 2", "9: `a`: the key comes more than once; write it once"),
        ("- <<: {a: 1}", "8: merge keys (`<<`) are not supported; write the fields out"),
        ("- !!python/object/apply:os.system ['true']", "8: the tag `tag:yaml.org,2002:python/object/apply:os.system`"),
        ("- !mine {a: 1}", "8: the tag `!mine` is not supported; remove it"),
        ("- {!mine a: 1}", "8: the tag `!mine` is not supported; remove it"),
        ("- &a [*a]", "8: an alias stands within what it stands for; write the value out"),
        ("- [x]\n- *a", "9: `*a` has no anchor before it; write the value out"),
        ("- &a [x]\n- &a [y]", "9: `&a`: the anchor comes more than once; give each a name of its own"),
        ("- " + "[" * 40, "8: it is nested deeper than 32 levels"),
        ("- " + "[" * 1_000_000, "8: it is nested deeper than 32 levels"),
        ("- " + "[" * 28 + "x" + "]" * 28, "8: `acls`: an entry is not a rule"),
        ("- {resource: *, operations: [Read]}", "8: not YAML:"),
        ("- {", "9: not YAML:"),
        ("- ? [a]\n  : b", "8: a key is not text; write a name"),
    ]:
        with subtests.test(rule=rule, problem=problem):
            found = told(user(rule))
            assert found[0].startswith(problem), found


def test_a_resource_that_is_not_as_it_should_be_is_told(subtests: pytest.Subtests) -> None:
    for old, new, problem in [
        ("kind: KafkaUser", "kind: Kafkauser", "1: `kafka.strimzi.io/v1beta2` `Kafkauser`: write apiVersion"),
        ("kafka.strimzi.io/v1beta2", "v1", "1: `v1` `KafkaUser`: write apiVersion kafka.strimzi.io/v1, kind KafkaUser"),
        ("kind: KafkaUser\n", "", "1: `kind`: the field is missing"),
        ("name: my-user", "name: My-User", "1: `name`: `My-User` is not a Kubernetes name"),
        ("type: tls", "type: kerberos", "1: `authentication`: the principal of type `kerberos` is unknown to Klamm"),
        ("  authorization:\n", "  authorisation:\n", "1: `authorisation`: there is no such field"),
        ("    acls:\n", "    ACLs:\n", "1: `ACLs`: there is no such field"),
        (
            "kafka.strimzi.io/v1beta2\nkind: KafkaUser",
            "kafka.jikkou.io/v1\nkind: X",
            "1: `kafka.jikkou.io/v1` `X`: unknown to Klamm",
        ),
        (
            "kafka.strimzi.io/v1beta2\nkind: KafkaUser",
            "a.example.com/v1\nkind: Acl",
            "1: `a.example.com/v1` `Acl`: unknown to Klamm",
        ),
        ("type: simple", "type: opa", "1: `authorization`: type `opa` holds no ACLs"),
        ("metadata:\n  name: my-user", "metadata:", "1: `name`: the field is missing"),
        ("  name: my-user", "  name: 7", "1: `name`: the value is not text; write it in quotes"),
    ]:
        with subtests.test(old=old, new=new, problem=problem):
            text = USER.replace(old, new, 1)
            assert text != USER
            assert told(text)[0].startswith(problem), told(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a, b]", "1: not a resource; write a KafkaUser"),
        ("a", "1: not a resource; write a KafkaUser"),
        ("kind: List\napiVersion: v1\nitems: {}", "1: `items`: the field is missing, or not a list"),
        ("kind: List\napiVersion: v1\nitems:\n- {kind: List, apiVersion: v1, items: []}", "4: a list within a list"),
        ("kind: a\x01b", "1: not YAML:"),
    ],
)
def test_what_is_no_resource_is_told(text: str, problem: str) -> None:
    assert told(text)[0].startswith(problem), told(text)


def test_bytes_that_are_no_text_are_told() -> None:
    assert problems_of(b"kind: x\na: \xff", FORMAT) == ["2: not UTF-8; encode it as UTF-8"]


def test_an_alias_is_told_by_its_name_in_a_file_with_a_byte_order_mark() -> None:
    assert told("\ufeff# \u00e9\r\na: *b, *c") == ["2: `*b` has no anchor before it; write the value out"]


def test_an_alias_is_what_it_stands_for() -> None:
    rules = """
    - {resource: &r {type: topic, name: t}, operations: &o [Read]}
    - {resource: *r, operations: *o, type: deny}
    """
    first, second = read(user(rules))
    assert first == acl()
    assert second.permission_type is AclPermissionType.DENY


def test_a_bomb_of_aliases_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "MAX_DOCUMENT_VALUES", 10_000)
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for at in range(20):
        name, before = chr(ord("b") + at), chr(ord("a") + at)
        bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    assert told(bomb) == ["4: a document of more than 10000 values; split it into several"]


def test_a_list_is_bounded_before_it_is_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "MAX_DOCUMENT_VALUES", 10_000)
    assert told("\n" + "- x\n" * 9_999) == ["2: not a resource; write a KafkaUser"]
    # What comes after the bound is not even read.
    assert told("\n" + "- x\n" * 10_000 + "{") == ["2: a document of more than 10000 values; split it into several"]


def test_a_file_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "MAX_YAML_BYTES", 1_000)
    assert told("#" * 1_001) == ["1: YAML of more than 1000 bytes; split it into several files"]
    (problem,) = told("#" * 1_000)
    assert problem.startswith("1: it holds no ACLs")
