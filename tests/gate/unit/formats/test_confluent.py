import json

import pytest

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.reading import FileSet
from app.formats.registry import format_named
from tests.acl_sets import bindings_of, entries, problems_of, recognised, written

FORMAT = format_named("confluent")
ACL = AclBinding(
    ResourceType.TOPIC,
    'orders "é"',
    PatternType.PREFIXED,
    "User:CN=a, O=b",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
FIELDS = {
    "resource_type": "TOPIC",
    "resource_name": 'orders "é"',
    "pattern_type": "PREFIXED",
    "principal": "User:CN=a, O=b",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
ABOUT = {"kind": "KafkaAcl", "metadata": {"self": "http://x"}, "cluster_id": "c1"}


def raw(value: object, indentation: int | None = None) -> bytes:
    return json.dumps(value, indent=indentation).encode()


def test_every_shape_is_recognised_and_read(subtests: pytest.Subtests) -> None:
    for value in [
        {"kind": "KafkaAclList", "metadata": {"self": "http://x", "next": None}, "data": [{**ABOUT, **FIELDS}]},
        {"data": [FIELDS]},
        FIELDS,
        {**ABOUT, **FIELDS},
        {**FIELDS, **ABOUT},
    ]:
        for indentation in [None, 2]:
            with subtests.test(value=value, indentation=indentation):
                content = raw(value, indentation)
                assert recognised(content) is FORMAT
                assert bindings_of(b"\n " + content + b"\n") == [ACL]


def test_it_is_written_as_a_batch() -> None:
    assert json.loads(written(FORMAT, [ACL])) == {"data": [FIELDS]}


def test_klamms_own_json_is_not_taken_for_it() -> None:
    line = json.dumps({**FIELDS, "permission_type": "ALLOW"}).encode()
    found = recognised(line)
    assert found is not None
    assert found.name == "jsonl"


def test_what_is_wrong_is_told_by_its_field(subtests: pytest.Subtests) -> None:
    for value, problem in [
        ({"data": [{**FIELDS, "host": None}]}, "1: `host`: the value is not text; write it in quotes"),
        ({"data": [{**FIELDS, "hots": "*"}]}, "1: `hots`: there is no such field; did you mean `host`?"),
        ({"data": [{k: v for k, v in FIELDS.items() if k != "host"}]}, "1: `host`: the field is missing"),
        ({"data": [{**FIELDS, "operation": "FLY"}]}, "1: `operation`: `FLY` is not a value that Kafka knows"),
        ({"data": [{**FIELDS, "permission": "deny"}]}, "1: `permission`: `deny` is not a value that Kafka knows; did"),
        ({"data": [{**FIELDS, "pattern_type": "ANY"}]}, "1: `pattern_type`: `ANY` is not a value that Kafka knows"),
        ({"data": [7]}, "1: `data`: not a mapping; write its fields"),
        ({"data": {}}, "1: `data`: not a list; write one"),
        ({"data": [], "host": "*"}, "1: `host`: there is no such field here; it belongs to `data`"),
        ({"data": [{**FIELDS, "next": None}]}, "1: `next`: there is no such field here; it belongs to `metadata`"),
        ({"kind": "KafkaTopicList", "data": []}, "1: `kind`: `KafkaTopicList` is not one of its values; did you mean"),
        ({"kind": "KafkaAclList", "dat": [FIELDS]}, "1: `dat`: there is no such field; did you mean `data`?"),
        ({}, "1: `data`: the field is missing"),
        (
            {"kind": "KafkaAclList", "metadata": {"next": "http://x?page=2"}, "data": [FIELDS]},
            "1: `next`: there are more",
        ),
        ([{k: v for k, v in FIELDS.items() if k != "host"}], "1: `host`: the field is missing; Confluent's CLI leaves"),
        ([FIELDS, 7], "1: not a mapping"),
    ]:
        with subtests.test(value=value, problem=problem):
            assert problems_of(raw(value), FORMAT)[0].startswith(problem)


def test_a_key_that_comes_twice_is_told() -> None:
    twice = raw(FIELDS)[:-1] + b', "principal": "User:b"}'
    assert problems_of(b'{"data": [\n' + twice + b"]}", FORMAT) == [
        "2: `principal`: the key comes more than once; write it once"
    ]
    assert problems_of(twice, FORMAT)[0] == "1: `principal`: the key comes more than once; write it once"
    assert problems_of(b'{"data": [],\n"data": []}', FORMAT) == [
        "2: `data`: the key comes more than once; write it once"
    ]


@pytest.mark.parametrize("value", [{"data": [FIELDS]}, FIELDS])
def test_what_follows_is_told(value: object) -> None:
    assert problems_of(raw(value) + b"\n{}", FORMAT)[-1] == "2: not JSON: Extra data (column 1)"


def test_a_list_in_yaml_is_read_as_in_json() -> None:
    text = f"kind: KafkaAclList\ndata:\n{CLI_YAML}"
    assert recognised(text.encode()) is FORMAT
    assert bindings_of(text.encode()) == [LISTED]
    assert problems_of(text.replace("kind:", "kin:").encode()) == [
        "1: `kin`: there is no such field; did you mean `kind`?"
    ]


def test_all_mistakes_are_told_each_with_its_line() -> None:
    acl = raw({**FIELDS, "operation": "Reed", "permission": "allow"}, 0)
    assert problems_of(b'{"data": [\n' + acl + b"],\n" + b'"dta": 1}') == [
        "11: `dta`: there is no such field; did you mean `data`?",
        "8: `operation`: `Reed` is not a value that Kafka knows; did you mean READ?",
        "9: `permission`: `allow` is not a value that Kafka knows; did you mean ALLOW?",
    ]


# of which cluster


def of_clusters(*clusters: str | None) -> bytes:
    acls = [{**FIELDS, **({} if each is None else {"cluster_id": each})} for each in clusters]
    return b'{"data": [\n' + b",\n".join(map(raw, acls)) + b"]}"


def test_acls_of_two_clusters_are_not_taken_for_those_of_one() -> None:
    assert bindings_of(of_clusters("lkc-1", None, "lkc-1")) == [ACL] * 3
    (problem,) = problems_of(of_clusters("lkc-1", "lkc-2"))
    assert problem.startswith("3: `cluster_id`: it is of the cluster `lkc-2`, but line 2 is of `lkc-1`;")
    assert problem.endswith("--of-cluster lkc-1")


def test_those_of_one_cluster_are_read_and_the_others_are_counted() -> None:
    files = FileSet(of_cluster="lkc-2")
    assert [line for line, _ in entries(of_clusters("lkc-1", "lkc-2", "lkc-1"), FORMAT, files)] == [3]
    assert files.other_clusters() == {"lkc-1": 2}
    (unsaid,) = entries(of_clusters(None), FORMAT, files)
    assert "so it may not be of `lkc-2`; leave out --of-cluster" in str(unsaid)


def test_an_acl_is_known_by_its_line() -> None:
    content = b'{"data": [\n' + raw(FIELDS) + b",\n\n" + raw({**FIELDS, "host": ""}) + b"]}"
    assert problems_of(content) == ["4: Host pattern cannot be null or empty"]


# what `confluent kafka acl list` prints (confluentinc/cli, test/fixtures/output/kafka/acl)


CLI_JSON = """\
[
  {
    "principal": "User:sa-12345",
    "permission": "ALLOW",
    "operation": "READ",
    "host": "*",
    "resource_type": "TOPIC",
    "resource_name": "test-topic",
    "pattern_type": "LITERAL"
  }
]
"""
CLI_YAML = """\
- principal: User:sa-12345
  permission: ALLOW
  operation: READ
  host: '*'
  resource_type: TOPIC
  resource_name: test-topic
  pattern_type: LITERAL
"""
CLI_TABLE = """\
    Principal   | Permission | Operation | Host | Resource Type | Resource Name | Pattern Type  
----------------+------------+-----------+------+---------------+---------------+---------------
  User:sa-12345 | ALLOW      | READ      | *    | TOPIC         | test-topic    | LITERAL       
"""  # noqa: W291 - as it is printed
LISTED = AclBinding(
    ResourceType.TOPIC,
    "test-topic",
    PatternType.LITERAL,
    "User:sa-12345",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)


@pytest.mark.parametrize("text", [CLI_JSON, CLI_YAML], ids=["json", "yaml"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_the_cli_lists_is_read(text: str, end: str) -> None:
    content = text.replace("\n", end).encode()
    assert recognised(content) is FORMAT
    assert bindings_of(b"\xef\xbb\xbf" + content) == [LISTED]


def test_without_a_host_which_the_cli_leaves_out_for_the_cloud_nothing_is_guessed() -> None:
    for text, line in ((CLI_JSON, 2), (CLI_YAML, 1)):
        without = "".join(each for each in text.splitlines(keepends=True) if "host" not in each)
        assert recognised(without.encode()) is FORMAT
        (problem,) = problems_of(without.encode())
        assert problem.startswith(
            f"{line}: `host`: the field is missing; Confluent's CLI leaves it out for Confluent Cloud"
        )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("  operation: READ\n", "", "1: `operation`: the field is missing"),
        ("ALLOW", "no", "2: `permission`: the value is not text"),
        ("ALLOW", "PERMIT", "2: `permission`: `PERMIT` is not a value that Kafka knows"),
        ("  host", "  hots: x\n  host", "4: `hots`: there is no such field; did you mean `host`?"),
        ("  host", "  permission: DENY\n  host", "4: `permission`: the key comes more than once"),
        ("test-topic", "test-to...\n- x", "8: not YAML"),
    ],
)
def test_a_listing_in_yaml_that_can_not_be_read_is_told(old: str, new: str, problem: str) -> None:
    found = problems_of(CLI_YAML.replace(old, new, 1).encode())
    assert found[0].startswith(problem), found
