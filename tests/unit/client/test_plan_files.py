"""Saved plans come back as they were, and nothing else is taken for one."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.client.plan.planning import Limits, Plan, Prune, check_plan, load_plan, make_plan, save_plan
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_bodies import acl_body
from app.formats.command_errors import UsageError
from tests.cases import each_case
from tests.updates import termless, unending, wanted

TOKEN = "5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11:42"


def acl(name: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        name,
        PatternType.PREFIXED,
        "User:CN=ä, O=b",
        "10.0.0.0/8",
        AclOperation.READ,
        AclPermissionType.DENY,
    )


ALL = Prune(wanted=True)
THERE = termless({acl("b"), acl("a")})
SOME = Prune(wanted=True, principals=frozenset({acl("").principal}), prefixes=("a", "b"))
PLAN = make_plan(wanted({acl("a"), acl("😀\n")}), THERE, TOKEN, SOME)


def test_a_plan_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("an older one")
    save_plan(str(path), "http://klamm:8080", PLAN)
    assert load_plan(str(path)) == ("http://klamm:8080", PLAN)
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_that_can_not_be_saved_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--save: .* can't be written"):
        save_plan(str(tmp_path / "none" / "plan.json"), "", PLAN)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="can't be written"):
        save_plan(str(tmp_path / "folder"), "", PLAN)
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    "change",
    [
        {"klamm_plan": 1},
        {"token": "garbage"},
        {"create": {}},
        {"create": [{}]},
        {"create": None},
        {"unchanged": "1"},
        {"prunable": -1},
        {"prunable": True},
        {"klamm_plan": True},
        {"klamm_plan": 2.0},
        {"url": {}},
        {"prune": None},
        {"prune": {"wanted": 1, "principals": [], "prefixes": []}},
        {"prune": {"wanted": True, "principals": [], "prefixes": "a"}},
        {"prune": {"wanted": True, "principals": [7], "prefixes": []}},
        {"delete": [acl_body(each) for each in unending([acl("b")])] * 3},
        {"create": [acl_body(each) for each in unending([acl("b")])]},
        {"more": 1},
    ],
)
def test_what_is_no_saved_plan_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "plan.json"
    save_plan(str(path), "", PLAN)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UsageError, match="is not a plan that this version of klamm has saved"):
        load_plan(str(path))


@pytest.mark.parametrize("field", ["operation", "principal", "resource_name"])
def test_an_acl_that_could_not_be_created_is_refused(tmp_path: Path, field: str) -> None:
    path = tmp_path / "plan.json"
    save_plan(str(path), "", PLAN)
    body = json.loads(path.read_text())
    body["create"][0][field] = {"operation": "FLY", "principal": "nobody", "resource_name": ""}[field]
    path.write_text(json.dumps(body))
    with pytest.raises(UsageError, match="is not a plan"):
        load_plan(str(path))


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b"{}", b"[" * 100_000])
def test_garbage_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match="is not a plan"):
        load_plan(str(path))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match=r"--plan: `none.json` can't be read"):
        load_plan("none.json")


@pytest.mark.parametrize(
    ("key", "again"), [('"prunable": 2', '"prunable": 99999'), ('"resource_name": "a"', '"resource_name": "z"')]
)
def test_a_key_that_comes_twice_is_refused(tmp_path: Path, key: str, again: str) -> None:
    path = tmp_path / "plan.json"
    save_plan(str(path), "", make_plan(wanted({acl("a")}), termless({acl("b"), acl("c")}), TOKEN, ALL))
    text = path.read_text()
    assert text.count(key) == 1
    path.write_text(text.replace(key, f"{key}, {again}"))
    with pytest.raises(UsageError, match="is not a plan"):
        load_plan(str(path))


@pytest.mark.parametrize("prune", [Prune(), ALL, SOME, replace(SOME, prefixes=("b",))])
def test_a_plan_fits_what_it_was_made_of(prune: Prune) -> None:
    for desired in (frozenset[AclBinding](), frozenset({acl("a"), acl("x")}), frozenset(THERE)):
        check_plan("plan.json", make_plan(wanted(desired), THERE, TOKEN, prune), THERE)


@each_case(
    ("plan", "why"),
    [
        (replace(PLAN, delete=unending([acl("c")])), "it deletes ACLs that do not exist"),
        (replace(PLAN, create=unending([acl("a")])), "it creates ACLs that exist already"),
        (
            replace(PLAN, prune=replace(SOME, prefixes=("a",)), prunable=1),
            "it deletes ACLs that its `prune` leaves alone",
        ),
        (replace(PLAN, prune=Prune(), prunable=0), "it deletes ACLs that its `prune` leaves alone"),
        (replace(PLAN, prunable=0), "its `prunable` is not 2"),
        (replace(PLAN, prunable=10**9), "its `prunable` is not 2"),
        (replace(PLAN, unchanged=0), "its `unchanged`, `left_alone`, changes and deletes do not make up 2 ACLs"),
        (replace(PLAN, left_alone=1), "its `unchanged`, `left_alone`, changes and deletes do not make up 2 ACLs"),
    ],
)
def test_a_plan_that_was_made_of_nothing_like_it_is_refused(plan: Plan, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_plan("plan.json", plan, THERE)
    assert str(refused.value) == f"--plan: `plan.json` does not match the ACLs that it was made from: {why}; plan again"


def test_the_bound_on_deletes_holds_whatever_the_plan_says() -> None:
    refusal = Limits().refusal(replace(PLAN, prunable=0))
    assert refusal is not None
    assert refusal.startswith("1 of 1 ACLs would be deleted (100 %)")
