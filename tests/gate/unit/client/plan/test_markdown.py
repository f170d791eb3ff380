"""A plan in a pull request, as a real reader of Markdown shows it: no name breaks a table, long lists are counted."""

import html
import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.client.console import MAX_LINES
from app.client.plan.markdown import MAX_CHARACTERS, code, plan_page
from app.client.plan.planning import Prune, make_plan
from app.core.access.diff import access_diff
from app.core.kafka.bindings import AclBinding
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.formats.arguments import one_line
from tests.updates import termless, wanted

READER = MarkdownIt("commonmark", {"html": True}).enable("table")
GOOD = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
)
OLD = GOOD._replace(principal="User:bob", operation=AclOperation.WRITE)


def page(
    desired: Iterable[AclBinding],
    there: Iterable[AclBinding] = (),
    *,
    refusal: str | None = None,
    config_known: bool = True,
) -> str:
    before = termless(there)
    plan = make_plan(wanted(desired), before, "e:1", Prune(wanted=True))
    access = access_diff(before, plan.after(before), AuthorizerConfig())
    return plan_page(plan, access, refusal, config_known=config_known, files=1)


def rows(text: str) -> list[list[str]]:
    """The cells of all rows as a browser shows them, heads left out."""
    found = re.findall(r"<tr>\n((?:<td.*?</td>\n)+)</tr>", READER.render(text), re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in found]
    return [[html.unescape(re.sub(r"</?code>", "", cell)) for cell in row] for row in cells]


def test_what_access_changes_comes_first_and_then_the_acls() -> None:
    text = page([GOOD], [OLD])
    titles = re.findall(r"^\*\*(.*?)\*\* \((\d+)\)", text, re.MULTILINE)
    assert titles == [("Access lost", "1"), ("Access gained", "1"), ("ACLs to delete", "1"), ("ACLs to create", "1")]
    assert text.startswith("### klamm plan\n\n1 to create, 1 to delete, 0 unchanged.\n")
    assert rows(text) == [
        ["User:bob", "WRITE, DESCRIBE", "TOPIC orders", ""],
        ["User:alice", "READ, DESCRIBE", "TOPIC orders", ""],
        ["ALLOW", "User:bob", "WRITE", "TOPIC orders", ""],
        ["ALLOW", "User:alice", "READ", "TOPIC orders", ""],
    ]


def test_nothing_to_do_is_said_without_tables() -> None:
    assert page([GOOD], [GOOD]) == "### klamm plan\n\nNothing to do: the one ACL of the file exists already.\n"


def test_what_apply_would_refuse_and_what_is_not_known_is_said() -> None:
    text = page([], [OLD], refusal="1 of 1 ACLs would be deleted", config_known=False)
    assert "> **apply will refuse this:** 1 of 1 ACLs would be deleted" in text
    assert "> The caller may not read the service's configuration" in text


HOSTILE = [
    "a|b",
    "a\\|b",
    "a`b",
    "``|``",
    "<script>alert(1)</script>",
    "<!--",
    "</details>",
    "[x](javascript:alert(1))",
    "![x](http://e.example/x.png)",
    "*b* _i_ ~s~ **b**",
    "@team #12 GH-1",
    "http://e.example www.e.example",
    "line\nend | x |\r\n\n# head",
    "&lt;b&gt; &#124;",
    "\x1b[2J\u202e\u2028",
    " edges  and   runs ",
    "\\",
    "---",
    "|---|",
    "$`x`$",
]


def test_no_name_breaks_a_table_or_becomes_anything_but_text(subtests: pytest.Subtests) -> None:
    for name in HOSTILE:
        with subtests.test(name=name):
            acl = GOOD._replace(resource_name=name, principal=f"User:{name}", resource_type=ResourceType.GROUP)
            text = page([acl], [OLD])
            shown = READER.render(text)
            assert {len(row) for row in rows(text)} == {4, 5}
            assert set(re.findall(r"<(/?\w+)", shown)) <= {
                *("h3", "/h3", "p", "/p", "strong", "/strong", "code", "/code"),
                *("table", "/table", "thead", "/thead", "tbody", "/tbody", "tr", "/tr", "th", "/th", "td", "/td"),
            }
            assert len(rows(text)) == 4


_PIECES = st.lists(st.sampled_from([*HOSTILE, "|", "`", "\\", "<", "&", " ", "a", "\n", "_"]), max_size=6).map("".join)


@given(_PIECES | st.text(max_size=30))
def test_a_cell_shows_its_text_and_nothing_else(text: str) -> None:
    ((before, shown, after),) = rows(f"| a | b | c |\n|---|---|---|\n| x | {code(text)} | y |\n")
    assert (before, after) == ("x", "y")
    meant = re.sub(" {2,}", lambda found: "\\x20" * len(found[0]), one_line(text))
    assert shown.strip() == meant.strip()


def test_long_lists_and_long_names_are_cut_with_their_number() -> None:
    many = [GOOD._replace(resource_name=f"t{number:04}") for number in range(MAX_LINES + 50)]
    text = page(many)
    assert "... and 50 more; `--output json` shows all" in text
    assert len([row for row in rows(text) if row[0] == "ALLOW"]) == MAX_LINES

    long = [GOOD._replace(resource_name=f"{number:04}{'|' * 30_000}") for number in range(150)]
    text = page(long, [OLD])
    assert len(text) < MAX_CHARACTERS + 2_000
    assert "... (30004 characters)" not in text
    counted = [int(each) for each in re.findall(r"and (\d+) more", text)]
    assert counted
    shown = len([row for row in rows(text) if len(row) == 4]) + len([row for row in rows(text) if len(row) == 5])
    totals = sum(int(each) for each in re.findall(r"^\*\*.*\*\* \((\d+)\)", text, re.MULTILINE))
    assert shown + sum(counted) == totals
