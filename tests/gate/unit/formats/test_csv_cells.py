"""No cell that is written begins, in any reader's eyes, like a formula; and each is read back as it was."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formats.csv_cells import is_formula, marked, unmarked

LEADS = "=+-@\uff1d\uff0b\uff0d\uff20"
TEXTS = st.text(st.sampled_from(f"{LEADS}';|,\t\r\n \u00a0\ufeff\x00\x0b\"ab1")) | st.text()


def test_a_cell_is_marked_where_it_may_begin(subtests: pytest.Subtests) -> None:
    for text, cell in [
        ("orders", "orders"),
        ("it's=x", "it's=x"),
        ("'tis", "'tis"),
        ("User:=x", "User:=x"),
        ("*", "*"),
        ('=HYPERLINK("http://x","y")', '\'=HYPERLINK("http://x","y")'),
        ("'=x", "''=x"),
        ("''=x", "'''=x"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\uff1dx", "'\uff1dx"),
        ("\uff0bx", "'\uff0bx"),
        ("\uff0dx", "'\uff0dx"),
        ("\uff20x", "'\uff20x"),
        ("\tx", "'\t'x"),
        ("\rx", "'\r'x"),
        ("\nx", "'\n'x"),
        (" =x", "' =x"),
        ("\ufeff=x", "'\ufeff=x"),
        ("a;=x;b", "'a;'=x;'b"),
        ("a|=x", "'a|'=x"),
        ("a\n=x", "'a\n'=x"),
        ("a\t'=x", "'a\t''=x"),
        ("a, =x", "a, =x"),
        ('"=x', "'\"=x"),
        ('a;"=x"', "'a;'\"=x\""),
    ]:
        with subtests.test(text=text, cell=cell):
            assert marked(text) == cell
            assert unmarked(cell) == text


@given(TEXTS)
def test_every_text_is_read_back(text: str) -> None:
    assert unmarked(marked(text)) == text


@given(TEXTS)
def test_no_part_that_a_spreadsheet_splits_off_begins_like_a_formula(text: str) -> None:
    for part in re.split("[;|\t\r\n]", marked(text)):
        # White space, quotes and what is not seen may be taken away.
        assert not re.sub('^[\\s"\x00-\x20\u00a0\ufeff]+', "", part).startswith(tuple(LEADS))


@given(TEXTS, TEXTS)
def test_two_texts_never_make_one_cell(one: str, other: str) -> None:
    assert (marked(one) == marked(other)) is (one == other)


@given(TEXTS)
def test_a_cell_that_lost_its_mark_is_never_taken_for_the_text(text: str) -> None:
    if is_formula(text):
        assert unmarked(text) != text


def test_a_missing_mark_is_seen(subtests: pytest.Subtests) -> None:
    for cell in ["=x", "+1", "'a;=x", "a;'=x", "'\tx", "\t'x"]:
        with subtests.test(cell=cell):
            assert unmarked(cell) is None


@pytest.mark.parametrize("unit", ["\t", " ", "'", ";", "\t ", ";'", "\u00a0"])
def test_the_time_grows_with_the_length_and_no_faster(unit: str) -> None:
    # Quadratic work would take hours.
    text = unit * 500_000 + "a"
    assert unmarked(marked(text)) == text
