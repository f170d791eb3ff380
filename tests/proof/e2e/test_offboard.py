"""`klamm offboard` against a real service: all that a principal has goes, by a plan that somebody has reviewed."""

from pathlib import Path

import pytest

from app.client.http.replies import ServiceError
from app.client.plan import apply, offboard
from app.client.reach import who as who_command
from app.formats.command_errors import UsageError
from tests.client_runs import Run, run
from tests.klamm import SUPER_USER, Process, acl, context


@pytest.fixture
def company(service: Process) -> Process:
    service.delete({})
    service.create(
        acl("orders", "User:leaver"),
        acl("pay", "User:leaver", "WRITE", pattern_type="PREFIXED", host="10.0.0.0/8"),
        acl("orders", "User:leaver", "ALTER", permission_type="DENY"),
        acl("orders", "User:*", "ALTER"),
        acl("orders", "User:stayer", owner="leaver"),
        acl("other", "User:stayer"),
        acl("User:leaver", "User:stayer", "CREATE_TOKENS", resource_type="USER"),
    )
    return service


def klamm(service: Process, *words: str) -> Run:
    return run(offboard, [*words, "--klamm", service.url, "--as", SUPER_USER])


def carried_out(service: Process, path: Path, *words: str) -> Run:
    return run(apply, ["--plan", str(path), "--yes", "--klamm", service.url, "--as", SUPER_USER, *words])


def test_all_that_a_principal_has_goes_and_nothing_else(company: Process, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    shown = klamm(company, "User:leaver", "--save", str(path))
    text = shown.text
    assert shown.code == 0
    assert "- DENY User:leaver ALTER on TOPIC orders" in text
    assert "0 to create, 3 to delete, 4 unchanged." in text
    assert "Access lost:\n  User:leaver: " in text
    assert "Access gained:\n  User:leaver: ALTER on TOPIC orders" in text
    assert "that name User:leaver as owner; they stay (1)\n  ALLOW User:stayer READ on TOPIC orders" in text
    assert "on User:leaver itself; they stay (1)\n  ALLOW User:stayer CREATE_TOKENS on USER User:leaver" in text
    assert f"klamm apply --plan {path} --max-delete-percent 100" in text
    assert len(company.acls()) == 7

    assert "3 deleted" in carried_out(company, path, "--max-delete-percent", "100").text
    assert {each["principal"] for each in company.acls()} == {"User:*", "User:stayer"}
    assert len(company.acls()) == 4
    again = klamm(company, "User:leaver")
    assert (again.code, "User:leaver has no ACLs" in again.text) == (0, True)


def test_a_plan_is_good_for_the_state_that_was_reviewed_only(company: Process, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    klamm(company, "User:leaver", "--save", str(path))
    company.create(acl("new", "User:leaver"))
    with pytest.raises(ServiceError, match="have changed since the plan was made"):
        carried_out(company, path, "--max-delete-percent", "100")
    assert len(company.acls()) == 8


def test_what_members_of_a_group_lose_is_shown_though_a_super_user_has_its_name(company: Process) -> None:
    company.create(acl("orders", "Group:leavers"))
    configs = [{"name": "super.users", "value": f"{SUPER_USER};Group:leavers"}]
    company.post("/v1/configs", {"context": context(), "configs": configs})
    try:
        text = klamm(company, "Group:leavers").text
        assert "Access lost:\n  Group:leavers: READ on TOPIC orders" in text
        assert "a principal of this name, not a member of the group, may do everything" in text
        who = run(who_command, ["topic:orders", "--klamm", company.url, "--as", SUPER_USER]).text
        assert "Group:leavers from any host: READ" in who
        assert "a super user `Group:NAME` is a principal of that name" in " ".join(who.split())
    finally:
        company.post("/v1/configs", {"context": context(), "configs": [{"name": "super.users", "value": None}]})


def test_who_is_misspelt_or_a_super_user_is_told(company: Process) -> None:
    assert "did you mean User:leaver?" in klamm(company, "User:leavr").text
    company.create(acl("orders", "User:root"))
    company.post(
        "/v1/configs", {"context": context(), "configs": [{"name": "super.users", "value": f"{SUPER_USER};User:root"}]}
    )
    try:
        assert "until it is removed from super.users" in klamm(company, "User:root").text
        assert klamm(company, "User:root", "--output", "json").json["super_user"] is True
    finally:
        company.post("/v1/configs", {"context": context(), "configs": [{"name": "super.users", "value": None}]})


def test_everybody_does_not_leave(company: Process) -> None:
    with pytest.raises(UsageError, match="name one principal"):
        klamm(company, "User:*")
