import io
import json
from pathlib import Path

import pytest

from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import FormatLimitError
from app.formats.registry import format_named, recognise
from app.formats.terraform import resource_label
from tests.unit.formats.acl_sets import bindings_of, problems_of, written

FORMAT = format_named("terraform")

HAND_WRITTEN = """\
# ACLs of the shop
terraform {
  required_providers { kafka = { source = "Mongey/kafka" } }
}

provider "kafka" {
  bootstrap_servers = ["localhost:9092", "${var.host}:${lookup({ a = "}" }, "a")}"]
}

/* several
   lines { */
resource "kafka_topic" "orders" {
  name   = "orders"
  config = { "cleanup.policy" = "compact" }
}

resource "kafka_acl" "test" {
  resource_name       = "orders"  // its name
  resource_type       = "Topic"
  acl_principal       = "User:CN=a, O=b \\"c\\""
  acl_host            = "*"
  acl_operation       = "Write"
  acl_permission_type = "Deny"
  provider            = kafka.main
  depends_on          = [
    kafka_topic.orders,
  ]
  lifecycle {
    prevent_destroy = true
  }
}
"""
ATTRIBUTES = {
    "resource_name": '"t"',
    "resource_type": '"Topic"',
    "acl_principal": '"User:a"',
    "acl_host": '"*"',
    "acl_operation": '"Read"',
    "acl_permission_type": '"Allow"',
}


def acl(name: str = "t", principal: str = "User:a", operation: AclOperation = AclOperation.READ) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW)


def resource(more: str = "", **changes: str | None) -> str:
    fields = {**ATTRIBUTES, **changes}
    lines = "".join(f"  {name} = {value}\n" for name, value in fields.items() if value is not None)
    return f'resource "kafka_acl" "a" {{\n{lines}{more}}}\n'


def read(text: str) -> list[AclBinding]:
    return bindings_of(text.encode(), FORMAT)


def told(text: str) -> list[str]:
    return problems_of(text.encode(), FORMAT)


def test_hand_written_resources_are_read_and_other_blocks_passed_over() -> None:
    assert recognise(HAND_WRITTEN.encode()) is FORMAT
    assert read(HAND_WRITTEN) == [
        AclBinding(
            ResourceType.TOPIC,
            "orders",
            PatternType.LITERAL,
            'User:CN=a, O=b "c"',
            "*",
            AclOperation.WRITE,
            AclPermissionType.DENY,
        )
    ]
    assert read(HAND_WRITTEN.replace("\n", "\r\n")) == read(HAND_WRITTEN)


def test_it_is_written_with_texts_that_are_no_templates() -> None:
    binding = acl(name='${x} %{y} \\ " \n', principal="User:$${a}$$%%")
    text = written(FORMAT, [binding]).decode()
    assert text == (
        f'resource "kafka_acl" "{resource_label(binding)}" {{\n'
        '  resource_name                = "$${x} %%{y} \\\\ \\" \\u000a"\n'
        '  resource_type                = "Topic"\n'
        '  resource_pattern_type_filter = "Literal"\n'
        '  acl_principal                = "User:$\\u0024{a}$$%%"\n'
        '  acl_host                     = "*"\n'
        '  acl_operation                = "Read"\n'
        '  acl_permission_type          = "Allow"\n'
        "}\n"
    )
    assert read(text) == [binding]


def test_names_are_safe_unlike_and_stay() -> None:
    bindings = [
        acl(), acl(name="T"), acl(name="t-"), acl(principal="User:é"), acl(principal="User:漢"), acl(name="x" * 500),
    ]  # fmt: skip
    labels = [resource_label(each) for each in bindings]
    assert len(set(labels)) == len(bindings)
    assert all(each.isascii() and each.isidentifier() and len(each) < 70 for each in labels)
    assert resource_label(acl()) == "acl_user_a_read_t_" + acl().natural_key[:8].hex()


def test_an_acl_that_comes_twice_is_written_once() -> None:
    assert read(written(FORMAT, [acl(), acl()]).decode()) == [acl()]


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
        FORMAT.write([acl(), binding], out)
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ('"a\\tb\\n\\r\\\\\\"\\u00e9\\U0001f600"', 'a\tb\n\r\\"é😀'),
        ('"$${x}%%{y}$$$ %%% $"', "${x}%{y}$$$ %%% $"),
        ('"e\u0301"', "é"),
        ('"" // empty', ""),
        ('"a" /* b */ # c', "a"),
    ],
)
def test_texts_mean_what_terraform_takes_them_for(literal: str, text: str) -> None:
    assert [each.principal for each in read(resource(acl_principal=f'"User:{literal[1:]}'))] == [f"User:{text}"]


def test_terraform_itself_reads_the_same() -> None:
    """Each literal of `hcl_texts.json` was given to Terraform's console, which said what it means."""
    cases = json.loads((Path(__file__).parent / "fixtures" / "hcl_texts.json").read_text(encoding="utf-8"))
    assert len(cases) > 50
    for case in cases:
        literal = '"User:' + case["hcl"][1:]
        if not any(each in case["text"] for each in "\0"):
            assert [each.principal for each in read(resource(acl_principal=literal))] == [f"User:{case['text']}"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            resource(acl_principal='"User:${var.x}"'),
            "1: `acl_principal`: only a text in quotes can be read; write it out",
        ),
        (resource(acl_principal='"User:%{ if x }a%{ endif }"'), "1: `acl_principal`: only a text in quotes"),
        (resource(acl_principal="var.principal"), "1: `acl_principal`: only a text in quotes"),
        (resource(acl_principal='"a" == "b" ? "c" : "d"'), "1: `acl_principal`: only a text in quotes"),
        (resource(acl_principal='("User:a")'), "1: `acl_principal`: only a text in quotes"),
        (resource(acl_principal='["User:a",\n"b"]'), "1: `acl_principal`: only a text in quotes"),
        (resource(acl_principal="null"), "1: `acl_principal`: only a text in quotes"),
        (resource("  count = 2\n"), "1: `count`: only Terraform can tell how many"),
        (resource("  for_each = toset([])\n"), "1: `for_each`: only Terraform can tell how many"),
        (resource('  hots = "*"\n'), "1: `hots`: there is no such field; remove it"),
        (resource('  dynamic "x" {\n}\n'), "1: `dynamic`: there is no such field; remove it"),
        (resource('  acl_host = "a"\n'), "1: `acl_host`: the field comes more than once; write it once"),
        (resource(acl_host=None), "1: `acl_host`: the field is missing"),
        (resource(acl_operation='"READ"'), "1: `acl_operation`: `READ` is none of its words; write one of All, Read"),
        (resource(resource_type='"TransactionalId"'), "1: `resource_type`: `TransactionalId` is none of its words"),
        (resource('  resource_pattern_type_filter = "Match"\n'), "1: `resource_pattern_type_filter`: `Match` is none"),
        (resource(acl_principal='"alice"'), "1: Could not parse principal from `alice`"),
        (resource() + resource(), "9: `a`: the resource comes more than once; name it otherwise"),
        (resource().replace('kafka_acl"', 'confluent_kafka_acl"'), "1: `confluent_kafka_acl`: only resources of type"),
        (resource().replace('kafka_acl"', 'redpanda_acl"'), "1: `redpanda_acl`: only resources of type"),
        (resource().replace('kafka_acl"', 'aiven_kafka_native_acl"'), "1: `aiven_kafka_native_acl`: only resources of"),
        (resource().replace(' "a" {', " {"), "1: `kafka_acl`: expected a name behind it"),
        (resource(acl_principal="<<EOT\nUser:a\nEOT"), "4: a heredoc (`<<`); write the text in quotes"),
        ("locals {\n  a = <<-EOT\n  EOT\n}\n", "2: a heredoc (`<<`); write the text in quotes"),
        (resource(acl_principal='"User:a\nb"'), "4: a text in quotes that does not end on its line"),
        (resource(acl_principal='"User:\\q"'), "4: `\\q` is no escape of HCL"),
        (resource(acl_principal='"User:\\ud83d\\ude00"'), "4: `\\ud83d` is no character"),
        (resource(acl_principal='"User:\\U00110000"'), "4: `\\U00110000` is no character"),
        (resource(acl_principal='"User:${'), "8: a text in quotes that does not end on its line"),
        (resource().rstrip().rstrip("}"), "1: `resource`: its `}` is missing"),
        ("/* a\n", "1: a comment (`/*`) without an end"),
        (resource(acl_principal='"User:${/* }"'), "4: a comment (`/*`) without an end"),
        (resource() + 'module "more" {\n  source = "./more"\n}\n', "9: `module`: it may hold resources `kafka_acl`"),
        ("a = 1\n", "1: `a`: expected a block"),
        ("}\n", "1: `}` where a block should begin"),
        ('resource "kafka_acl" "a" {\n 7\n}', "2: `7` where a name should stand"),
        ("locals {\n a = [}\n]\n}", "2: `}` closes what it did not open"),
        ("locals {\n a = [\n", "3: the `[` has no end"),
        ("a {" * 40, "1: it nests deeper than 32 levels"),
        ("locals {\n a = " + "[" * 40, "2: it nests deeper than 32 levels"),
        ('locals {\n a = "' + '${"' * 40, "2: it nests deeper than 32 levels"),
    ],
)
def test_what_can_not_be_read_for_certain_is_told_by_its_line(text: str, problem: str) -> None:
    found = told(text)
    assert found, text
    assert found[0].startswith(problem), found


def test_bytes_that_are_no_text_are_told() -> None:
    assert problems_of(b'\nresource "kafka_acl" "\xff" {}', FORMAT) == ["2: not UTF-8; encode it as UTF-8"]


# JSON


JSON_FIELDS = {name: value.strip('"') for name, value in ATTRIBUTES.items()}


def in_json(resources: object, **more: object) -> bytes:
    return json.dumps({**more, "resource": resources}, indent=1).encode()


def test_resources_in_json_are_read() -> None:
    fields = {**JSON_FIELDS, "acl_principal": "User:$${e\u0301}%%{$$${$%%{", "//": "why", "depends_on": ["x"]}
    raw = in_json({"kafka_topic": {"t": {"name": "t"}}, "kafka_acl": {"a": fields}}, terraform={"a": 1})
    assert recognise(raw) is FORMAT
    assert bindings_of(raw) == [acl(principal="User:${é}%{$${$%{")]


def test_a_module_in_json_is_told_by_its_line() -> None:
    resources = {"kafka_acl": {"a": JSON_FIELDS}}
    (problem,) = problems_of(in_json(resources, terraform={}, module={"more": {"source": "./more"}}), FORMAT)
    assert problem.startswith("3: `module`: it may hold resources `kafka_acl`, which are not read; write the ACLs out")
    assert bindings_of(in_json(resources, module={}), FORMAT) == [acl()]


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        (
            {"kafka_acl": {"a": {**JSON_FIELDS, "acl_host": "${var.x}"}}},
            "4: `acl_host`: only a text in quotes can be read",
        ),
        ({"kafka_acl": {"a": {**JSON_FIELDS, "acl_host": 7}}}, "4: `acl_host`: only a text in quotes can be read"),
        ({"kafka_acl": {"a": {**JSON_FIELDS, "count": 7}}}, "4: `count`: only Terraform can tell"),
        ({"kafka_acl": {"a": [JSON_FIELDS]}}, "4: not an object; write the fields of the resource"),
        ({"kafka_acl": []}, "3: `kafka_acl`: write an object of names and resources"),
        ({"confluent_kafka_acl": {}}, "3: `confluent_kafka_acl`: only resources of type"),
        ([], "2: `resource`: write an object of types, names and resources"),
    ],
)
def test_what_is_wrong_in_json_is_told(resources: object, problem: str) -> None:
    assert problems_of(in_json(resources), FORMAT)[0].startswith(problem)


def test_a_resource_that_comes_twice_in_json_is_told() -> None:
    raw = in_json({"kafka_acl": {"a": JSON_FIELDS, "b": JSON_FIELDS}}).replace(b'"b"', b'"a"')
    assert problems_of(raw)[0].endswith("`a`: the resource comes more than once; name it otherwise")
