"""What `klamm who` and `klamm what` print, from what the service answers."""

import csv
import io
from typing import Any
from uuid import UUID

import pytest

from app.client.reach.what import join_rows, print_holdings
from app.client.reach.who import print_holders
from app.core.kafka.codes import ResourceType
from app.formats.csv_cells import unmarked

ORDERS = (ResourceType.TOPIC, "orders")
NASTY = ("=cmd|' /C calc'!A0", "a|b`c<b>*x*", "new\nline", "\x1b[2J", "$(reboot)")


def acl(words: str, **more: object) -> dict[str, Any]:
    names = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    return {"id": str(UUID(int=1)), **dict(zip(names, words.split(), strict=True)), **more}


def holder(principal: str = "User:alice", host: str = "*", **more: object) -> dict[str, Any]:
    acls = [acl("TOPIC ord PREFIXED User:alice * READ ALLOW")]
    row = {"principal": principal, "host": host, "operations": ["READ"], "denied": [], "expires_at": None}
    return {**row, "acls": acls, "acl_count": 1, **more}


def who(*rows: dict[str, Any], form: str = "text", out: io.StringIO | None = None, **more: object) -> str:
    out = out or io.StringIO()
    reply = {"rows": list(rows), "super_users": [], "allowed_by_default": False, "token": "e:7", **more}
    print_holders(reply, ORDERS, ["READ"], form, out)
    return out.getvalue()


def what(*rows: dict[str, Any], form: str = "text", **more: object) -> str:
    out = io.StringIO()
    reply = {"rows": list(rows), "super_user": False, "allowed_by_default": False, "token": "e:7", **more}
    print_holdings(reply, "User:alice", form, out)
    return out.getvalue()


def test_who_can_is_told_row_by_row_with_its_acls() -> None:
    ends = "2030-01-31T18:00:00Z"
    denied = holder(host="10.1.0.0/16", operations=[], denied=["READ"], acl_count=22)
    assert who(holder(expires_at=ends), denied, super_users=["User:admin", "User:root"]) == (
        "Who can READ on topic:orders\n"
        "\n"
        "User:alice from any host: READ until 2030-01-31T18:00:00Z\n"
        "    ALLOW READ to User:alice from any host on topic:ord (PREFIXED: all names\n"
        "        with this prefix)\n"
        "\n"
        "User:alice from 10.1.0.0/16: nothing; denied READ\n"
        "    ALLOW READ to User:alice from any host on topic:ord (PREFIXED: all names\n"
        "        with this prefix)\n"
        "    and 21 more\n"
        "\n"
        "Note\n"
        "  nobody else can\n"
        "  if a principal has several lines, the narrowest matching host applies\n"
        "  super users can do everything from everywhere: User:admin, User:root\n"
        "\n"
        "As of e:7\n"
    )


def test_what_can_is_told_with_what_denies_cut_out() -> None:
    names = {"resource_type": "TOPIC", "pattern_type": "PREFIXED", "resource_name": "ord"}
    cut_out = [acl("TOPIC orders LITERAL User:* 10.1.2.3 ALL DENY", expires_at="2030-01-31T18:00:00Z")]
    row = {**names, **holder(), "cut_out": cut_out, "cut_out_count": 1}
    assert what(row) == (
        "What User:alice can do\n"
        "\n"
        "topic:ord (PREFIXED: all names with this prefix) from any host: READ\n"
        "    ALLOW READ to User:alice from any host on topic:ord (PREFIXED: all names\n"
        "        with this prefix)\n"
        "  except what these deny:\n"
        "    DENY ALL for User:* from 10.1.2.3 on topic:orders until 2030-01-31T18:00:00Z\n"
        "\n"
        "Note\n"
        "  it can do nothing else\n"
        "\n"
        "As of e:7\n"
    )
    assert list(csv.reader(io.StringIO(what(row, form="csv"))))[1] == [
        *("TOPIC", "PREFIXED", "ord", "*", "READ", "", "", "MatchingAcl"),
        "ALLOW READ to User:alice from any host on topic:ord (PREFIXED: all names with this prefix)",
        "DENY ALL for User:* from 10.1.2.3 on topic:orders until 2030-01-31T18:00:00Z",
    ]


def test_rows_of_one_pattern_and_host_are_joined() -> None:
    names = {"resource_type": "TOPIC", "pattern_type": "PREFIXED", "resource_name": "ord"}
    denies = [acl(f"TOPIC orders LITERAL User:* 10.1.2.{number} ALL DENY") for number in range(3)]
    one, other = {**names, **holder(), "cut_out_count": 3}, {**names, **holder(host="10.0.0.1"), "cut_out_count": 0}
    parts = [{**one, "cut_out": denies[:2]}, {**one, "cut_out": denies[2:]}, {**other, "cut_out": []}]
    assert join_rows(parts) == [{**one, "cut_out": denies}, {**other, "cut_out": []}]
    assert join_rows([]) == []
    text = what(*join_rows(parts))
    assert all(f"DENY ALL for User:* from 10.1.2.{number} on topic:orders" in text for number in range(3))


def test_what_no_row_says_is_said_in_a_note(subtests: pytest.Subtests) -> None:
    for found, note in [
        (who(), "no ACL allows anybody access"),
        (who(holder("User:*")), "everybody who is not listed has the access of User:*"),
        (who(allowed_by_default=True), "everybody can do everything"),
        (what(), "no ACL allows it anything"),
        (what(super_user=True), "it is a super user"),
        (what(allowed_by_default=True), "everything on resources without ACLs"),
    ]:
        with subtests.test(found=found, note=note):
            assert note in found.partition("\nNote\n")[2]


def test_tables_tell_super_users_and_the_default_too() -> None:
    table = list(csv.reader(io.StringIO(who(form="csv", super_users=["User:root"], allowed_by_default=True))))
    assert [dict(zip(table[0], row, strict=True))["rule"] for row in table[1:]] == ["SuperUser", "DefaultAllow"]
    assert "| `ANY` |" in what(form="markdown", super_user=True)
    assert "`SuperUser`" in what(form="markdown", super_user=True)


@pytest.mark.parametrize("name", NASTY)
def test_no_name_does_anything_to_whoever_reads_it(name: str) -> None:
    row = holder(f"User:{name}", acls=[{**acl("TOPIC x LITERAL y * READ ALLOW"), "principal": f"User:{name}"}])
    text = who(row)
    assert "\x1b" not in text
    assert text.count("\n") == who(holder(acls=[acl("TOPIC x LITERAL y * READ ALLOW")])).count("\n")
    markdown = who({**row, "principal": name}, form="markdown").splitlines()
    assert len(markdown) == 5
    assert len(markdown[4].replace("\\|", "").split("|")) == len(markdown[2].split("|"))
    (_, cells) = csv.reader(io.StringIO(who({**row, "principal": name}, form="csv"), newline=""))
    assert unmarked(cells[0]) == name
    assert who(row, form="json").isascii()


def test_a_terminal_gets_csv_without_what_would_move_its_cursor() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert "\x1b" not in who(holder("\x1b[2J"), form="csv", out=Terminal())
    assert "\x1b" in who(holder("\x1b[2J"), form="csv")


def test_super_users_that_are_not_shown_are_never_none(capsys: pytest.CaptureFixture[str]) -> None:
    def told(form: str) -> str:
        out = who(holder(), form=form, super_users_shown=False)
        return " ".join((out if form != "csv" else capsys.readouterr().err).split())

    for form in ("text", "csv", "markdown"):
        assert "super users can do everything from everywhere; who they are is not shown" in told(form), form
        assert "DescribeConfigs" in told(form), form
    for form in ("text", "markdown"):
        assert "not shown" not in who(holder(), form=form, super_users_shown=True)
        # An earlier version shows them always, and does not say so.
        assert "not shown" not in who(holder(), form=form)
    assert not capsys.readouterr().err
