"""Saved plans come back as they were, and nothing else is taken for one."""

import json
from pathlib import Path

import pytest

from app.client.faults import UsageError
from app.client.plan_file import load_plan, save_plan
from app.client.planning import Prune, make_plan
from app.core.bindings import AclBinding
from app.core.codes import AclOperation, AclPermissionType, PatternType, ResourceType

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


PLAN = make_plan(frozenset({acl("a"), acl("😀\n")}), frozenset({acl("b"), acl("a")}), TOKEN, Prune(wanted=True))


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
        {"klamm_plan": 2},
        {"token": "garbage"},
        {"create": {}},
        {"create": [{}]},
        {"create": None},
        {"unchanged": "1"},
        {"prunable": -1},
        {"more": 1},
    ],
)
def test_what_is_no_saved_plan_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "plan.json"
    save_plan(str(path), "", PLAN)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UsageError, match="is no plan that this version of klamm has saved"):
        load_plan(str(path))


@pytest.mark.parametrize("field", ["operation", "principal", "resource_name"])
def test_an_acl_that_could_not_be_created_is_refused(tmp_path: Path, field: str) -> None:
    path = tmp_path / "plan.json"
    save_plan(str(path), "", PLAN)
    body = json.loads(path.read_text())
    body["create"][0][field] = {"operation": "FLY", "principal": "nobody", "resource_name": ""}[field]
    path.write_text(json.dumps(body))
    with pytest.raises(UsageError, match="is no plan"):
        load_plan(str(path))


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b"{}", b"[" * 100_000])
def test_garbage_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match="is no plan"):
        load_plan(str(path))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match=r"--plan: `none.json` can't be read"):
        load_plan("none.json")
