import io
import json
import unicodedata
from pathlib import Path

import pytest

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import FormatLimitError
from app.formats.registry import format_named
from app.formats.terraform import _quoted, _text_of, resource_label
from tests.acl_sets import bindings_of, problems_of, recognised, written

FORMAT = format_named("terraform")

FIELDS = {
    "resource_name": "t",
    "resource_type": "Topic",
    "acl_principal": "User:a",
    "acl_host": "*",
    "acl_operation": "Read",
    "acl_permission_type": "Allow",
}


def acl(name: str = "t", principal: str = "User:a", operation: AclOperation = AclOperation.READ) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW)


def test_it_is_written_with_texts_that_are_no_templates() -> None:
    binding = acl(name='${x} %{y} \\ " \n', principal="User:$${a}$$%%")
    out = io.StringIO()
    FORMAT.write([NewAcl(binding)], out)
    assert out.getvalue() == (
        f'{{"resource": {{"kafka_acl": {{\n  "{resource_label(binding)}": {{\n'
        '    "resource_name": "$${x} %%{y} \\\\ \\" \\u000a",\n'
        '    "resource_type": "Topic",\n'
        '    "resource_pattern_type_filter": "Literal",\n'
        '    "acl_principal": "User:$$${a}$$%%",\n'
        '    "acl_host": "*",\n'
        '    "acl_operation": "Read",\n'
        '    "acl_permission_type": "Allow"\n'
        "  }\n}}}\n"
    )
    assert bindings_of(written(FORMAT, [binding])) == [binding]


def test_names_are_safe_unlike_and_stay() -> None:
    bindings = [
        acl(), acl(name="T"), acl(name="t-"), acl(principal="User:é"), acl(principal="User:漢"), acl(name="x" * 500),
    ]  # fmt: skip
    labels = [resource_label(each) for each in bindings]
    assert len(set(labels)) == len(bindings)
    assert all(each.isascii() and each.isidentifier() and len(each) < 70 for each in labels)
    assert resource_label(acl()) == "acl_user_a_read_t_" + acl().natural_key[:8].hex()


def test_an_acl_that_comes_twice_is_written_once() -> None:
    assert bindings_of(written(FORMAT, [acl(), acl()])) == [acl()]


@pytest.mark.parametrize(
    ("binding", "limit"),
    [
        (acl(operation=AclOperation.CREATE_TOKENS), "has no operation CREATE_TOKENS"),
        (acl(operation=AclOperation.TWO_PHASE_COMMIT), "has no operation TWO_PHASE_COMMIT"),
        (acl(principal="User:e\u0301"), "normal form C"),
    ],
)
def test_what_the_provider_can_not_say_is_named(binding: AclBinding, limit: str) -> None:
    out = io.StringIO()
    with pytest.raises(FormatLimitError, match=limit):
        FORMAT.write([NewAcl(acl()), NewAcl(binding)], out)
    assert out.getvalue() == ""


def test_terraform_itself_takes_what_is_written_for_the_same() -> None:
    """Each literal of `hcl_texts.json` was given to Terraform's console, which said what it means.

    A literal without a backslash means the same in Terraform's JSON.
    """
    cases = json.loads((Path(__file__).parent / "fixtures" / "hcl_texts.json").read_text(encoding="utf-8"))
    assert len(cases) > 50
    known = 0
    for case in cases:
        literal, text = case["hcl"][1:-1], case["text"]
        assert _text_of(json.loads(_quoted(text))) == unicodedata.normalize("NFC", text)
        if "\\" not in literal:
            assert _text_of(literal) == text
            known += json.loads(_quoted(text)) == literal and "{" in text
    assert known > 10


@pytest.mark.parametrize(
    "text", ['resource "kafka_acl" "a" {\n}\n', 'provider "kafka" {\n}\n', "locals {\n", 'module "more" {\n}\n']
)
def test_hcl_is_refused_with_the_way_out(text: str) -> None:
    assert recognised(text.encode()) is FORMAT
    assert problems_of(b"\n" + text.encode()) == [
        "2: HCL, which only Terraform can evaluate; give what `terraform show -json` prints, or write it as .tf.json"
    ]


# JSON


def one(**changes: object) -> object:
    return {"kafka_acl": {"a": {**FIELDS, **changes}}}


def in_json(resources: object, **more: object) -> bytes:
    return json.dumps({**more, "resource": resources}, indent=1).encode()


def test_resources_in_json_are_read() -> None:
    fields = {**FIELDS, "acl_principal": "User:$${e\u0301}%%{$$${$%%{", "//": "why", "depends_on": ["x"]}
    raw = in_json({"kafka_topic": {"t": {"name": "t"}}, "kafka_acl": {"a": fields}}, terraform={"a": 1})
    assert recognised(raw) is FORMAT
    assert bindings_of(raw) == [acl(principal="User:${é}%{$${$%{")]


def test_a_module_in_json_is_told_by_its_line() -> None:
    resources = {"kafka_acl": {"a": FIELDS}}
    (problem,) = problems_of(in_json(resources, terraform={}, module={"more": {"source": "./more"}}), FORMAT)
    assert problem.startswith("3: `module`: it may hold `kafka_acl` resources, which only Terraform can tell; give")
    assert bindings_of(in_json(resources, module={}), FORMAT) == [acl()]


def test_what_is_wrong_in_json_is_told(subtests: pytest.Subtests) -> None:
    for resources, problem in [
        (
            {"kafka_acl": {"a": {**FIELDS, "acl_host": "${var.x}"}}},
            "4: `acl_host`: only a text in quotes can be read",
        ),
        ({"kafka_acl": {"a": {**FIELDS, "acl_host": 7}}}, "4: `acl_host`: only a text in quotes can be read"),
        ({"kafka_acl": {"a": {**FIELDS, "count": 7}}}, "4: `count`: only Terraform can tell"),
        ({"kafka_acl": {"a": [FIELDS]}}, "4: not an object; write the fields of the resource"),
        ({"kafka_acl": []}, "3: `kafka_acl`: write an object of names and resources"),
        ({"confluent_kafka_acl": {}}, "3: `confluent_kafka_acl`: only resources of type"),
        ({"redpanda_acl": {}}, "3: `redpanda_acl`: only resources of type"),
        ({"aiven_kafka_native_acl": {}}, "3: `aiven_kafka_native_acl`: only resources of type"),
        (one(for_each="${toset([])}"), "4: `for_each`: only Terraform can tell how many"),
        (one(acl_host="%{ if x }a%{ endif }"), "4: `acl_host`: only a text in quotes can be read"),
        (one(hots="*"), "4: `hots`: there is no such field; remove it"),
        (one(acl_operation="READ"), "4: `acl_operation`: `READ` is not one of its values; write one of All, Read"),
        (one(resource_type="TransactionalId"), "4: `resource_type`: `TransactionalId` is not one of its values"),
        (
            one(resource_pattern_type_filter="Match"),
            "4: `resource_pattern_type_filter`: `Match` is not one of its values",
        ),
        (one(acl_principal="alice"), "4: Could not parse principal from `alice`"),
        ({"kafka_acl": {"a": {}}}, "4: `resource_name`: the field is missing"),
        ([], "2: `resource`: write an object of types, names and resources"),
    ]:
        with subtests.test(resources=resources, problem=problem):
            assert problems_of(in_json(resources), FORMAT)[0].startswith(problem)


def test_a_resource_that_comes_twice_in_json_is_told() -> None:
    raw = in_json({"kafka_acl": {"a": FIELDS, "b": FIELDS}}).replace(b'"b"', b'"a"')
    assert problems_of(raw)[0].endswith("`a`: the key comes more than once; write it once")


def test_a_field_that_comes_twice_in_json_is_told() -> None:
    raw = in_json(one(hots="*")).replace(b'"hots"', b'"acl_host"')
    assert problems_of(raw) == ["4: `acl_host`: the field comes more than once; write it once"]


# terraform show -json


def shown(kind: str = "values", module: object = None, changes: dict[str, object] | None = None) -> bytes:
    """As Terraform prints a state or a plan with one resource at the root, or with this module there."""
    resource = {"address": "kafka_acl.a", "mode": "managed", "type": "kafka_acl", "name": "a", "values": FIELDS}
    root = module or {"resources": [{"address": "kafka_topic.t", "type": "kafka_topic"}, resource | (changes or {})]}
    return json.dumps({"format_version": "1.2", "prior_state": {"values": {}}, kind: {"root_module": root}}).encode()


@pytest.mark.parametrize("kind", ["values", "planned_values"])
def test_a_state_or_a_plan_is_read_as_terraform_has_evaluated_it(kind: str) -> None:
    more = {
        "id": "User:a|*|Read",
        "acl_principal": "User:$${x} ${y}",
        "resource_pattern_type_filter": "Prefixed",
    }
    raw = shown(kind, changes={"values": FIELDS | more})
    assert recognised(raw) is FORMAT
    assert bindings_of(raw) == [acl(principal="User:$${x} ${y}")._replace(pattern_type=PatternType.PREFIXED)]


def test_resources_of_modules_are_read_in_order() -> None:
    def resource(name: str) -> object:
        return {"address": f"kafka_acl.{name}", "type": "kafka_acl", "values": {**FIELDS, "resource_name": name}}

    inner = {"resources": [resource("c")]}
    children = [{"resources": [resource("b")], "child_modules": [inner]}, {"resources": [resource("d")]}]
    raw = shown(module={"resources": [resource("a")], "child_modules": children})
    assert bindings_of(raw) == [acl(name=each) for each in "abcd"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"values": {**FIELDS, "acl_host": None}}, "1: kafka_acl.a: `acl_host`: only a text in quotes can be read"),
        ({"values": {}}, "1: kafka_acl.a: `resource_name`: the field is missing"),
        ({"values": 7}, "1: kafka_acl.a: `resource_name`: the field is missing"),
        ({"values": {**FIELDS, "acl_principal": "alice"}}, "1: kafka_acl.a: Could not parse principal from `alice`"),
        ({"type": "confluent_kafka_acl"}, "1: kafka_acl.a: `confluent_kafka_acl`: only resources of type"),
    ],
)
def test_what_is_wrong_in_a_state_is_told_with_its_resource(changes: dict[str, object], problem: str) -> None:
    assert problems_of(shown(changes=changes))[0].startswith(problem)


def test_a_state_without_acls_is_told() -> None:
    assert problems_of(b'{"format_version": "1.0"}')[0].startswith("1: it holds no ACLs in the format terraform")
