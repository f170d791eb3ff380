"""A plan as people and programs see it."""

import io
from collections.abc import Iterable

import pytest

from app.client.console import MAX_LINES
from app.client.plan.output import plan_body, print_plan
from app.client.plan.planning import Prune, make_plan
from app.core.access.diff import AccessDiff, access_diff
from app.core.kafka.bindings import AclBinding
from app.core.kafka.configs import AuthorizerConfig
from tests.client_runs import Terminal
from tests.updates import termless, wanted


def acl(text: str) -> AclBinding:
    """The seven words, parted by `|`."""
    return AclBinding.from_words(text.split("|"))


def shown(
    desired: Iterable[str],
    there: Iterable[str],
    out: io.StringIO | None = None,
    *,
    max_questions: int = 10_000,
    config: AuthorizerConfig | None = None,
) -> str:
    before = termless(map(acl, there))
    plan = make_plan(wanted(map(acl, desired)), before, "e:1", Prune(wanted=True))
    access = access_diff(before, plan.after(before), config or AuthorizerConfig(), max_questions)
    printed = out or io.StringIO()
    print_plan(plan, access, printed, config_known=config is not None)
    return printed.getvalue()


def test_people_see_what_is_created_and_deleted_and_whose_access_changes() -> None:
    text = shown(
        ["TOPIC|pay|PREFIXED|User:*|10.0.0.0/8|READ|ALLOW", "TOPIC|*|LITERAL|User:bob|*|ALL|ALLOW"],
        ["TOPIC|payroll|LITERAL|User:alice|*|WRITE|ALLOW", "TOPIC|*|LITERAL|User:bob|*|ALL|ALLOW"],
        config=AuthorizerConfig(super_users=frozenset({"User:admin"})),
    )
    assert text == (
        "  + ALLOW User:* READ on TOPIC prefix pay from 10.0.0.0/8\n"
        "  - ALLOW User:alice WRITE on TOPIC payroll\n"
        "1 to create, 1 to delete, 1 unchanged.\n"
        "\n"
        "Access lost:\n"
        "  User:alice: WRITE on TOPIC payroll\n"
        "  User:alice: DESCRIBE on TOPIC payroll from anywhere except 10.0.0.0/8\n"
        "\n"
        "Access gained:\n"
        "  every principal except User:admin, User:alice, User:bob: READ, DESCRIBE on TOPIC prefix pay "
        "from 10.0.0.0/8\n"
        "  User:alice: READ on TOPIC prefix pay from 10.0.0.0/8\n"
        "  User:alice: DESCRIBE on TOPIC prefix pay except payroll from 10.0.0.0/8\n"
    )


def test_whole_operation_sets_and_all_names_are_said_so() -> None:
    text = shown([], ["TOPIC|*|LITERAL|User:bob|*|ALL|ALLOW"], config=AuthorizerConfig())
    assert "  User:bob: ALL on TOPIC of any name\n" in text


def test_operations_that_mean_nothing_on_a_type_are_said_to() -> None:
    text = shown(["CLUSTER|kafka-cluster|LITERAL|User:a|*|READ|ALLOW"], [], config=AuthorizerConfig())
    assert "  User:a: DESCRIBE on CLUSTER kafka-cluster\n" in text
    text = shown(["GROUP|g|LITERAL|User:a|*|CREATE|ALLOW"], [], config=AuthorizerConfig())
    assert "  User:a: CREATE (never requested on GROUP) on GROUP g\n" in text


def test_names_that_could_be_taken_for_something_else_are_quoted_and_move_no_cursor() -> None:
    text = shown(["TOPIC|a b\x1b[31m|LITERAL|User:CN=x, O=y|*|READ|ALLOW"], [], config=AuthorizerConfig())
    assert '+ ALLOW "User:CN=x, O=y" READ on TOPIC "a b\\u001b[31m"' in text


def test_an_unknown_configuration_is_told() -> None:
    assert "may not read the service's configuration" in shown(["TOPIC|a|LITERAL|User:a|*|READ|ALLOW"], [])


def test_a_plan_that_changes_nobodys_access_says_so() -> None:
    text = shown(
        ["TOPIC|a|LITERAL|User:a|10.0.0.0/8|READ|ALLOW"],
        ["TOPIC|a|LITERAL|User:a|10.1.1.1/8|READ|ALLOW"],
        config=AuthorizerConfig(),
    )
    assert text.endswith("Nobody gains or loses any access.\n")


@pytest.mark.parametrize("there", [[], ["TOPIC|a|LITERAL|Group:pii|*|READ|DENY"]])
def test_a_change_of_a_groups_acls_says_what_the_rows_leave_to_its_members(there: list[str]) -> None:
    """A DENY of a group that has nothing itself is in no row, and takes from members what their own ACLs give."""
    desired = [] if there else ["TOPIC|a|LITERAL|Group:pii|*|READ|DENY"]
    text = shown([*desired, "TOPIC|a|LITERAL|User:a|*|READ|ALLOW"], [*there, "TOPIC|a|LITERAL|User:a|*|READ|ALLOW"])
    assert "a DENY of a group takes from its members what their own ACLs give" in " ".join(text.split())
    assert text.endswith("Nobody gains or loses any access without groups.\n")
    same = ["TOPIC|a|LITERAL|Group:pii|*|READ|DENY"]
    assert "of groups change" not in shown([*same, "TOPIC|a|LITERAL|User:a|*|READ|ALLOW"], same)


@pytest.mark.parametrize(
    ("count", "all_of_them"),
    [
        (0, "the file has no ACLs"),
        (1, "the one ACL of the file exists already"),
        (2, "all 2 ACLs of the file exist already"),
    ],
)
def test_nothing_to_do_is_one_line(count: int, all_of_them: str) -> None:
    same = [f"TOPIC|a|LITERAL|User:{n}|*|READ|ALLOW" for n in range(count)]
    assert shown(same, same) == f"Nothing to do: {all_of_them}.\n"


def test_long_lists_are_cut_and_say_so() -> None:
    text = shown([f"TOPIC|t{n}|LITERAL|User:a|*|READ|ALLOW" for n in range(MAX_LINES + 7)], [])
    assert text.count("  ... and 7 more; --output json shows all\n") == 2
    kept = [f"TOPIC|t|LITERAL|User:u{n:02}|*|READ|ALLOW" for n in range(12)]
    everyone = shown(["TOPIC|t|LITERAL|User:*|*|READ|ALLOW", *kept], kept, config=AuthorizerConfig())
    assert "every principal except User:u00, User:u01," in everyone
    assert "User:u07 and 4 more: READ" in everyone


def test_what_was_too_much_to_be_worked_out_is_told() -> None:
    text = shown(["TOPIC|a|LITERAL|User:a|*|READ|ALLOW"], [], max_questions=1)
    assert (
        "Too much to work out; access to this may be gained or lost as well:\n  User:a: 1 changed ACL on TOPIC\n"
        in text
    )
    assert "Nobody gains" not in text


def test_colour_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    acls = ["TOPIC|a|LITERAL|User:a|*|READ|ALLOW"]
    assert "\x1b[32m" in shown(acls, [], Terminal())
    assert "\x1b" not in shown(acls, [])
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shown(acls, [], Terminal())


def test_programs_get_everything() -> None:
    there = termless([acl("TOPIC|pay|PREFIXED|User:a|*|READ|ALLOW")])
    plan = make_plan(wanted([*there, acl("TOPIC|*|LITERAL|User:*|*|READ|ALLOW")]), there, "e:1", Prune())
    body = plan_body(plan, access_diff(there, plan.after(there), AuthorizerConfig()), config_known=True)
    assert body["token"] == "e:1"
    assert (body["unchanged"], body["left_alone"], body["unresolved"], body["delete"]) == (1, 0, [], [])
    access = body["access"]
    assert isinstance(access, list)
    assert access[0] == {
        "change": "gain",
        "principal": "User:*",
        "principals_except": ["User:a"],
        "host": "*",
        "hosts_except": [],
        "operations": ["READ", "DESCRIBE"],
        "resource_type": "TOPIC",
        "pattern_type": "LITERAL",
        "resource_name": "*",
        "names_except": [],
        "example": {"principal": "User:somebody-else", "client_address": "0.0.0.0", "resource_name": "x"},  # noqa: S104 - nothing is bound
    }
    assert access[1]["names_except"] == [{"pattern_type": "PREFIXED", "resource_name": "pay"}]


def test_an_empty_diff_prints_as_one() -> None:
    plan = make_plan({}, {}, "e:1", Prune())
    assert plan_body(plan, AccessDiff(), config_known=False)["access"] == []
