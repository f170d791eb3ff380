"""JSON strings for logs."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.logs.json_text import json_content, json_string

ANY_TEXT = st.text(st.characters(), max_size=50)


@given(ANY_TEXT)
def test_what_is_read_is_what_was_written(text: str) -> None:
    written = json_string(text)
    assert json.loads(written) == text
    assert written.isprintable()
    assert written == f'"{json_content(text)}"'


@given(st.text(st.characters(categories=["Cs"]), min_size=1, max_size=1))
def test_lone_surrogates_are_escaped(text: str) -> None:
    assert json_string(text) == f'"\\u{ord(text):04x}"'


def test_every_character_of_control_order_and_no_width_is_escaped() -> None:
    for code in range(0x110000):
        each = chr(code)
        if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp", "Cs"):
            assert each not in json_string(f"a{each}b"), hex(code)


def test_letters_of_all_languages_stay(subtests: pytest.Subtests) -> None:
    for text in ["\xe9", "e\u0301", "\u65e5\u672c", "\u0627", "\U0001f600", "a b"]:
        with subtests.test(text=text):
            assert json_string(text) == f'"{text}"'


def test_what_json_has_a_meaning_for_is_escaped(subtests: pytest.Subtests) -> None:
    for text in ['"', "\\", '\\"', "a\\nb", "\u2028\\", '\x7f"']:
        with subtests.test(text=text):
            assert json_string(text) == f'"{json_content(text)}"'
            assert json.loads(f'"{json_content(text)}"') == text


def test_a_character_beyond_the_first_plane_is_a_pair() -> None:
    assert json_string("\U000e0001") == '"\\udb40\\udc01"'
