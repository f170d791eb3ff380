import io
import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_entries import FormatLimitError
from app.formats.reading import FileSet
from app.formats.registry import format_named, read_entries
from app.formats.source import Source
from app.formats.terraform import _quoted, _text_of, resource_label
from tests.acl_sets import bindings_of, entries, problems_of, recognised, written

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


def test_delegation_tokens_are_written_and_read() -> None:
    binding = acl(name="token-1", operation=AclOperation.DESCRIBE)._replace(resource_type=ResourceType.DELEGATION_TOKEN)
    assert b'"resource_type": "DelegationToken"' in written(FORMAT, [binding])
    assert bindings_of(written(FORMAT, [binding])) == [binding]


@pytest.mark.parametrize(
    ("binding", "limit"),
    [
        (acl()._replace(resource_type=ResourceType.USER), "has no ACLs on USER"),
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
    assert problems_of(b"\n# one\n// two\n/* three\n\n*/ \t" + text.encode()) == [
        "6: HCL, which only Terraform can evaluate; give what `terraform show -json` prints, or write it as .tf.json"
    ]


# JSON


def one(**changes: object) -> object:
    return {"kafka_acl": {"a": {**FIELDS, **changes}}}


def in_json(resources: object, **more: object) -> bytes:
    return json.dumps({**more, "resource": resources}, indent=1).encode()


def test_resources_in_json_are_read() -> None:
    fields = {**FIELDS, "acl_principal": "User:$${e\u0301}%%{$$${$%%{", "//": "why", "depends_on": ["x"]}
    raw = in_json({"kafka_topic": {"t": {"name": "t"}}, "kafka_acl": {"a": fields}}, terraform={"backend": {}})
    assert recognised(raw) is FORMAT
    assert bindings_of(raw) == [acl(principal="User:${é}%{$${$%{")]


def test_a_module_in_json_is_told_by_its_line() -> None:
    resources = {"kafka_acl": {"a": FIELDS}}
    raw = in_json(resources, terraform={}, module={"more": {"source": "./more"}, "most": {"source": "./most"}})
    problems = problems_of(raw, FORMAT)
    assert problems[0].startswith("4: `more`: a module may hold `kafka_acl` resources; give what")
    assert problems[1].startswith("7: `most`: a module may hold `kafka_acl` resources; give what")
    assert len(problems) == 2
    assert bindings_of(in_json(resources, module={}), FORMAT) == [acl()]


def test_what_is_wrong_in_json_is_told(subtests: pytest.Subtests) -> None:
    for resources, problem in [
        (one(acl_host="${var.x}"), "8: `acl_host`: a template, and only Terraform can tell what that makes"),
        (one(acl_host="%{ if x }a%{ endif }"), "8: `acl_host`: a template, and only Terraform"),
        (one(acl_operation="${var.x}"), "9: `acl_operation`: a template, and only Terraform"),
        (one(acl_host=7), "8: `acl_host`: the value is not text; write it in quotes"),
        (one(acl_host=None), "8: `acl_host`: the field is missing"),
        (one(count=7), "11: `count`: so there may be more than one ACL, or none, and only Terraform can tell"),
        (one(for_each="${toset([])}"), "11: `for_each`: so there may be more than one ACL, or none"),
        (one(lifecycle={"ignore_changes": "all"}), "12: `ignore_changes`: so the ACL may be another one"),
        (one(lifecycle={"enabled": False}), "12: `enabled`: there is no such field"),
        (one(dynamic={}), "11: `dynamic`: there is no such field"),
        (one(provider="${kafka.live}"), "11: `provider`: `${kafka.live}` is no provider configuration"),
        (one(hots="*"), "11: `hots`: there is no such field"),
        (one(acl_operation="READ"), "9: `acl_operation`: `READ` is not one of its values; did you mean Read?"),
        (one(acl_operation="CreateTokens"), "9: `acl_operation`: `CreateTokens` is not one of its values"),
        (one(resource_type="User"), "6: `resource_type`: `User` is not one of its values; "),
        (one(resource_type="TransactionalId"), "6: `resource_type`: `TransactionalId` is not one of its values; did"),
        (one(resource_pattern_type_filter="Match"), "11: `resource_pattern_type_filter`: `Match` is not one of its"),
        (one(acl_principal="alice"), "4: Could not parse principal from `alice`"),
        ({"kafka_acl": {"a": {}}}, "4: `acl_host`: the field is missing"),
        ({"kafka_acl": {"a": None}}, "4: `a`: not a mapping; write its fields"),
        ({"kafka_acl": {"//": "why"}}, "4: `//`: not a mapping; write its fields"),
        ({"kafka_acl": {"a": []}}, "4: `a`: the list is empty"),
        ({"kafka_acl": {"a": [FIELDS, FIELDS]}}, "13: `a`: the resource comes more than once"),
        ([{"kafka_acl": {"a": FIELDS}}, {"kafka_acl": [{"a": FIELDS}]}], "18: `a`: the resource comes more than once"),
        ({"kafka_acl": []}, "3: `kafka_acl`: the list is empty"),
        ([], "2: `resource`: the list is empty"),
        (7, "2: `resource`: not a mapping; write its fields"),
    ]:
        with subtests.test(resources=resources, problem=problem):
            assert problems_of(in_json(resources), FORMAT)[0].startswith(problem)


def test_all_mistakes_are_told_at_once_and_once() -> None:
    bad = {**FIELDS, "acl_operaton": "Read", "acl_host": 7}
    del bad["acl_operation"]
    raw = in_json({"kafka_acl": {"a": bad, "b": {**FIELDS, "acl_principal": "x"}}}, resorce={}, modul={}, xyzxyz=1)
    starts = [
        "2: `resorce`: there is no such field; did you mean `resource`?",
        "3: `modul`: there is no such field; did you mean `module`?",
        "4: `xyzxyz`: there is no such field; remove it, or read the file",
        "11: `acl_host`: the value is not text; write it in quotes",
        "13: `acl_operaton`: there is no such field; did you mean `acl_operation`?",
        "15: Could not parse principal from `x` (no colon is present",
    ]
    for problem, start in zip(problems_of(raw, FORMAT), starts, strict=True):
        assert problem.startswith(start)


def test_types_that_may_hold_acls_are_refused(subtests: pytest.Subtests) -> None:
    for kind, problem in [
        ("confluent_kafka_acl", "only resources of type `kafka_acl` are read; write its ACL as one, or leave it out"),
        ("redpanda_acl", "only resources of type"),
        ("aiven_kafka_native_acl", "only resources of type"),
        ("alicloud_alikafka_sasl_acl", "only resources of type"),
        ("kafka_Acl", "Klamm knows no such type; did you mean `kafka_acl`?"),
        ("KAFKA_ACL", "Klamm knows no such type"),
        ("kafka_acls", "Klamm knows no such type"),
        ("kfka_alc", "Klamm knows no such type"),
    ]:
        for block in ("resource", "data", "ephemeral", "action"):
            with subtests.test(kind=kind, block=block):
                raw = json.dumps({block: {kind: {}}}, indent=1).encode()
                assert problems_of(raw, FORMAT)[0].startswith(f"3: `{kind}`: {problem}")
        with subtests.test(kind=kind):
            (found,) = problems_of(shown(changes={"type": kind}))
            assert found.startswith(f"1: `{kind}`: {problem}")
            assert found.endswith("(of kafka_acl.a)")


def test_acls_in_the_wrong_place_are_refused(subtests: pytest.Subtests) -> None:
    acls = {"kafka_acl": {"a": FIELDS}}
    for blocks, problem in [
        ({"kafka_acl": {"a": FIELDS}}, "`kafka_acl`: there is no such field here; it belongs to `resource`"),
        ({"data": acls}, "`kafka_acl`: the provider has nothing but resources of this type; write it as"),
        ({"terraform": {"resource": acls}}, "`resource`: there is no such field here; it belongs to the outermost"),
        ({"variable": {"resource": acls}}, "`kafka_acl`: there is no such field here; it belongs to `resource`"),
        ({"terraform": {"required_providers": acls}}, "`kafka_acl`: only `kafka_acl` resources have this"),
        ({"locals": {"a": [{"x": FIELDS}]}}, "`acl_principal`: only `kafka_acl` resources have this"),
        ({"locals": {"a": FIELDS}, **json.loads(in_json(one(for_each="${local.a}")))}, "`for_each`: so there may be"),
        ({"provider": {"resource": acls}}, "`kafka_acl`: only `kafka_acl` resources have this; correct its type or"),
        ({"locals": {"resource": acls}}, "`kafka_acl`: only `kafka_acl` resources have this"),
        ({"locals": acls}, "`kafka_acl`: only `kafka_acl` resources have this"),
        ({"resource": {"kafka_topic": acls}}, "`kafka_acl`: only `kafka_acl` resources have this"),
        ({"resource": {"resource": acls}}, "`kafka_acl`: only `kafka_acl` resources have this"),
        ({"resource": {"acl": {"a": FIELDS}}}, "`acl_principal`: only `kafka_acl` resources have this"),
    ]:
        with subtests.test(blocks=blocks):
            (found,) = problems_of(json.dumps(blocks).encode(), FORMAT)
            assert found.startswith(f"1: {problem}")


def test_blocks_may_come_in_lists() -> None:
    """At each level at which Terraform takes one; two bodies of one resource it refuses."""
    fields = {name: {**FIELDS, "resource_name": name} for name in "abcd"}
    resources = [
        {"kafka_acl": {"a": fields["a"]}},
        {"kafka_acl": [{"b": fields["b"]}, {"c": [fields["c"]]}], "kafka_topic": [{"t": [{}]}]},
    ]
    files = [{"terraform": [{"backend": {}}]}, {"resource": resources}, {"resource": {"kafka_acl": {"d": fields["d"]}}}]
    raw = json.dumps(files).encode()
    assert recognised(raw) is FORMAT
    assert bindings_of(raw) == [acl(name=each) for each in "abcd"]
    assert problems_of(b'[{"resource": {}}, 7]') == ["1: not a mapping; write Terraform's blocks"]


def test_whatever_is_passed_over_is_named() -> None:
    files = FileSet()
    blocks = {
        "//": "why",
        "resource": {
            "kafka_topic": {"t": {}, "u": {"//": "why"}},
            "github_team_repository": {"t": {"permission": "push"}},
            "kafka_acl": {"a": {**FIELDS, "provisioner": {"local-exec": {"command": "date"}}, "connection": {}}},
        },
        "data": {"kafka_topic": {"t": {}}},
        "ephemeral": {"random_password": {"p": {}}},
        "action": {"aws_lambda_invoke": {"x": {}}},
        "provider": {"kafka": [{"alias": "live"}, {"alias": "try"}]},
        "locals": {"//": "why", "a": 1, "b": [{}]},
        "variable": {"a": {"type": "string"}, "b": {}},
        "output": {"a": {"value": 1}},
        "check": {"a": {"assert": {}}},
        "terraform": {"required_providers": {"kafka": {"source": "Mongey/kafka"}}},
        "moved": [{"from": "a", "to": "b"}, {"from": "c", "to": "d"}],
        "import": {"to": "kafka_acl.a", "id": "x"},
        "removed": {"from": "kafka_acl.x", "lifecycle": {"destroy": False}},
    }
    (entry,) = entries(json.dumps(blocks).encode(), files=files)
    assert isinstance(entry[1], NewAcl)
    assert files.passed_over() == {
        "kafka_topic": 2, "github_team_repository": 1, "data.kafka_topic": 1, "ephemeral.random_password": 1,
        "action.aws_lambda_invoke": 1, "provider": 1, "locals": 2, "variable": 2, "output": 1, "check": 1,
        "terraform": 1, "moved": 2, "import": 1, "removed": 1, "provisioner": 1,
    }  # fmt: skip


def test_a_field_can_be_passed_over_by_its_place() -> None:
    files = FileSet(pass_over=frozenset({"resource.kafka_acl.a.flavour"}))
    ((_, found),) = entries(in_json(one(flavour="x")), files=files)
    assert found == NewAcl(acl())
    assert files.passed_over() == {"resource.kafka_acl.a.flavour": 1}


def test_a_block_can_be_passed_over_whatever_it_holds() -> None:
    files = FileSet(pass_over=frozenset({"flavour"}))
    raw = json.dumps({"resource": one(), "flavour": one()}).encode()
    ((_, found),) = entries(raw, files=files)
    assert found == NewAcl(acl())
    assert files.passed_over() == {"flavour": 1}


def test_resources_of_two_providers_are_refused() -> None:
    raw = in_json({"kafka_acl": {"a": {**FIELDS, "provider": "kafka.live"}, "b": FIELDS}})
    (problem,) = problems_of(raw)
    assert problem.startswith("13: it is of the cluster `kafka`, but line 4 is of `kafka.live`; read those of one")
    assert len(bindings_of(in_json({"kafka_acl": {"a": {**FIELDS, "provider": "kafka"}, "b": FIELDS}}))) == 2


def test_two_root_modules_may_not_configure_one_provider_for_two_clusters() -> None:
    def module(servers: str, name: str) -> bytes:
        provider = {"kafka": {"bootstrap_servers": [servers]}}
        resource = {"kafka_acl": {name: {**FIELDS, "resource_name": name}}}
        return json.dumps({"provider": provider, "resource": resource}).encode()

    def told(*modules: bytes) -> list[str]:
        files = FileSet()
        sources = [(f"{at}.tf.json", Source(io.BytesIO(each))) for at, each in enumerate(modules)]
        every = [found for file, each in sources for _, found in read_entries(each, files.reading(file))]
        return [str(each) for found in every if isinstance(found, list) for each in found]

    assert told(module("live:9092", "a"), module("live:9092", "b")) == []
    (conflict,) = told(module("live:9092", "a"), module("try:9092", "b"))
    assert conflict == (
        "`kafka`: `kafka` is configured in 0.tf.json:1 in another way, so the ACLs may be of two clusters; give the "
        "files of one root module"
    )
    assert len(told(module("${var.servers}", "a"), module("${var.servers}", "b"))) == 1


def test_resources_of_one_provider_are_read() -> None:
    files = FileSet(of_cluster="kafka.live")
    raw = in_json({"kafka_acl": {"a": {**FIELDS, "provider": "kafka.live", "resource_name": "x"}, "b": FIELDS}})
    ((_, found),) = entries(raw, files=files)
    assert found == NewAcl(acl(name="x"))
    assert files.other_clusters() == {"kafka": 1}


def test_a_resource_that_comes_twice_in_json_is_told() -> None:
    raw = in_json({"kafka_acl": {"a": FIELDS, "b": FIELDS}}).replace(b'"b"', b'"a"')
    assert problems_of(raw)[0].endswith("`a`: the key comes more than once; write it once")


def test_a_field_that_comes_twice_in_json_is_told() -> None:
    raw = in_json(one(hots="*")).replace(b'"hots"', b'"acl_host"')
    assert problems_of(raw) == ["11: `acl_host`: the key comes more than once; write it once"]


# terraform show -json

VALUES = {**FIELDS, "id": "User:a|*|Read", "resource_pattern_type_filter": "Literal"}


def resource(topic: str = "t", **changes: object) -> dict[str, object]:
    """As Terraform prints it in a state or plan."""
    return {
        "address": "kafka_acl.a", "mode": "managed", "type": "kafka_acl", "name": "a",
        "provider_name": "registry.terraform.io/mongey/kafka", "schema_version": 1,
        "values": {**VALUES, "resource_name": topic}, "sensitive_values": {}, **changes,
    }  # fmt: skip


def shown(
    kind: str = "values",
    root: object = None,
    changes: Mapping[str, object] | None = None,
    more: Mapping[str, object] | None = None,
) -> bytes:
    """As Terraform prints a state or a plan with one resource at the root, or with this module there."""
    topic = {"address": "data.kafka_topic.t", "mode": "data", "type": "kafka_topic", "name": "t", "values": {}}
    module = root or {"resources": [topic, {**resource(), **(changes or {})}]}
    values = {"outputs": {"x": {"sensitive": False, "value": 1, "type": "number"}}, "root_module": module}
    return json.dumps({"format_version": "1.2", "terraform_version": "1.9.0", **(more or {}), kind: values}).encode()


WHOLE_PLAN = {
    "variables": {"a": {"value": "b"}},
    "resource_changes": [{"address": "kafka_acl.a", "change": {"actions": ["create"], "after": VALUES}}],
    "resource_drift": [], "deferred_changes": [], "output_changes": {}, "relevant_attributes": [], "checks": [],
    "condition_results": [],
    "prior_state": {"format_version": "1.0", "values": {"root_module": {}}}, "timestamp": "2026-11-28T00:00:00Z",
    "applyable": True, "complete": True, "errored": False,
}  # fmt: skip


def configuration(root: object) -> dict[str, object]:
    return {"provider_config": {"kafka": {"name": "kafka", "full_name": "mongey/kafka"}}, "root_module": root}


def of_provider(key: str, name: str = "a") -> dict[str, object]:
    return {
        "address": f"kafka_acl.{name}", "mode": "managed", "type": "kafka_acl", "name": name, "schema_version": 1,
        "provider_config_key": key, "expressions": {},
    }  # fmt: skip


def test_a_state_or_a_plan_is_read_as_terraform_has_evaluated_it(subtests: pytest.Subtests) -> None:
    values = {**VALUES, "acl_principal": "User:$${x} ${y}", "resource_pattern_type_filter": "Prefixed"}
    cases: list[tuple[str, Mapping[str, object]]] = [
        ("values", {"checks": []}),
        ("planned_values", WHOLE_PLAN),
        ("planned_values", {}),
    ]
    for kind, more in cases:
        with subtests.test(kind=kind):
            raw = shown(kind, changes={"values": values}, more=more)
            assert recognised(raw) is FORMAT
            assert bindings_of(raw) == [acl(principal="User:$${x} ${y}")._replace(pattern_type=PatternType.PREFIXED)]


def test_resources_of_modules_are_read_in_order() -> None:
    inner = {"address": 'module.m["a.b"].module.n', "resources": [resource("c")]}
    children = [
        {"address": 'module.m["a.b"]', "resources": [resource("b")], "child_modules": [inner]},
        {"address": "module.o[0]", "resources": [resource("d")]},
    ]
    root = {"resources": [resource("a")], "child_modules": children}
    assert bindings_of(shown(root=root)) == [acl(name=each) for each in "abcd"]
    calls = {
        "m": {"module": {"resources": [of_provider("kafka")], "module_calls": {"n": {"module": {}}}}},
        "o": {"source": "./o", "module": {"resources": [of_provider("kafka")]}},
    }
    whole = configuration({"resources": [of_provider("kafka")], "module_calls": calls})
    (problem,) = problems_of(shown("planned_values", root, more={"configuration": whole}))
    assert problem.startswith("1: `configuration`: the plan's configuration has no such resource, so its cluster is")
    calls["m"]["module"]["module_calls"]["n"]["module"] = {"resources": [of_provider("kafka")]}  # type: ignore[index]
    assert len(bindings_of(shown("planned_values", root, more={"configuration": whole}))) == 4
    calls["m"]["module"]["module_calls"]["n"]["module"] = {"resources": [of_provider("kafka.x")]}  # type: ignore[index]
    (problem,) = problems_of(shown("planned_values", root, more={"configuration": whole}))
    assert problem.startswith("1: it is of the cluster `kafka.x`, but line 1 is of `kafka`; read those of one cluster")


def test_a_plan_says_of_which_provider_its_resources_are() -> None:
    root = {"resources": [resource("a"), resource("b") | {"name": "b"}, resource("c") | {"name": "b", "index": 1}]}
    whole = configuration({"resources": [of_provider("kafka.live"), of_provider("kafka.try", "b")]})
    raw = shown("planned_values", root, more={"configuration": whole})
    assert problems_of(raw)[0].startswith("1: it is of the cluster `kafka.try`, but line 1 is of `kafka.live`")
    files = FileSet(of_cluster="kafka.try")
    assert [found for _, found in entries(raw, files=files)] == [NewAcl(acl(name="b")), NewAcl(acl(name="c"))]
    assert files.other_clusters() == {"kafka.live": 1}
    # A state doesn't say it.
    ((_, problems),) = entries(shown(), files=FileSet(of_cluster="kafka.try"))
    assert isinstance(problems, list)
    assert "leave out --of-cluster" in problems[0]


def test_what_is_wrong_in_a_state_is_told_with_its_resource(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Mapping[str, object], str]] = [
        ({"values": {**VALUES, "acl_host": 7}}, "`acl_host`: the value is not text; write it in quotes"),
        ({"values": {**VALUES, "acl_host": None}}, "`acl_host`: the field is missing"),
        # Only a value that isn't known yet is left out of a plan; it isn't the default.
        ({"values": {**FIELDS, "id": "x"}}, "`resource_pattern_type_filter`: the field is missing"),
        ({"values": {**VALUES, "acl_hots": "*"}}, "`acl_hots`: there is no such field"),
        ({"values": 7}, "`values`: not a mapping; write its fields"),
        ({"values": None}, "`values`: not a mapping; write its fields"),
        ({"values": {**VALUES, "acl_principal": "alice"}}, "Could not parse principal from `alice`"),
        ({"tainted": True}, "`tainted`: Terraform failed to create this ACL"),
        ({"deposed_key": "0a1b"}, "`deposed_key`: an ACL that Terraform has yet to delete"),
        ({"mode": "data"}, "`kafka_acl`: "),
        ({"type": "kafka_topic"}, "`acl_principal`: only `kafka_acl` resources have this"),
    ]
    for changes, problem in cases:
        with subtests.test(changes=changes):
            (found,) = problems_of(shown(changes=changes))
            assert found.startswith(f"1: {problem}")
            assert found.endswith("(of kafka_acl.a)")
    assert bindings_of(shown(changes={"tainted": False})) == [acl()]
    (problem,) = problems_of(shown(changes={"mode": "manged"}))
    assert problem == "1: `mode`: `manged` is not one of its values; did you mean managed?"


def test_lines_are_those_of_the_file() -> None:
    raw = json.dumps(json.loads(shown(changes={"values": {**VALUES, "acl_host": 7}})), indent=1)
    (problem,) = problems_of(raw.encode())
    assert problem.startswith(f"{raw[: raw.index('acl_host')].count(chr(10)) + 1}: `acl_host`")


@pytest.mark.parametrize(
    ("kind", "more", "problem"),
    [
        ("planned_values", {"errored": True, "complete": False}, "`errored`: Terraform failed while it made this plan"),
        ("planned_values", {"complete": False}, "`complete`: the plan is not whole, so ACLs may be missing"),
        ("planned_values", {"deferred_changes": [{}]}, "`deferred_changes`: some resources are not planned yet"),
        ("planned_values", {"errored": "false"}, "`errored`: neither true nor false"),
        ("planned_values", {"flavour": 1}, "`flavour`: there is no such field"),
        ("planned_values", {"configuration": {}}, "`root_module`: the field is missing"),
        ("planned_values", {"configuration": configuration({"resource": []})}, "`resource`: there is no such field"),
        ("values", {"flavour": 1}, "`flavour`: there is no such field"),
        ("values", {"format_version": "2.0"}, "`format_version`: `2.0` is unknown to Klamm"),
        ("values", {"resource": {}}, "`resource`: there is no such field"),
        ("plannd_values", WHOLE_PLAN, "`plannd_values`: there is no such field; did you mean `planned_values`?"),
        ("valuess", {}, "`valuess`: there is no such field; did you mean `values`?"),
    ],
)
def test_a_plan_that_is_not_whole_is_refused(kind: str, more: dict[str, object], problem: str) -> None:
    (found,) = problems_of(shown(kind, more=more))
    assert found.startswith(f"1: {problem}")


def test_an_acl_of_the_configuration_that_is_not_planned_is_told() -> None:
    """A plan of -destroy or -refresh-only doesn't have it, and a resource may have been moved out of the values."""
    many = {"count_expression": {"references": ["var.x"]}}
    calls = {
        "m": {"module": {"resources": [of_provider("kafka")]}},
        "n": {"module": {"resources": [of_provider("kafka"), {**of_provider("kafka", "c"), **many}]}},
        "o": {"module": {"resources": [of_provider("kafka")]}, **many},
    }
    root = {"resources": [resource()], "child_modules": [{"address": "module.m", "resources": [resource("u")]}]}
    whole = configuration({"resources": [of_provider("kafka"), of_provider("kafka", "b")], "module_calls": calls})
    problems = problems_of(shown("planned_values", root, more={"configuration": whole}))
    assert [each.rpartition(" (of ")[2] for each in problems] == ["kafka_acl.b)", "module.n.kafka_acl.a)"]
    assert problems[0].startswith("1: `planned_values`: the planned values lack this resource; plan again without")
    (problem,) = problems_of(shown("planned_values", root, more={"configuration": whole, "errored": True}))
    assert problem.startswith("1: `errored`")


def test_acls_among_the_outputs_are_the_users_own_or_misplaced() -> None:
    assert bindings_of(shown().replace(b'"value": 1', b'"value": ' + json.dumps(VALUES).encode())) == [acl()]
    raw = json.loads(shown(root={"child_modules": []}))
    raw["values"]["outputs"]["resources"] = [resource()]
    assert problems_of(json.dumps(raw).encode()) == ["1: `resources`: not a mapping; write its fields"]
    raw["values"]["outputs"] = {"x": {"value": 1, "resources": [resource()]}}
    (problem,) = problems_of(json.dumps(raw).encode())
    assert problem.startswith("1: `resources`: there is no such field")


def test_a_plan_with_a_prior_state_alone_is_refused() -> None:
    raw = json.dumps({"format_version": "1.2", "prior_state": json.loads(shown())}).encode()
    assert recognised(raw) is FORMAT
    assert problems_of(raw) == ["1: `planned_values`: the field is missing"]


@pytest.mark.parametrize("name", ["values", "planned_values"])
def test_values_that_are_null_are_refused(name: str) -> None:
    raw = json.dumps({"format_version": "1.0", name: None}).encode()
    assert problems_of(raw) == [f"1: `{name}`: not a mapping; write its fields"]


def test_a_state_without_acls_has_none() -> None:
    assert entries(b'{"format_version": "1.0"}') == []


def test_a_state_as_terraform_stores_it_is_refused_with_the_way_out() -> None:
    state = {"version": 4, "terraform_version": "1.9.0", "serial": 3, "lineage": "x", "outputs": {}, "resources": []}
    raw = json.dumps(state).encode()
    assert recognised(raw) is FORMAT
    assert problems_of(raw) == ["1: a state as Terraform stores it; give what `terraform show -json` prints"]


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b'{"data": {"kafka_topic": {"t": {}}}}', "terraform"),
        (b'{"data": {"kafka_topic": {"t": {}}}, "resource": {}}', "terraform"),
        (b'{"data": []}', "confluent"),
        (b'{"locals": {}}', "terraform"),
        (b'[{"locals": {}}]', "terraform"),
        (b"resource kafka_acl a {\n}", "terraform"),
        (b"locals{\n}", "terraform"),
        (b'a: |\n  resource "kafka_acl" "a" {\n', None),
        (b"principal\nresource {\n", None),
        (b"/* " * 20000 + b"resource {", None),
    ],
)
def test_it_is_recognised_by_its_structure(raw: bytes, name: str | None) -> None:
    found = recognised(raw)
    assert (found and found.name) == name


def test_what_is_neither_json_nor_hcl_is_told() -> None:
    assert problems_of(b"a: b\n", FORMAT) == ["1: not JSON; give what `terraform show -json` prints, or a .tf.json"]
