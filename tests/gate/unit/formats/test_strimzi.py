import io
import re
from textwrap import dedent, indent

import pytest

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats import yaml_documents
from app.formats.acl_entries import FormatLimitError
from app.formats.reading import FileSet
from app.formats.registry import format_named
from tests.acl_sets import bindings_of, entries, problems_of, recognised, written

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


def read_with(text: str, of_cluster: str | None = None) -> tuple[list[AclBinding], dict[str, int]]:
    """The ACLs, and what was passed over."""
    files = FileSet(of_cluster=of_cluster)
    found = entries(text.encode(), FORMAT, files)
    assert all(isinstance(each, NewAcl) for _, each in found), found
    return [each.binding for _, each in found if isinstance(each, NewAcl)], dict(files.passed_over())


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


def test_kinds_without_acls_are_passed_over_by_name_and_counted(subtests: pytest.Subtests) -> None:
    for version, kind in [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "CronJob"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("policy/v1", "PodDisruptionBudget"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("monitoring.coreos.com/v1", "PodMonitor"),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
        ("kafka.strimzi.io/v1beta2", "Kafka"),
        ("kafka.strimzi.io/v1", "KafkaTopic"),
        ("core.strimzi.io/v1", "StrimziPodSet"),
        ("access.strimzi.io/v1alpha1", "KafkaAccess"),
    ]:
        with subtests.test(version=version, kind=kind):
            other = f"apiVersion: {version}\nkind: {kind}\nspec: {{acls: {{x: [y]}}}}\n"
            listed = f"apiVersion: {version}\nkind: {kind}List\nitems:\n- " + indent(other, "  ").lstrip()
            found, passed_over = read_with(f"{other}---\n{USER}---\n{listed}")
            assert found == read(USER)
            assert passed_over == {kind: 2}


def test_a_kustomization_that_changes_users_is_refused(subtests: pytest.Subtests) -> None:
    head = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\nnamespace: kafka\n"
    for field in ["namePrefix: prod-", "patches: [{path: p.yaml}]", "components: [c]", "vars: [{name: x}]"]:
        with subtests.test(field=field):
            name = field.partition(":")[0]
            (found,) = told(f"{head}{field}\n")
            assert found.startswith(f"5: `{name}`: it changes other resources; give what is made of them")
            files = FileSet(frozenset({name}))
            assert entries(f"{head}{field}\n".encode(), FORMAT, files) == []
            assert files.passed_over() == {"Kustomization": 1, name: 1}
    assert told(f"{head}patches: ~\nreplacements: []\nnamePrefix: ''\n") == []


def test_kinds_that_may_hold_acls_are_refused_with_the_kind_that_is_meant(subtests: pytest.Subtests) -> None:
    unknown = "unknown to Klamm, so it may hold ACLs"
    for version, kind, problem in [
        ("v1", "AccessControlEntry", f"1: `v1` `AccessControlEntry`: {unknown}; leave it out"),
        ("v1", "Configmap", f"1: `v1` `Configmap`: {unknown}; did you mean apiVersion v1, kind ConfigMap?"),
        ("v2", "Secret", f"1: `v2` `Secret`: {unknown}; did you mean apiVersion v1, kind Secret?"),
        ("kafka.strimzi.io/v1", "KafkaUsr", "did you mean apiVersion kafka.strimzi.io/v1, kind KafkaUser?"),
        ("kafka.strimzi.io/v1", "kafkatopic", "did you mean apiVersion kafka.strimzi.io/v1, kind KafkaTopic?"),
        ("kafka.strimzi.io/v1", "KafkaTopics", "did you mean apiVersion kafka.strimzi.io/v1, kind KafkaTopic?"),
        ("kafka.strimzi.io/v3", "KafkaUser", "did you mean apiVersion kafka.strimzi.io/v1, kind KafkaUser?"),
        ("kafka.strimzi.i0/v1", "KafkaTopic", "did you mean apiVersion kafka.strimzi.io/v1, kind KafkaTopic?"),
        ("kafka.strimzi.io", "KafkaTopic", "did you mean apiVersion kafka.strimzi.io/v1, kind KafkaTopic?"),
    ]:
        with subtests.test(version=version, kind=kind):
            (found,) = told(f"apiVersion: {version}\nkind: {kind}\nspec: {{}}\n---\n{USER}")
            assert problem in found
            assert unknown in found


def test_what_would_be_passed_over_but_has_acls_is_refused(subtests: pytest.Subtests) -> None:
    for old, new, place in [
        ("kind: KafkaUser", "kind: KafkaTopic", "spec.authorization.acls"),
        ("kind: KafkaUser\n", "kind: KafkaUser\nacls: []\n", "acls"),
        ("  authorization:\n    type: simple\n    acls:\n", "  acls:\n", "spec.acls"),
        ("spec:\n", "data:\n", "data.authorization.acls"),
    ]:
        with subtests.test(new=new):
            text = USER.replace(old, new, 1).replace("kind: KafkaUser", "kind: Kafka")
            kind = "KafkaTopic" if "KafkaTopic" in new else "Kafka"
            assert told(text) == [
                f"1: `kind`: a {kind} has no ACLs, but this one has a list `{place}`; correct its kind"
            ]


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


def test_a_rule_on_the_cluster_may_have_a_name_that_strimzi_passes_over(subtests: pytest.Subtests) -> None:
    for more in ["", ", name: kafka-cluster", ", name: '*'", ", name: '*', patternType: literal"]:
        with subtests.test(more=more):
            (found,) = read(user(f"- {{resource: {{type: cluster{more}}}, operations: [Alter], type: deny}}"))
            assert found[:3] == (ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)
    for more in [", name: orders", ", name: ''", ", name: '*', patternType: prefix"]:
        with subtests.test(more=more):
            (problem,) = told(user(f"- {{resource: {{type: cluster{more}}}, operations: [Alter], type: deny}}"))
            assert "a cluster has neither name nor patternType" in problem


def test_items_of_a_list_of_users_may_leave_out_what_they_are() -> None:
    body = indent(USER.partition("metadata:")[2], "  ")
    listed = f"apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaUserList\nitems:\n- metadata:{body.lstrip(' ')}"
    assert read(listed) == read(USER)


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
        ("- {resource: {type: topic, name: t}}", "8: `operations`: the list is missing"),
        ("- {resource: {type: topic, name: t}, operations: }", "8: `operations`: not a list; write one"),
        ("- {resource: {type: topic, name: t}, operations: [Read], type: }", "8: `type`: the value is not text"),
        ("- {resource: {type: topic, name: t}, operations: [Read], host: ~}", "8: `host`: the value is not text"),
        (
            "- {resource: {type: topic, name: t, patternType: null}, operations: [Read]}",
            "8: `patternType`: the value is not text",
        ),
        ("- {resource: {type: topic, name: t}, operations: []}", "8: `operations`: the list is empty"),
        ("- {resource: {type: topic, name: t}, operations: Read}", "8: `operations`: not a list; write one"),
        ("- {resource: {type: topic, name: t}, operations: [1]}", "8: `operations`: the value is not text"),
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
            "8: `operations`: `operation` is given as well; keep `operations`",
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
            "8: `patternType`: `prefixed` is not one of its values; did you mean prefix?",
        ),
        ("- {resource: {type: cluster, name: x}, operations: [Read]}", "8: `resource`: a cluster has neither name"),
        ("- {resource: {type: topic, name: t}, operations: [Read], hots: x}", "8: `hots`: there is no such field"),
        ("- {resource: {type: topic, name: t}, operations: [Read], host: ''}", "8: Host pattern cannot be null"),
        ("- {resource: {type: topic, name: t}, operations: [Read], host: 10.0.0.0/33}", "8: Invalid CIDR notation"),
        ("- {resource: {type: topic, name: t}, operations: [Read], type: permit}", "8: `type`: `permit` is not one of"),
        ("- {resource: x, operations: [Read]}", "8: `resource`: not a mapping"),
        ("- x", "8: `acls`: not a mapping; write its fields"),
        ("x: y", "8: `acls`: not a list; write one"),
        ("- a: 1\n  a: 2", "9: `a`: the key comes more than once; write it once"),
        ("- <<: {a: 1}", "8: merge keys (`<<`) are not supported; write the fields out"),
        ("- !!python/object/apply:os.system ['true']", "8: the tag `tag:yaml.org,2002:python/object/apply:os.system`"),
        ("- !mine {a: 1}", "8: the tag `!mine` is not supported; remove it"),
        ("- {!mine a: 1}", "8: the tag `!mine` is not supported; remove it"),
        ("- &a [*a]", "8: an alias stands within what it stands for; write the value out"),
        ("- [x]\n- *a", "9: `*a` has no anchor before it; write the value out"),
        ("- &a [x]\n- &a [y]", "9: `&a`: the anchor comes more than once; give each a name of its own"),
        ("- " + "[" * 80, "8: it is nested deeper than 64 levels"),
        ("- " + "[" * 1_000_000, "8: it is nested deeper than 64 levels"),
        ("- " + "[" * 28 + "x" + "]" * 28, "8: `acls`: not a mapping"),
        ("- {resource: *, operations: [Read]}", "8: not YAML:"),
        ("- {", "9: not YAML:"),
        ("- ? [a]\n  : b", "8: a key is not text; write a name"),
    ]:
        with subtests.test(rule=rule, problem=problem):
            found = told(user(rule))
            assert found[0].startswith(problem), found


def test_a_resource_that_is_not_as_it_should_be_is_told(subtests: pytest.Subtests) -> None:
    for old, new, problem in [
        ("kind: KafkaUser", "kind: Kafkauser", "1: `kafka.strimzi.io/v1beta2` `Kafkauser`: unknown to Klamm"),
        ("kafka.strimzi.io/v1beta2", "v1", "1: `v1` `KafkaUser`: unknown to Klamm"),
        ("kind: KafkaUser\n", "", "1: `kind`: the field is missing"),
        ("kind: KafkaUser", "kind: 7", "2: `kind`: the value is not text, or empty"),
        (
            "kind: KafkaUser\n",
            "Kind: KafkaUser\n",
            "2: `Kind`: there is no such field; did you mean `kind`?",
        ),
        ("name: my-user", "name: My-User", "4: `name`: `My-User` is not a Kubernetes name"),
        ("type: tls", "type: kerberos", "9: `type`: `kerberos` is not one of its values; write one of"),
        (
            "  authorization:\n",
            "  authorisation:\n",
            "10: `authorisation`: there is no such field; did you mean `authorization`?",
        ),
        ("    acls:\n", "    ACLs:\n", "12: `ACLs`: there is no such field; did you mean `acls`?"),
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
        ("type: simple", "type: opa", "11: `type`: `opa` holds no ACLs; write `simple`"),
        ("metadata:\n  name: my-user", "metadata:", "4: `name`: the field is missing"),
        ("  name: my-user", "  name: 7", "4: `name`: the value is not text; write it in quotes"),
    ]:
        with subtests.test(old=old, new=new, problem=problem):
            text = USER.replace(old, new, 1)
            assert text != USER
            assert told(text)[0].startswith(problem), told(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n- b", "1: not a resource; write one with apiVersion and kind"),
        ("a", "1: not a resource; write one with apiVersion and kind"),
        ("kind: List\napiVersion: v1\nitems: {}", "3: `items`: not a list"),
        ("kind: List\napiVersion: v1", "1: `items`: the field is missing"),
        ("kind: List\napiVersion: v1\nitems:\n- {kind: List, apiVersion: v1, items: []}", "4: a list within a list"),
        ("kind: a\x01b", "1: not YAML:"),
    ],
)
def test_what_is_no_resource_is_told(text: str, problem: str) -> None:
    assert told(text)[0].startswith(problem), told(text)


def test_each_block_of_a_user_is_known(subtests: pytest.Subtests) -> None:
    whole = USER.replace(
        "  authentication:\n    type: tls\n",
        "  authentication: {type: tls, validityDays: 30, renewalDays: 5, "
        "password: {valueFrom: {secretKeyRef: {name: s, key: k, optional: false}}}}\n"
        "  quotas: {producerByteRate: 7, consumerByteRate: ~, requestPercentage: 55, controllerMutationRate: 0.5}\n"
        "  template: {secret: {metadata: {labels: {a: b}, annotations: {c: d}}}}\n",
    )
    whole = whole.replace(
        "  name: my-user\n",
        "  name: my-user\n  namespace: kafka\n  uid: 0-0\n  generation: 2\n  resourceVersion: '7'\n  selfLink: /x\n"
        "  creationTimestamp: 2026-01-01T00:00:00Z\n  finalizers: [a/b]\n  annotations: {a/b: '{{ x }}'}\n"
        "  ownerReferences: [{apiVersion: v1, kind: K, name: n, uid: u, controller: true, blockOwnerDeletion: true}]\n"
        "  managedFields: [{manager: m, operation: U, apiVersion: v1, time: ~, fieldsType: F, fieldsV1: {f: {}}}]\n",
    )
    whole += (
        "status:\n  observedGeneration: 2\n  username: CN=my-user\n  secret: my-user\n  conditions:\n"
        "    - {type: Ready, status: 'True', lastTransitionTime: 2026-01-01T00:00:00Z, reason: r, message: m}\n"
    )
    assert read(whole) == read(USER)
    for old, place in [
        ("validityDays", "spec.authentication"),
        ("secretKeyRef", "spec.authentication.password.valueFrom"),
        ("requestPercentage", "spec.quotas"),
        ("secret: {metadata", "spec.template"),
        ("patternType", "spec.authorization.acls.resource"),
        ("observedGeneration", "status"),
        ("lastTransitionTime", "status.conditions"),
        ("blockOwnerDeletion", "metadata.ownerReferences"),
        ("fieldsType", "metadata.managedFields"),
        ("generation", "metadata"),
    ]:
        with subtests.test(old=old):
            (line, problems), *_ = entries(whole.replace(old, f"x{old}", 1).encode(), FORMAT)
            assert not isinstance(problems, NewAcl)
            assert ".".join(problems[0].place).startswith(f"{place}.x")
            assert "there is no such field; did you mean" in problems[0]
            assert line == whole[: whole.index(old)].count("\n") + 1


def test_what_stands_in_another_block_than_its_own_is_refused(subtests: pytest.Subtests) -> None:
    block = USER[USER.index("  authorization:") :]
    head = USER.removesuffix(block)
    flat = dedent(block)
    for text, problem in [
        (head + flat, "10: `authorization`: there is no such field here; it belongs to `spec`"),
        (head + "status:\n" + block, "11: `authorization`: there is no such field here; it belongs to `spec`"),
        (USER.replace("\nspec:", "", 1), "7: `authentication`: there is no such field here; it belongs to `spec`"),
        (
            head + "  quotas:\n" + indent(flat, "    "),
            "11: `authorization`: there is no such field here; it belongs to `spec`",
        ),
        (
            USER.replace("        operations:\n          - Read", "          operations:\n          - Read", 1),
            "17: `operations`: there is no such field here; it belongs to `spec.authorization.acls`",
        ),
        (
            USER.replace("    acls:", "  acls:").replace("    type: simple\n", ""),
            "11: `acls`: there is no such field here",
        ),
    ]:
        with subtests.test(problem=problem):
            assert any(each.startswith(problem) for each in told(text)), told(text)


def test_users_that_are_paused_or_being_deleted_are_refused_by_name(subtests: pytest.Subtests) -> None:
    paused = "4: `strimzi.io/pause-reconciliation`: `my-user` is paused"
    for field, problem in [
        ("annotations: {strimzi.io/pause-reconciliation: 'true'}", paused),
        ("annotations: {strimzi.io/pause-reconciliation: 'TRUE'}", paused),
        ("annotations: {strimzi.io/pause-reconciliation: '{{ .Values.paused }}'}", paused),
        (
            "annotations: {strimzi.io/pause-reconciliation: true}",
            "4: `strimzi.io/pause-reconciliation`: the value is not",
        ),
        ("annotations: {strimzi.io/pause-reconcilation: 'true'}", "4: `strimzi.io/pause-reconcilation`: did you mean"),
        ("deletionTimestamp: 2026-01-01T00:00:00Z", "4: `deletionTimestamp`: `my-user` is being deleted"),
    ]:
        with subtests.test(field=field):
            (found,) = told(USER.replace("  name: my-user\n", f"  {field}\n  name: my-user\n"))
            assert found.startswith(problem)
    for field in ["annotations: {strimzi.io/pause-reconciliation: 'yes'}", "deletionTimestamp: ~", "annotations: ~"]:
        with subtests.test(field=field):
            assert read(USER.replace("  name: my-user\n", f"  name: my-user\n  {field}\n")) == read(USER)


def test_users_of_two_clusters_are_refused_or_read_for_one() -> None:
    other = USER.replace("my-cluster", "try").replace("name: my-user", "namespace: n\n  name: another")
    files = f"{USER}---\n{other}"
    (found,) = told(files)
    assert found.startswith(
        "34: `metadata`: it is of the cluster `n/try`, but line 4 is of `my-cluster`; read those of"
    )
    assert found.endswith("of one cluster: --of-cluster my-cluster")
    assert read_with(files, "my-cluster") == (read(USER), {})
    assert read_with(files, "n/try") == (read(other), {})
    misspelt = told(f"{USER}---\n{other.replace('io/cluster', 'io/clustr')}")
    assert misspelt == ["34: `strimzi.io/clustr`: did you mean `strimzi.io/cluster`?"]
    (misplaced,) = told(USER.replace("  labels:", "  annotations:"))
    assert misplaced == "4: `strimzi.io/cluster`: not an annotation; it belongs to `metadata.labels`"
    namespaces = (
        USER.replace("name: my-user", "name: a\n  namespace: n1"),
        USER.replace("name: my-user", "name: b\n  namespace: n2"),
    )
    assert "it is of the cluster `n2/my-cluster`, but line 4 is of `n1/my-cluster`" in told("---\n".join(namespaces))[0]


def test_templates_that_nothing_has_filled_in_are_refused(subtests: pytest.Subtests) -> None:
    for old in ["my-user", "my-topic", "my-", "my-cluster", "10.0.0.0/8"]:
        for sign in ["{{ .Values.x }}", "a-{% x %}", "{# x #}"]:
            with subtests.test(old=old, sign=sign):
                text = re.sub(rf"{old}(?=[,\n])", f'"{sign}"', USER, count=1)
                assert text != USER
                (found,) = told(text)
                assert "a template that nothing has filled in" in found
                binding = acl(name=sign)._replace(resource_type=ResourceType.GROUP)
                with pytest.raises(FormatLimitError, match="templates"):
                    FORMAT.write([NewAcl(binding)], io.StringIO())


def test_a_page_of_a_list_is_refused() -> None:
    listed = (
        "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: '', continue: abc}\nitems:\n- "
        + indent(USER, "  ").lstrip()
    )
    assert "there are more pages" in told(listed)[0]
    assert read(listed.replace("abc", "''")) == read(USER)
    assert "`remaining`: there is no such field" in told(listed.replace("continue", "remaining"))[0]


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
    assert told("\n" + "- x\n" * 9_999) == ["2: not a resource; write one with apiVersion and kind"]
    # What comes after the bound is not even read.
    assert told("\n" + "- x\n" * 10_000 + "{") == ["2: a document of more than 10000 values; split it into several"]


def test_a_file_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "MAX_YAML_BYTES", 1_000)
    assert told("#" * 1_001) == ["1: YAML of more than 1000 bytes; split it into several files"]
    assert told("#" * 1_000) == []
