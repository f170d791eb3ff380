"""Texts of who, what and test fit 80 columns where no terminal says how wide it is."""

import io

from app.client.console import Page
from tests.client_runs import Terminal

LONG = "ALLOW READ to User:svc-payments from any host on topic:payments. (PREFIXED: all names with this prefix)"


def test_lines_go_on_further_indented() -> None:
    out = io.StringIO()
    page = Page(out, wrapped=True)
    page.line(LONG, indent=2)
    page.line(LONG, before="FAILED")
    assert out.getvalue() == (
        "    ALLOW READ to User:svc-payments from any host on topic:payments. (PREFIXED:\n"
        "        all names with this prefix)\n"
        "FAILED ALLOW READ to User:svc-payments from any host on topic:payments.\n"
        "    (PREFIXED: all names with this prefix)\n"
    )


def test_a_name_is_never_broken() -> None:
    out = io.StringIO()
    Page(out, wrapped=True).line(f"to User:{'a-b/' * 40} on topic:x")
    assert "a-b/" * 40 in out.getvalue()


def test_a_terminal_says_how_wide_it_is_and_what_is_to_be_copied_is_not_wrapped() -> None:
    wide, plain = Terminal(), io.StringIO()
    Page(plain).line(LONG)
    assert plain.getvalue() == LONG + "\n"
    Page(wide, wrapped=True).line("x y")
    assert "x y" in wide.getvalue()
