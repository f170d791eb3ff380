"""Ends and owners in a plan: what it changes, what it leaves, how it says so, and what is carried out."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.client.http.access import Access
from app.client.http.service import Service
from app.client.plan.apply import carry_out
from app.client.plan.markdown import plan_page
from app.client.plan.output import plan_body, print_plan
from app.client.plan.planning import Plan, Prune, check_plan, load_plan, make_plan, save_plan
from app.client.plan.wanted import read_wanted
from app.core.access.diff import AccessDiff
from app.core.kafka.bindings import KEEP, NO_TERMS, AclBinding, AclTerms, NewAcl
from app.formats.command_errors import UsageError
from app.formats.file_flags import FileFlags
from app.formats.registry import FORMATS, AclFormat, format_named
from tests.saved_plans import fields_of, write_sealed
from tests.scripted_server import ScriptedServer, reply
from tests.updates import topic

END, LATER = datetime(2999, 12, 1, 18, tzinfo=UTC), datetime(2999, 12, 2, tzinfo=UTC)
EPOCH = "5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11"
TOKEN = f"{EPOCH}:42"


def plan_of(*desired: NewAcl, there: dict[AclBinding, AclTerms]) -> Plan:
    return make_plan({each.binding: each for each in desired}, there, TOKEN, Prune(wanted=True))


PLAN = plan_of(
    NewAcl(topic("a"), LATER, "bob"),
    NewAcl(topic("b"), None, None),
    NewAcl(topic("c")),
    NewAcl(topic("d"), END),
    NewAcl(topic("new"), END, "x\u202e"),
    there={
        topic("a"): AclTerms(END, "o"),
        topic("b"): AclTerms(END, "o"),
        topic("c"): AclTerms(END, "o"),
        topic("d"): AclTerms(END, "o"),
        topic("old"): AclTerms(END, "o"),
    },
)


def shown(plan: Plan) -> str:
    out = io.StringIO()
    print_plan(plan, AccessDiff(), out, config_known=True)
    return out.getvalue()


def test_other_terms_are_a_change_of_the_acl_and_none_said_are_none() -> None:
    assert shown(PLAN) == (
        '  + ALLOW User:alice READ on TOPIC new until 2999-12-01T18:00:00Z, owner "x\\u202e"\n'
        '  - ALLOW User:alice READ on TOPIC old until 2999-12-01T18:00:00Z, owner "o"\n'
        "  ~ ALLOW User:alice READ on TOPIC a: until 2999-12-02T00:00:00Z instead of until 2999-12-01T18:00:00Z; "
        'owner "bob" instead of "o"\n'
        "  ~ ALLOW User:alice READ on TOPIC b: for ever instead of until 2999-12-01T18:00:00Z; "
        'owner nobody instead of "o"\n'
        "1 to create, 2 to change, 1 to delete, 2 unchanged.\n"
        "\nNobody gains or loses any access.\n"
    )


def test_programs_and_pull_requests_see_them_too() -> None:
    body = plan_body(PLAN, AccessDiff(), config_known=True)
    changed = body["change"]
    assert isinstance(changed, list)
    assert (changed[0]["expires_at"], changed[0]["owner"]) == ("2999-12-02T00:00:00Z", "bob")
    assert changed[0]["before"] == {"expires_at": "2999-12-01T18:00:00Z", "owner": "o"}
    page = plan_page(PLAN, AccessDiff(), None, config_known=True, files=1)
    assert "**ACLs to change** (2)" in page
    assert "| End and owner |" in page


def test_a_change_alone_is_something_to_do() -> None:
    plan = plan_of(NewAcl(topic("a"), KEEP, "me"), there={topic("a"): NO_TERMS})
    assert not plan.is_empty
    assert 'owner "me" instead of nobody' in shown(plan)


def test_they_survive_in_a_saved_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save_plan(str(path), "http://klamm:8080", PLAN, force=False)
    assert load_plan(str(path)) == ("http://klamm:8080", PLAN)


def test_a_saved_plan_that_changes_what_is_other_meanwhile_does_not_fit() -> None:
    there = {each: AclTerms(END, "o") for each in map(topic, ("a", "b", "c", "d", "old"))}
    check_plan("plan.json", PLAN, there)
    with pytest.raises(UsageError, match="it changes ACLs that do not exist, or that have another end or owner"):
        check_plan("plan.json", PLAN, {**there, topic("a"): AclTerms(END, "other")})


@pytest.mark.parametrize("field", [{"expires_at": "soon"}, {"owner": ""}, {"before": {}}, {"owner": 7}])
def test_a_saved_plan_with_wrong_terms_is_refused(tmp_path: Path, field: dict[str, object]) -> None:
    path = tmp_path / "plan.json"
    save_plan(str(path), "", PLAN, force=False)
    fields = fields_of(path)
    fields["change"][0] |= field
    write_sealed(path, fields)
    with pytest.raises(UsageError, match="is not a plan"):
        load_plan(str(path))


def test_changes_are_made_between_creates_and_deletes_with_the_comment() -> None:
    def at(offset: int) -> str:
        return f"{EPOCH}:{offset}"

    ok = {"error_code": 0, "code": "NONE", "error_message": None, "id": "4f3e2d1c-6b7a-4859-9c0d-1e2f3a4b5c55"}
    script = (
        reply(results=[{**ok, "created": True}], token=at(43)),
        reply(results=[{**ok, "created": False}] * 2, token=at(44)),
        reply(results=[{**ok, "matches": []}], token=at(45)),
    )
    with ScriptedServer(*script) as server, Service(Access(server.url, "User:admin", timeout_s=5.0)) as service:
        with pytest.raises(Exception, match=r"1 of 1 ACLs created, 2 of 2 changed and 0 of 1 deleted"):
            carry_out(service, PLAN, lambda _: None, "OPS-7")
        bodies = [seen.body for seen in server.seen]
    assert [each["comment"] for each in bodies] == ["OPS-7"] * 3
    assert [each["if_unchanged_since"] for each in bodies] == [TOKEN, at(43), at(44)]
    assert [(each["expires_at"], each["owner"]) for each in bodies[1]["bindings"]] == [
        ("2999-12-02T00:00:00Z", "bob"),
        (None, None),
    ]


def written(path: Path, *acls: NewAcl, name: str = "jsonl") -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        format_named(name).write(acls, file)
    return str(path)


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_a_file_that_can_not_say_terms_takes_none_away(tmp_path: Path, each: AclFormat) -> None:
    acl = NewAcl(topic("a"), None, None)
    wanted = read_wanted([written(tmp_path / "acls", acl, name=each.name)], FileFlags(each.name))
    plan = make_plan(wanted.acls, {topic("a"): AclTerms(END, "o")}, TOKEN, Prune(wanted=True))
    # In CSV no ACL has terms, so there are no columns for them.
    says = each.says_terms and each.name != "csv"
    assert plan.is_empty is not says


def test_files_that_say_different_terms_of_an_acl_are_refused(tmp_path: Path) -> None:
    one = written(tmp_path / "a", NewAcl(topic("a"), END, KEEP))
    other = written(tmp_path / "b", NewAcl(topic("a"), KEEP, "me"))
    assert read_wanted([one, other]).acls[topic("a")] == NewAcl(topic("a"), END, "me")
    third = written(tmp_path / "c", NewAcl(topic("a"), None, "me"))
    with pytest.raises(
        UsageError, match=r"c:1: .* has two different values of `expires_at` here and in `.*a`; keep one"
    ):
        read_wanted([one, third])
    with pytest.raises(UsageError, match=r"d:2: .* two different values of `owner` in this file; keep one"):
        read_wanted([written(tmp_path / "d", NewAcl(topic("a"), END, "x"), NewAcl(topic("a"), END, "y"))])


def test_an_acl_whose_end_has_passed_is_not_wanted_any_more(tmp_path: Path) -> None:
    past = datetime(2001, 1, 1, tzinfo=UTC)
    wanted = read_wanted([written(tmp_path / "a", NewAcl(topic("a"), past), NewAcl(topic("b"), END))])
    assert set(wanted.acls) == {topic("b")}
    err = io.StringIO()
    wanted.print_sources("klamm plan", err)
    assert err.getvalue().endswith("a`: 1 ACL, and 1 ACL that ended\n")
    # Taken for a wish, it would be the wish to have no ACL at all.
    with pytest.raises(UsageError, match="have no ACL that is still in effect"):
        read_wanted([written(tmp_path / "c", NewAcl(topic("a"), past - timedelta(1)))])
