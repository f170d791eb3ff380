"""Saved plans come back as they were, and nothing else is taken for one."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from app.client.plan.planning import Limits, Plan, Prune, check_plan, load_plan, make_plan, save_plan
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_bodies import acl_body
from app.formats.command_errors import UsageError
from tests.saved_plans import fields_of, write_sealed
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


def save(path: Path, plan: Plan = PLAN, *, force: bool = False) -> None:
    save_plan(str(path), "http://klamm:8080", plan, force=force)


def test_a_plan_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save(path)
    assert load_plan(str(path)) == ("http://klamm:8080", PLAN)
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_plan_replaces_a_file_only_if_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("an older one")
    with pytest.raises(UsageError, match=r"--save: .* exists already; name another file, or replace it with --force"):
        save(path)
    assert path.read_text() == "an older one"
    path.chmod(0o644)
    save(path, force=True)
    assert load_plan(str(path)) == ("http://klamm:8080", PLAN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_plan_that_can_not_be_saved_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--save: there is no folder `.*none`"):
        save(tmp_path / "none" / "plan.json")
    (tmp_path / "folder").mkdir()
    for force in (False, True):
        with pytest.raises(UsageError, match=r"--save: .*folder` is not a regular file"):
            save(tmp_path / "folder", force=force)
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_a_plan_with_an_acl_that_was_added_by_hand_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save(path)
    body = json.loads(path.read_text())
    added = {**body["create"][0], "principal": "User:mallory", "permission_type": "ALLOW"}
    for edited in ({**body, "create": [*body["create"], added]}, {**body, "sha256": "0" * 64}, {**body, "more": 1}):
        path.write_text(json.dumps(edited))
        with pytest.raises(UsageError, match=r"--plan: `.*` has been edited since it was saved; plan again"):
            load_plan(str(path))
    del body["sha256"]
    path.write_text(json.dumps(body))
    with pytest.raises(UsageError, match="has been edited"):
        load_plan(str(path))


def test_a_plan_that_was_only_written_in_another_way_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save(path)
    body = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(body.items())), ensure_ascii=False, indent=8))
    assert load_plan(str(path)) == ("http://klamm:8080", PLAN)


@pytest.mark.parametrize(("version", "which"), [(1, "an earlier"), (2, "an earlier"), (4, "a later")])
def test_a_plan_of_another_version_is_refused_with_the_way_out(tmp_path: Path, version: int, which: str) -> None:
    path = tmp_path / "plan.json"
    save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "klamm_plan": version}))
    with pytest.raises(UsageError, match=f"is a plan that {which} version of klamm has saved; plan again with this"):
        load_plan(str(path))


@pytest.mark.parametrize(
    "change",
    [
        {"token": "garbage"},
        {"create": {}},
        {"create": [{}]},
        {"create": None},
        {"unchanged": "1"},
        {"prunable": -1},
        {"prunable": True},
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
    save(path)
    write_sealed(path, {**fields_of(path), **change})
    with pytest.raises(UsageError, match="is not a plan that this version of klamm has saved"):
        load_plan(str(path))


@pytest.mark.parametrize("version", [True, 3.0, "3", None])
def test_a_version_that_is_no_whole_number_is_refused(tmp_path: Path, version: object) -> None:
    path = tmp_path / "plan.json"
    save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "klamm_plan": version}))
    with pytest.raises(UsageError, match="is not a plan that this version of klamm has saved"):
        load_plan(str(path))


@pytest.mark.parametrize("field", ["operation", "principal", "resource_name"])
def test_an_acl_that_could_not_be_created_is_refused(tmp_path: Path, field: str) -> None:
    path = tmp_path / "plan.json"
    save(path)
    fields = fields_of(path)
    fields["create"][0][field] = {"operation": "FLY", "principal": "nobody", "resource_name": ""}[field]
    write_sealed(path, fields)
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
    save(path, make_plan(wanted({acl("a")}), termless({acl("b"), acl("c")}), TOKEN, ALL))
    text = path.read_text()
    assert text.count(key) == 1
    path.write_text(text.replace(key, f"{key}, {again}"))
    with pytest.raises(UsageError, match="is not a plan"):
        load_plan(str(path))


@pytest.mark.parametrize("prune", [Prune(), ALL, SOME, replace(SOME, prefixes=("b",))])
def test_a_plan_fits_what_it_was_made_of(prune: Prune) -> None:
    for desired in (frozenset[AclBinding](), frozenset({acl("a"), acl("x")}), frozenset(THERE)):
        check_plan("plan.json", make_plan(wanted(desired), THERE, TOKEN, prune), THERE)


def test_a_plan_that_was_made_of_nothing_like_it_is_refused(subtests: pytest.Subtests) -> None:
    for plan, why in [
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
    ]:
        with subtests.test(plan=plan, why=why):
            with pytest.raises(UsageError) as refused:
                check_plan("plan.json", plan, THERE)
            assert (
                str(refused.value)
                == f"--plan: `plan.json` does not match the ACLs that it was made from: {why}; plan again"
            )


def test_the_bound_on_deletes_holds_whatever_the_plan_says() -> None:
    refusal = Limits().refusal(replace(PLAN, prunable=0))
    assert refusal is not None
    assert refusal.startswith("1 of 1 ACLs would be deleted (100 %)")
