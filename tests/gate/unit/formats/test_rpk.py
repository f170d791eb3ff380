"""`rpk security acl list --format json` (redpanda, src/go/rpk/pkg/cli/security/acl/list.go)."""

import json

import pytest
import yaml

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.registry import format_named
from tests.acl_sets import bindings_of, problems_of, recognised, written

FORMAT = format_named("rpk")
FIELDS = {
    "principal": "User:bar",
    "host": "*",
    "resource_type": "TRANSACTIONAL_ID",
    "resource_name": "tx-",
    "resource_pattern_type": "PREFIXED",
    "operation": "WRITE",
    "permission": "DENY",
}
FILTER = {**FIELDS, "resource_type": "ANY", "message": ""}
ACL = AclBinding(
    ResourceType.TRANSACTIONAL_ID,
    "tx-",
    PatternType.PREFIXED,
    "User:bar",
    "*",
    AclOperation.WRITE,
    AclPermissionType.DENY,
)


def raw(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


@pytest.mark.parametrize("value", [{"matches": [FIELDS]}, {"filters": [FILTER], "matches": [FIELDS]}])
def test_a_listing_is_recognised_and_read(value: object) -> None:
    assert recognised(raw(value)) is FORMAT
    assert bindings_of(raw(value)) == [ACL]


IN_YAML = """\
filters: []
matches:
    - principal: User:bar
      host: '*'
      resourcetype: TRANSACTIONAL_ID
      resourcename: tx-
      resourcepatterntype: PREFIXED
      operation: WRITE
      permission: DENY

"""


def test_in_yaml_rpk_prints_names_without_underscores() -> None:
    assert recognised(IN_YAML.encode()) is FORMAT
    assert bindings_of(IN_YAML.encode()) == [ACL]
    made_of_json = yaml.safe_dump({"matches": [FIELDS]}).encode()
    assert recognised(made_of_json) is FORMAT
    assert bindings_of(made_of_json) == [ACL]


def test_what_is_wrong_in_yaml_is_told_with_the_names_there(subtests: pytest.Subtests) -> None:
    for old, new, problem in [
        ("resourcetype:", "resourcetyp:", "5: `resourcetyp`: there is no such field; did you mean `resourcetype`?"),
        ("resourcename:", "resource_name:", "6: `resource_name`: there is no such field; did you mean `resourcename`?"),
        ("PREFIXED", "MATCH", "7: `resourcepatterntype`: `MATCH` is not a value that Kafka knows"),
        ("      resourcename: tx-\n", "", "3: `resourcename`: the field is missing"),
        ("[]\n", "[{resourcetype: ANY, message: TIMEOUT}]\n", "1: `filters`: one of them failed (TIMEOUT)"),
    ]:
        with subtests.test(problem=problem):
            problems = problems_of(IN_YAML.replace(old, new).encode(), FORMAT)
            assert len(problems) == 1
            assert problems[0].startswith(problem), problems


def test_it_is_written_as_rpk_lists_it() -> None:
    assert json.loads(written(FORMAT, [ACL])) == {"matches": [{name: FIELDS[name] for name in FIELDS}]}


def test_what_can_not_be_read_is_told(subtests: pytest.Subtests) -> None:
    for value, problem in [
        ({"matches": {}}, "1: `matches`: not a list"),
        ({"matches": [FIELDS, {**FIELDS, "principal": "RedpandaRole:ops"}]}, "1: `principal`: a role of Redpanda"),
        (
            {"matches": [FIELDS, {**FIELDS, "resource_type": "SR_SUBJECT"}]},
            "1: `resource_type`: `SR_SUBJECT` is not a value that Kafka knows",
        ),
        ({"matches": [{**FIELDS, "hots": "*"}]}, "1: `hots`: there is no such field; did you mean `host`?"),
        (
            {"matches": [{**FIELDS, "resource_pattern_type": "prefixed"}]},
            "1: `resource_pattern_type`: `prefixed` is not a value that Kafka knows; did you mean PREFIXED?",
        ),
        ({"matches": [{**FIELDS, "permission": "deny"}]}, "1: `permission`: `deny` is not a value that Kafka knows"),
        ({"match": [FIELDS]}, "1: `match`: there is no such field; did you mean `matches`?"),
        ({"filters": [{**FILTER, "message": "TIMEOUT"}], "matches": [FIELDS]}, "1: `filters`: one of them failed"),
        (
            {"filters": [{**FILTER, "mesage": "TIMEOUT"}], "matches": [FIELDS]},
            "1: `mesage`: there is no such field; did",
        ),
        ({"filters": "x", "matches": [FIELDS]}, "1: `filters`: not a list"),
        ({"matches": [FIELDS], "errors": []}, "1: `errors`: there is no such field"),
    ]:
        with subtests.test(value=value, problem=problem):
            assert problems_of(raw(value), FORMAT)[0].startswith(problem), problems_of(raw(value), FORMAT)


@pytest.mark.parametrize("value", [{"matches": []}, {"matches": None}, {"filters": [FILTER]}])
def test_a_listing_may_hold_no_acl(value: object) -> None:
    assert recognised(raw(value)) is FORMAT
    assert problems_of(raw(value)) == bindings_of(raw(value)) == []


def test_a_listing_in_yaml_is_read_and_its_mistakes_have_lines() -> None:
    text = yaml.safe_dump({"filters": [FILTER], "matches": [FIELDS]}, sort_keys=False)
    assert recognised(text.encode()) is FORMAT
    assert bindings_of(text.encode()) == [ACL]
    assert problems_of(text.replace("WRITE", "Write").replace("message: ''", "message: TIMEOUT").encode()) == [
        "2: `filters`: one of them failed (TIMEOUT), so ACLs may be missing; list them again",
        "16: `operation`: `Write` is not a value that Kafka knows; did you mean WRITE?",
    ]


def test_a_key_that_comes_twice_is_told() -> None:
    twice = b'{"matches": [' + raw(FIELDS) + b'],\n"matches": []}'
    assert problems_of(twice)[-1] == "3: `matches`: the key comes more than once; write it once"
