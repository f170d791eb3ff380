"""Right files that have, together, all blocks of each format that is JSON or YAML."""

import re
from typing import NamedTuple

from tests.acl_files.trees import Tree, json_tree, yaml_trees

_BINDING = (
    '"resource_type": "TOPIC", "resource_name": "orders", "pattern_type": "LITERAL", "principal": "User:a", '
    '"host": "*", "operation": "READ", '
)
_KLAMM = f'{{{_BINDING}"permission_type": "DENY", "expires_at": null, "owner": "team a"}}'
_CONFLUENT = (
    '{"kind": "KafkaAcl", "metadata": {"self": "http://r/v3/clusters/c/acls", "resource_name": "crn:///a"}, '
    f'"cluster_id": "c", {_BINDING}"permission": "DENY"}}'
)
_LINKS = '{"self": "http://r/v3/clusters/c/acls", "next": null}'
_RPK = f'{{{_BINDING}"permission": "DENY"}}'.replace('"pattern_type"', '"resource_pattern_type"')
_RPK_FILTER = (
    '{"principal": "", "host": "", "resource_type": "ANY", "resource_name": "", "resource_pattern_type": "ANY", '
    '"operation": "ANY", "permission": "ANY", "message": ""}'
)
_RPK_LIST = f'{{"filters": [{_RPK_FILTER}], "matches": [{_RPK}]}}'
_METADATA = """
  name: shop
  namespace: kafka
  labels: {strimzi.io/cluster: live}
  annotations: {a: b}
  ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b, controller: true}]
  managedFields: [{apiVersion: v1, manager: kubectl, operation: Update}]
"""
_STRIMZI = f"""
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata: {_METADATA}
spec:
  authentication:
    type: scram-sha-512
    password: {{valueFrom: {{secretKeyRef: {{name: a, key: b, optional: true}}}}}}
    validityDays: 1
    renewalDays: 2
  authorization:
    type: simple
    acls:
    - type: deny
      resource: {{type: topic, name: orders, patternType: literal}}
      host: "*"
      operations: [Read, Write]
  quotas: {{producerByteRate: 1, consumerByteRate: 2, requestPercentage: 3, controllerMutationRate: 4}}
  template: {{secret: {{metadata: {{labels: {{a: b}}, annotations: {{a: b}}}}}}}}
status:
  conditions: [{{type: Ready, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}}]
  username: shop
  secret: shop
"""
_JIKKOU = """
apiVersion: kafka.jikkou.io/v1beta2
kind: KafkaPrincipalAuthorization
metadata: {name: "User:a", labels: {a: b}, annotations: {a: b}}
spec:
  acls:
  - resource: {type: TOPIC, pattern: orders, patternType: LITERAL}
    type: DENY
    host: "*"
    operations: [READ, WRITE]
"""
_ACL = (
    '"resource_name": "orders", "resource_type": "Topic", "resource_pattern_type_filter": "Literal", '
    '"acl_principal": "User:a", "acl_host": "*", "acl_operation": "Read", "acl_permission_type": "Deny"'
)
_TERRAFORM = f"""
{{"resource": {{"kafka_acl": {{"a": {{{_ACL}, "//": "a comment", "depends_on": [],
  "lifecycle": {{"prevent_destroy": true}}}}}}, "kafka_topic": {{"t": {{"name": "orders"}}}}}},
 "terraform": {{"required_version": "1"}}, "provider": {{"kafka": {{"bootstrap_servers": []}}}}, "locals": {{"x": 1}},
 "variable": {{"v": {{"type": "string"}}}}, "output": {{"o": {{"value": "x"}}}}, "check": {{"c": {{"assert": []}}}},
 "moved": [{{"from": "a", "to": "b"}}], "import": [{{"to": "a", "id": "b"}}], "removed": [{{"from": "a"}}]}}
"""
_RESOURCE = (
    '"address": "kafka_acl.a", "mode": "managed", "type": "kafka_acl", "name": "a", '
    '"provider_name": "registry.terraform.io/mongey/kafka", "schema_version": 0'
)
_OUTPUTS = '{"o": {"value": 1, "type": "number", "sensitive": false}}'
_RESOURCES = f'[{{{_RESOURCE}, "values": {{"id": "x", {_ACL}}}, "sensitive_values": {{}}}}]'
_MODULES = '[{"address": "module.m", "resources": []}]'
_ROOT = f'{{"resources": {_RESOURCES}, "child_modules": {_MODULES}}}'
_VALUES = f'{{"outputs": {_OUTPUTS}, "root_module": {_ROOT}}}'
_STATE = f'{{"format_version": "1.0", "terraform_version": "1.9.8", "values": {_VALUES}}}'
_CONFIGURED = (
    '{"address": "kafka_acl.a", "mode": "managed", "type": "kafka_acl", "name": "a", "provider_config_key": "kafka", '
    '"expressions": {}, "schema_version": 0}'
)
_PLAN = f"""
{{"format_version": "1.2", "terraform_version": "1.9.8", "planned_values": {_VALUES}, "resource_changes": [],
 "configuration": {{"provider_config": {{}}, "root_module": {{"resources": [{_CONFIGURED}],
  "module_calls": {{"m": {{"source": "./m", "module": {{"resources": []}}}}}}}}}},
 "timestamp": "2026-01-01T00:00:00Z", "applyable": true, "complete": true, "errored": false}}
"""


class Whole(NamedTuple):
    """A right file that has all blocks of its format."""

    format_name: str
    style: str
    tree: Tree


def _list_of(version: str, kind: str, text: str) -> str:
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{}}\nitems:\n-" + text.replace("\n", "\n  ")


WHOLE = {
    "klamm": Whole(
        "klamm", "json", json_tree(f'{{"bindings": [{_KLAMM}], "context": {{}}, "timeout_ms": 1, "comment": "x"}}')
    ),
    "klamm-array": Whole("klamm", "json", json_tree(f"[{_KLAMM}]")),
    "klamm-yaml": Whole("klamm", "yaml", json_tree(f'{{"bindings": [{_KLAMM}]}}')),
    "jsonl": Whole("jsonl", "line", json_tree(_KLAMM)),
    "rpk": Whole("rpk", "json", json_tree(_RPK_LIST)),
    "rpk-yaml": Whole("rpk", "yaml", json_tree(re.sub(r"(?<=resource)_|(?<=pattern)_", "", _RPK_LIST))),
    "confluent": Whole(
        "confluent", "json", json_tree(f'{{"kind": "KafkaAclList", "metadata": {_LINKS}, "data": [{_CONFLUENT}]}}')
    ),
    "confluent-one": Whole("confluent", "json", json_tree(_CONFLUENT)),
    "confluent-yaml": Whole("confluent", "yaml", [json_tree(f'{{{_BINDING}"permission": "DENY"}}')]),
    "jikkou": Whole("jikkou", "yaml", yaml_trees(_JIKKOU)[0]),
    "jikkou-list": Whole("jikkou", "json", yaml_trees(_list_of("core.jikkou.io/v1beta2", "ResourceList", _JIKKOU))[0]),
    "strimzi": Whole("strimzi", "yaml", yaml_trees(_STRIMZI)[0]),
    "strimzi-list": Whole("strimzi", "json", yaml_trees(_list_of("v1", "List", _STRIMZI))[0]),
    "terraform": Whole("terraform", "json", json_tree(_TERRAFORM)),
    "terraform-state": Whole("terraform", "json", json_tree(_STATE)),
    "terraform-plan": Whole("terraform", "json", json_tree(_PLAN)),
}
