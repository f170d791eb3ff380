import gzip
import io
import json
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.client.plan.planning import Plan, Prune, save_plan
from app.core.kafka.bindings import AclBinding
from app.core.kafka.filters import AclBindingFilter
from app.core.token import Token
from app.formats.file_flags import FileFlags
from app.formats.registry import FORMATS, format_named
from app.pipeline.spark.errors import PipelineError
from tests.strategies import bindings, filters
from tests.updates import new, unending

BINDING = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "principal": "User:alice",
    "operation": "READ",
    "permission_type": "ALLOW",
}


@given(st.lists(filters, max_size=12), st.lists(bindings, max_size=20))
def test_many_filters_at_once_match_what_any_of_them_matches(
    some: list[AclBindingFilter], acls: list[AclBinding]
) -> None:
    from app.pipeline.access.changes import FilterSet

    together = FilterSet(some)
    assert [together.matches(acl) for acl in acls] == [any(each.matches(acl) for each in some) for acl in acls]


@given(
    st.lists(st.lists(bindings, max_size=4) | st.lists(filters, max_size=2), max_size=5),
    st.lists(bindings, max_size=12, unique=True),
)
def test_what_becomes_of_an_acl_is_what_the_service_would_do_in_turn(
    steps: list[list[Any]], acls: list[AclBinding]
) -> None:
    from app.pipeline.access.changes import Candidate, FilterSet, Step

    files, store = [], dict.fromkeys(acls, "old")
    for number, step in enumerate(steps):
        creates = not step or isinstance(step[0], AclBinding)
        if creates:
            files.append(Step(str(number), bindings=dict.fromkeys(step, "")))
            for binding in step:
                store.setdefault(binding, f"new by {number}")
        else:
            files.append(Step(str(number), filters=FilterSet(step)))
            store = {
                binding: made for binding, made in store.items() if not any(each.matches(binding) for each in step)
            }
    candidate, found = Candidate(files), {}
    for binding in {*acls, *candidate.bindings}:
        fate = candidate.fate(binding, there=binding in acls)
        if fate.there:
            kept = binding in acls and not fate.gone
            found[binding] = "old" if kept else f"new by {fate.created_by}"
    assert found == store


@pytest.mark.parametrize(
    ("kind", "text", "wrong"),
    [
        ("create", " \n", "FILE: is empty"),
        ("create", "{", "FILE: line 1: not JSON: "),
        ("create", "[5]", "FILE: line 1: not a mapping"),
        ("create", {"bindings": {}}, "FILE: line 1: `bindings`: not a list; write one"),
        ("create", {"context": {}}, "FILE: is in no format .* its outermost field is `context`"),
        ("create", {"filters": []}, "FILE: .*; give a file with `filters` to --delete"),
        ("create", {"context": {}, "filters": []}, "FILE: .*; give a file with `filters` to --delete"),
        ("create", "no ACLs at all", "FILE: is in no format that Klamm recognises; name its format with --format"),
        ("delete", {"bindings": []}, "FILE: .*unknown field `bindings`; give ACLs to create to --create"),
        ("create", {"bindings": [], "a/b": 1}, "FILE: line 1: `a/b`: there is no such field"),
        ("delete", {"filters": [], "a/b": 1}, "FILE: .*unknown field `a/b`"),
        ("create", {"bindings": [BINDING, 5]}, "FILE: line 1: `bindings`: not a mapping"),
        (
            "create",
            {"bindings": [BINDING, {**BINDING, "operation": "EAT"}]},
            "FILE: line 1: `operation`: `EAT` is not a value that Kafka knows",
        ),
        ("create", {"bindings": [{**BINDING, "actor": "me"}]}, "FILE: line 1: `actor`: there is no such field"),
        ("create", {"bindings": [{**BINDING, "host": None}]}, "FILE: line 1: `host`: the value is not text"),
        ("create", {"bindings": [{"resource_type": "TOPIC"}]}, "FILE: line 1: .*`resource_name`: the field is missing"),
        ("create", {"bindings": [{**BINDING, "principal": "alice"}]}, "FILE: line 1: Could not parse principal"),
        (
            "create",
            {"bindings": [{**BINDING, "operation": "ANY"}]},
            "FILE: line 1: `operation`: `ANY` is not a value that Kafka knows",
        ),
        ("create", {"bindings": [{**BINDING, "host": "10.0.0.0/99"}]}, "FILE: line 1: Invalid CIDR notation"),
        ("create", {"bindings": [{**BINDING, "resource_name": "\ud800"}]}, "FILE: line 1: .*surrogate"),
        ("create", '{"bindings": [], "bindings": []}', "FILE: line 1: `bindings`: the key comes more than once"),
        (
            "delete",
            {"filters": [{}, {"pattern_type": "GLOB"}]},
            r"FILE: `GLOB` is not a value that Kafka knows; .* at `\$.filters\[1\].pattern_type`",
        ),
        (
            "delete",
            {"filters": [{"host": 7}]},
            r"FILE: Expected `str \| null`, .* at `\$.filters\[0\].host`",
        ),
        ("delete", '{"filters": [], "filters": []}', "FILE: a key comes more than once; send it once"),
        ("delete", {"filters": [{"operation": "UNKNOWN"}]}, r"FILE: Unknown entryFilter.* - at `\$\.filters\[0\]`"),
    ],
)
def test_a_file_that_the_service_would_refuse_is_refused_with_its_place(
    tmp_path: Path, kind: str, text: object, wrong: str
) -> None:
    from app.pipeline.access.change_files import read_candidate

    path = tmp_path / "change.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(PipelineError, match=wrong.replace("FILE", str(path))):
        read_candidate([(kind, str(path))])


def _acls() -> list[AclBinding]:
    words = ("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")
    return [AclBinding.from_words(words), AclBinding.from_words(("GROUP", *words[1:]))]


def _written(name: str) -> str:
    text = io.StringIO(newline="")
    format_named(name).write(new(_acls()), text)
    return text.getvalue()


@pytest.mark.parametrize("name", [each.name for each in FORMATS])
def test_acls_to_create_come_in_every_format_that_plan_takes(tmp_path: Path, name: str) -> None:
    from app.pipeline.access.change_files import read_candidate
    from app.pipeline.access.changes import refuse_excessive

    plain, packed = tmp_path / "new", tmp_path / "new.gz"
    plain.write_text(_written(name), newline="")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path, named in ((plain, None), (plain, name), (packed, None)):
        candidate = read_candidate([("create", str(path))], FileFlags(named))
        assert sorted(each.words for each in candidate.bindings) == sorted(each.words for each in _acls())
    # What is no body of createAcls is applied in as many calls as it takes.
    step = candidate.steps[0]
    if name != "klamm":
        refuse_excessive(step, 10_001, 0)
    else:
        with pytest.raises(PipelineError, match="split the file"):
            refuse_excessive(step, 10_001, 0)


def test_a_format_that_no_file_shows_can_be_named(tmp_path: Path) -> None:
    from app.pipeline.access.change_files import read_candidate

    bare = tmp_path / "bare.csv"
    bare.write_text("User:alice,Topic,LITERAL,orders,Read,Allow,*\n")
    with pytest.raises(PipelineError, match="name its format with --format"):
        read_candidate([("create", str(bare))])
    assert read_candidate([("create", str(bare))], FileFlags("csv")).bindings == _acls()[:1]
    with pytest.raises(PipelineError, match="--format: `xls` is not a format; the formats are klamm, "):
        read_candidate([("create", str(bare))], FileFlags("xls"))


def test_what_is_passed_over_or_of_another_cluster_is_told(tmp_path: Path) -> None:
    from app.pipeline.access.change_files import read_candidate

    user = (
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\n"
        "metadata: {{name: {0}, labels: {{strimzi.io/cluster: {1}}}}}\n"
        "spec: {{authorization: {{type: simple, acls: [{{resource: {{type: cluster}}, operations: [Alter]}}]}}}}\n"
    )
    live, other = tmp_path / "live.yaml", tmp_path / "other.yaml"
    live.write_text(user.format("a", "live"))
    other.write_text(f"{user.format('b', 'try')}---\n{user.format('c', 'try')}")
    files = [("create", str(live)), ("create", str(other))]
    with pytest.raises(
        PipelineError, match=r"other.yaml: line 3: `metadata`: it is of the cluster `try`, but .*live.yaml:3 is of"
    ):
        read_candidate(files)
    candidate = read_candidate(files, FileFlags(of_cluster="live", pass_over=frozenset({"spec.x"})))
    assert [each.principal for each in candidate.bindings] == ["User:a"]
    assert candidate.notes == [
        "left out, of other clusters: 2 of try",
        "no file has what --pass-over names: spec.x",
    ]
    for order in (files[1:], [files[1], ("delete", str(_delete_all(tmp_path)))]):
        with pytest.raises(PipelineError, match=r"--create .*other.yaml: it holds no ACLs of `live`"):
            read_candidate(order, FileFlags(of_cluster="live"))
    (tmp_path / "new.jsonl").write_text(json.dumps(BINDING))
    with pytest.raises(PipelineError, match="it does not say its cluster"):
        read_candidate([("create", str(tmp_path / "new.jsonl"))], FileFlags(of_cluster="live"))


def _delete_all(folder: Path) -> Path:
    path = folder / "delete.json"
    path.write_text(json.dumps({"filters": [{}]}))
    return path


def test_a_saved_plan_is_what_it_creates_and_what_it_deletes(tmp_path: Path) -> None:
    from app.pipeline.access.change_files import read_candidate
    from app.pipeline.access.changes import Fate

    path, (new_acl, old) = tmp_path / "tidy.plan", _acls()
    token = str(Token(UUID(int=1), 5))
    plan = Plan(token, Prune(True, frozenset(), ()), unending([new_acl]), (), unending([old]), 1, 0, 2)  # noqa: FBT003 - the order of a tuple
    save_plan(str(path), "http://127.0.0.1:8080", plan, force=False)
    candidate = read_candidate([("create", str(path))])
    assert candidate.fate(new_acl, there=False) == Fate(there=True, gone=False, created_by=0)
    assert candidate.fate(old, there=True) == Fate(there=False, gone=True, deleted_by=1)
    with pytest.raises(PipelineError, match="give a saved plan to --create"):
        read_candidate([("delete", str(path))])
    sealed = path.read_text()
    for before, after, fault in (
        ('"klamm_plan": 3', '"klamm_plan": 2', "is a plan that an earlier version of klamm has saved; plan again"),
        ('"unchanged": 1', '"unchanged": 0', "has been edited since it was saved"),
        ('"klamm_plan": 3', '"klamm_plan": "3"', "not a plan that this version of klamm has saved"),
    ):
        path.write_text(sealed.replace(before, after))
        with pytest.raises(PipelineError, match=fault):
            read_candidate([("create", str(path))])


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    from app.pipeline.access.change_files import read_candidate

    with pytest.raises(PipelineError, match=r"gone\.json: can't be read"):
        read_candidate([("create", str(tmp_path / "gone.json"))])
    (tmp_path / "latin.json").write_bytes('{"bindings": ["é"]}'.encode("latin-1"))
    with pytest.raises(PipelineError, match="not UTF-8"):
        read_candidate([("create", str(tmp_path / "latin.json"))])


@pytest.mark.parametrize("kind", ["create", "delete"])
def test_a_device_without_end_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.pipeline.access import change_files
    from app.pipeline.access.change_files import read_candidate

    monkeypatch.setattr(change_files, "MAX_FILE_BYTES", 1_000_000)
    with pytest.raises(PipelineError, match=f"--{kind} /dev/zero: larger than 1000000 bytes"):
        read_candidate([(kind, "/dev/zero")])


def test_bodies_are_read_as_the_service_reads_them(tmp_path: Path) -> None:
    from app.pipeline.access.change_files import read_candidate
    from app.pipeline.access.changes import new_id

    made, gone = tmp_path / "made.json", tmp_path / "gone.json"
    context = {"principal": "User:admin", "client_address": "10.0.0.1"}
    made.write_text(json.dumps({"context": context, "bindings": [BINDING, {**BINDING, "pattern_type": "LITERAL"}]}))
    gone.write_text(json.dumps({"filters": [{"principal": "User:alice", "resource_name": None}], "timeout_ms": 5}))
    candidate = read_candidate([("create", str(made)), ("delete", str(gone)), ("create", str(made))])
    (binding,) = candidate.bindings
    assert (binding.host, binding.pattern_type.name) == ("*", "LITERAL")
    fate = candidate.fate(binding, there=True)
    assert (fate.there, fate.gone, fate.deleted_by, fate.created_by) == (True, True, 1, 2)
    assert new_id(binding) == new_id(binding)


def test_ten_thousand_filters_look_at_each_acl_but_once() -> None:
    from app.pipeline.access.changes import FilterSet

    draw = Random(5)
    some = [AclBindingFilter(resource_name=f"t{draw.randrange(10**9)}", principal="User:a") for _ in range(10_000)]
    assert len(FilterSet(some)._exact) == 1


def test_more_than_kafka_takes_in_one_call_is_refused() -> None:
    from app.pipeline.access.changes import Step, refuse_excessive

    refuse_excessive(Step("a.json"), 10_000, 10_000)
    with pytest.raises(PipelineError, match=r"a\.json: deletes 10,001 ACLs"):
        refuse_excessive(Step("a.json"), 0, 10_001)
